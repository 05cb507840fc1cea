"""A disk cache of Triton's key, which is a hash of Triton's own files.

Each process that launches a kernel hashes all these files, among them a compiler of some hundred megabytes. If the
kernel itself is cached, this hashing takes most of the first call's time.
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
from kernelzoo.kernels.shared.absent import with_stubs

HASHED = ("compiler", "backends", "language", "runtime", "_C")
"""The folders of Triton's package whose files its key hashes."""


@contextmanager
def use_cached_key() -> Iterator[None]:
    """A context in which Triton first looks for its key in the disk cache. Only one compilation of this package may
    be in it at a time. Other compilations are unaffected."""
    import triton
    from triton.compiler import compiler
    from triton.runtime import cache

    original: Any = getattr(cache, "triton_key", None)
    folder = None
    with suppress(RuntimeError):  # a user who has no home
        folder = user_cache.folder("triton")
    if original is None or folder is None or getattr(original, "__wrapped__", None) is cached_key:
        yield
        return
    triton_key: Any = functools.partial(_remembered_key, original, Path(triton.__file__).parent, folder)
    triton_key.__wrapped__ = cached_key  # recognised above as a replacement
    modules = [module for module in (cache, compiler) if getattr(module, "triton_key", None) is original]
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(with_stubs(module, triton_key=triton_key))
        yield


def cached_key(original: Callable[[], str], root: Path, folder: Path) -> str:
    """Return the key of the Triton package in ``root``: cached in ``folder``, else computed by ``original``.

    The cached key is used if all files have the same names, sizes and times. An installation changes the times.
    """
    digest = hashlib.sha256(f"{sys.version} {root}".encode())
    for path, about in sorted(_stat_files(root)):
        digest.update(f"\n{path} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}".encode())
    name = digest.hexdigest()
    stored = code_cache.read_code(folder, name)
    if stored is not None:
        return stored.decode()
    key = original()
    code_cache.write_code(folder, name, key.encode())
    return key


_remembered_key = functools.cache(cached_key)


def _stat_files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    for folder in HASHED:
        for place, _, names in os.walk(root / folder):
            for name in names:
                if name.endswith((".py", ".so", ".pyd")):
                    path = os.path.join(place, name)
                    yield path, os.stat(path)
