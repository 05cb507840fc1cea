"""Triton's key of its own files, kept on disk.

Triton hashes all of its files anew in each process that launches a kernel, its compiler of some hundred megabytes among
them: of a first call whose kernel was compiled long ago that is the most.
"""

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from kernelzoo import user_cache
from kernelzoo.kernels.shared import code_cache
from kernelzoo.kernels.shared.absent import replaced

HASHED = ("compiler", "backends", "language", "runtime", "_C")
"""The folders of Triton's package that have what its key is made of."""


@contextmanager
def quick() -> Iterator[None]:
    """Within the context, this process's Triton looks for its key on disk first: for a compilation of ours, one at a
    time. Nothing is changed for anybody else's."""
    import triton
    from triton.compiler import compiler
    from triton.runtime import cache

    made: Any = getattr(cache, "triton_key", None)
    folder = None
    with suppress(RuntimeError):  # a user who has no home
        folder = user_cache.folder("triton")
    if made is None or folder is None or getattr(made, "__wrapped__", None) is kept:
        yield
        return
    triton_key: Any = functools.partial(_known, made, Path(triton.__file__).parent, folder)
    triton_key.__wrapped__ = kept  # which tells it from Triton's own
    modules = [module for module in (cache, compiler) if getattr(module, "triton_key", None) is made]
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(replaced(module, triton_key=triton_key))
        yield


def kept(made: Callable[[], str], root: Path, folder: Path) -> str:
    """The key of Triton's package in root: that in the folder, if it is of these very files, else as it is made.

    They are told by their names, sizes and times, of which an installation changes the last.
    """
    digest = hashlib.sha256(f"{sys.version} {root}".encode())
    for path, about in sorted(_files(root)):
        digest.update(f"\n{path} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}".encode())
    name = digest.hexdigest()
    held = code_cache.read(folder, name)
    if held is not None:
        return held.decode()
    key = made()
    code_cache.write(folder, name, key.encode())
    return key


_known = functools.cache(kept)


def _files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    for folder in HASHED:
        for place, _, names in os.walk(root / folder):
            for name in names:
                if name.endswith((".py", ".so", ".pyd")):
                    path = os.path.join(place, name)
                    yield path, os.stat(path)
