"""Machine code kept on disk, so that a kernel is compiled once per user and not once per process.

Numba's own cache leaves out what closures hold; a kernel here is all closure. So the key says all that machine code
depends on: this package's text, the kernel's constants, and the versions of what compiles it. There is no cache where
the folder can't be read or written, or others can write to it.
"""

import hashlib
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from numba.cuda.cudadrv.nvvm import NVVM

from kernelzoo import user_cache
from kernelzoo.kernels.shared import code_cache


def folder() -> Path:
    """This backend's part of the user's folder for caches, which may be deleted at any time."""
    return user_cache.folder("numba")


def stored(identity: tuple[object, ...], capability: tuple[int, int]) -> tuple[str, bytes] | None:
    """The name and machine code of the kernel of that identity, or None if they are not there whole."""
    with suppress(RuntimeError):  # a user without a home
        held = code_cache.read(folder(), _file(identity, capability))
        if held is not None:
            name, _, cubin = held.partition(b"\0")
            return name.decode(), cubin
    return None


def store(identity: tuple[object, ...], capability: tuple[int, int], name: str, cubin: bytes) -> None:
    """Keep a kernel's machine code, if the folder can be written. Another process sees all of it or nothing."""
    with suppress(RuntimeError):
        code_cache.write(folder(), _file(identity, capability), name.encode() + b"\0" + cubin)


def _file(identity: tuple[object, ...], capability: tuple[int, int]) -> str:
    key = (_compiler(), capability, identity)
    return f"{hashlib.sha256(repr(key).encode()).hexdigest()}.bin"


@cache
def _compiler() -> str:
    """What turns a kernel's constants into machine code: this package's text, and the versions of its compilers."""
    packages = {name: version(name) for name in ("numba", "numba-cuda", "llvmlite", "cuda-core", "numpy")}
    return repr((text_of(Path(__file__).parent), packages, platform.python_version(), NVVM().get_version()))


def text_of(package: Path) -> str:
    """A digest of all modules below a folder."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
