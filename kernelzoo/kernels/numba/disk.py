"""Machine code kept on disk, so that a kernel is compiled once per user and not once per process.

Numba's own cache on disk takes files of a decorated function and leaves out what closures hold; a kernel here is all
closure. So the key says everything that the machine code depends on: the text of this package, the constants that the
kernel was made with, and the versions of what compiles it. Where the folder can't be read or written there is no cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from numba.cuda.cudadrv.nvvm import NVVM

from kernelzoo import cache as kept

if TYPE_CHECKING:
    from kernelzoo.kernels.numba.launch import Source

_DIGEST = hashlib.sha256().digest_size


def folder() -> Path:
    """This backend's part of the user's folder for caches, which may be deleted at any time."""
    return kept.folder("numba")


def stored(source: Source, capability: tuple[int, int]) -> tuple[str, bytes] | None:
    """The kernel's name and machine code, or None if they are not there whole."""
    try:
        held = _path(source, capability).read_bytes()
    except (OSError, RuntimeError):  # the latter is a user without a home
        return None
    digest, content = held[:_DIGEST], held[_DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        return None
    name, _, cubin = content.partition(b"\0")
    return name.decode(), cubin


def store(source: Source, capability: tuple[int, int], name: str, cubin: bytes) -> None:
    """Keep a kernel's machine code, if the folder can be written. Another process sees all of it or nothing."""
    with suppress(OSError, RuntimeError):
        path = _path(source, capability)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = name.encode() + b"\0" + cubin
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            Path(partial).replace(path)
        except OSError:
            Path(partial).unlink(missing_ok=True)
            raise


def _path(source: Source, capability: tuple[int, int]) -> Path:
    made_with = (source.constants, source.arguments, source.threads, source.blocks)
    key = (_compiler(), capability, source.function.__qualname__, made_with)
    return folder() / f"{hashlib.sha256(repr(key).encode()).hexdigest()}.bin"


@cache
def _compiler() -> str:
    """What turns a kernel's constants into machine code: this package's text, and the versions of its compilers."""
    text = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        text.update(file.name.encode() + b"\0" + file.read_bytes())
    packages = {name: version(name) for name in ("numba", "numba-cuda", "llvmlite", "cuda-core", "numpy")}
    return repr((text.hexdigest(), packages, platform.python_version(), NVVM().get_version()))
