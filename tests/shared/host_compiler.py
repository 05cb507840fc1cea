"""The host's C++ compiler, or one from PyPI, and the libraries that it has made, kept between runs."""

from __future__ import annotations

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
from pathlib import Path

from kernelzoo import user_cache
from kernelzoo.kernels.shared import code_cache

_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-fno-exceptions", "-fno-rtti")


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
    folder = code_cache.for_language("KERNELZOO_EMULATED", folder) or folder
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > 7 * 24 * 3600:
                file.unlink()
    return folder


def compiled(code: str, *flags: str) -> Path:
    """A library made of the code. Raises CompilerError."""
    options = (*_FLAGS, *flags)
    digest = hashlib.sha256("\0".join((_version(), *options, code)).encode()).hexdigest()[:24]
    made = _folder() / f"{digest}.so"
    if made.exists():
        os.utime(made)
        return made
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        source, library = Path(folder, "source.cpp"), Path(folder, "library.so")
        source.write_text(code, encoding="utf-8")
        done = subprocess.run(
            [*compiler(), *options, "-o", str(library), str(source), "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CompilerError(f"{compiler()[0]} fails: {done.stderr[:4000]}")
        os.replace(library, made)
    return made
