"""The host's C++ compiler, or one from PyPI, and the libraries that it has made, kept between runs."""

import contextlib
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kernelzoo import user_cache
from kernelzoo.files import write_atomically
from kernelzoo.kernels.shared import code_cache

_FLAGS = ("-std=c++17", "-fPIC", "-shared", "-w", "-fno-exceptions", "-fno-rtti")


class CompilerError(RuntimeError):
    """The code can't be compiled."""


@functools.cache
def compiler() -> tuple[str, ...]:
    """The command of a C++ compiler; empty if there is none."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return (path,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc", "-x", "c++")  # as c++ it would make a C++ library first
    return ()


@functools.cache
def _version() -> str:
    return subprocess.run([*compiler(), "--version"], capture_output=True, text=True, check=True).stdout


@functools.cache
def _folder() -> Path:
    """Where libraries are kept, for all processes of a run; those that nobody used for a week go."""
    folder = user_cache.folder("emulated")
    folder = code_cache.check_cache_folder("KERNELZOO_EMULATED", folder) or folder
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > 7 * 24 * 3600:
                file.unlink()
    return folder


def kept(make: Callable[[], bytes], *key: str) -> bytes:
    """What was made once for such a key, or is made now."""
    file = _folder() / _digest(*key)
    if file.exists():
        os.utime(file)
        return file.read_bytes()
    content = make()
    write_atomically(file, content)
    return content


def compiled(code: str, *flags: str, header: str = "") -> Path:
    """A library made of the code, behind a header that many have in common. Raises CompilerError."""
    options = (*_FLAGS, *flags)
    made = _folder() / f"{_digest(*options, header, code)}.so"
    if made.exists():
        os.utime(made)
        return made
    if header and Path(compiler()[0]).name == "g++":  # which reads one that is compiled in a third of the time
        code = f'#include "{_precompiled(header, options)}"\n{code}'
    else:
        code = f"{header}\n{code}"
    return _made(made, code, *options, "-lm")


def _precompiled(header: str, options: tuple[str, ...]) -> Path:
    """The header as a file, beside which lies what the compiler made of it."""
    file = _folder() / f"{_digest(*options, header)}.hpp"
    made = file.with_name(f"{file.name}.gch")
    for path in (file, made):
        if path.exists():
            os.utime(path)
    if not made.exists():
        _made(made, header, *options, "-x", "c++-header")
    if not file.exists():
        write_atomically(file, header.encode())
    return file


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join((_version(), *parts)).encode()).hexdigest()[:24]


def _made(made: Path, code: str, *options: str) -> Path:
    """Compile the code to that file, which appears whole."""
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        source, result = Path(folder, "source.cpp"), Path(folder, "result")
        source.write_text(code, encoding="utf-8")
        # Libraries come behind what asks for them.
        first, last = ([o for o in options if o.startswith("-l") == libraries] for libraries in (False, True))
        command = [*compiler(), *first, "-o", str(result), str(source), *last]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompilerError(f"{compiler()[0]} fails: {done.stderr[:4000]}")
        os.replace(result, made)
    return made
