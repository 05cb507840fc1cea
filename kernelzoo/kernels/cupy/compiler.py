"""A kernel's source, with its headers in place, and what NVRTC makes of it for a device that need not be here."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cupy.cuda import nvrtc

from kernelzoo.errors import InspectionError
from kernelzoo.kernels.cupy.rows import C_TYPES
from kernelzoo.kernels.shared import cubin
from kernelzoo.launch import Compiled

OPTIONS = ("-std=c++17",)

_INCLUDE = re.compile(r'^#(?:include "([^"]+)"|pragma once)$', re.MULTILINE)
_PARAMETER = rf"(?:\d+|true|false|{'|'.join(map(re.escape, set(C_TYPES.values())))})"
_NAME = re.compile(rf"[a-z_]+(?:<{_PARAMETER}(?:, {_PARAMETER})*>)?")


@cache
def files(file: Path) -> tuple[Path, ...]:
    """A file and all that it includes, each once, before those that include it."""
    found: dict[Path, None] = {}

    def gather(path: Path) -> None:
        for name in filter(None, _INCLUDE.findall(path.read_text(encoding="utf-8"))):
            if (included := (path.parent / name).resolve()) not in found:
                gather(included)
        found[path] = None

    gather(file.resolve())
    return tuple(found)


@cache
def source(file: Path) -> str:
    """The CUDA C++ of a file with what it includes in place, which CuPy's cache on disk has as its key."""
    return "\n".join(_INCLUDE.sub("", path.read_text(encoding="utf-8")) for path in files(file))


def known(kernel: str) -> str:
    """The name itself, which the compiler reads as a program: a template's, of numbers and types that are known."""
    if not _NAME.fullmatch(kernel):
        raise ValueError(f"{kernel!r} is no kernel's name: a template's, of numbers and {', '.join(C_TYPES.values())}")
    return kernel


@dataclass(frozen=True)
class Program:
    """Some instances of a file's templates for one architecture."""

    ptx: str
    cubin: bytes
    log: str  # the assembler's, with registers and spills
    symbols: dict[str, str]  # the entry of each instance in ptx and cubin


def program(code: str, instances: tuple[str, ...], capability: int, options: tuple[str, ...] = OPTIONS) -> Program:
    """Compile as cupy.RawModule does, with the options that it adds. Needs no GPU; raises InspectionError."""
    made = nvrtc.createProgram(code, "", (), ())
    for instance in instances:
        nvrtc.addNameExpression(made, instance)
    added = ("-ftz=true", f"-arch=sm_{capability}", "--device-as-default-execution-space", "--ptxas-options=-v")
    try:
        nvrtc.compileProgram(made, (*options, *added))
    except nvrtc.NVRTCError as error:
        raise InspectionError(f"NVRTC fails for sm_{capability}: {nvrtc.getProgramLog(made)}") from error
    return Program(
        nvrtc.getPTX(made).decode().rstrip("\0"),
        nvrtc.getCUBIN(made) + b"\0",  # CuPy cuts the last byte off, taking it for a string's end
        nvrtc.getProgramLog(made),
        {instance: nvrtc.getLoweredName(made, instance) for instance in instances},
    )


@cache
def compiled(file: Path, kernel: str, capability: int) -> Compiled:
    """An instance of a file's template, compiled for a compute capability and not loaded."""
    made = program(source(file), (known(kernel),), capability)
    return described(made, kernel, capability, *template(file, kernel))


def described(
    made: Program, kernel: str, capability: int, text: str, place: str | Path, line: int, constants: dict[str, Any]
) -> Compiled:
    """A kernel of a program, and what is said of its source: its text, its file, the line there, its constants."""
    symbol = made.symbols.get(kernel, kernel)
    return Compiled(
        name=kernel,
        language="CUDA C++",
        source=text,
        file=str(place),
        line=line,
        constants=constants,
        symbol=symbol,
        binary=made.cubin,
        ptx=made.ptx,
        **vars(cubin.resources(made.cubin, symbol, capability)),
    )


@cache
def template(file: Path, instance: str) -> tuple[str, Path, int, dict[str, int | str | bool]]:
    """A kernel's template in a file or what it includes: text, file and line, and an instance's arguments by name."""
    name, _, arguments = instance.rstrip(">").partition("<")
    pattern = rf"^(?:template <([^;{{}}]*?)>\n)?__global__[^;{{}}]*?\s{name}\([^;{{]*\{{.*?^\}}$"
    texts = ((path, path.read_text(encoding="utf-8")) for path in reversed(files(file)))
    searched = ((path, code, re.search(pattern, code, re.DOTALL | re.MULTILINE)) for path, code in texts)
    place, code, found = next((one for one in searched if one[2] is not None), (file, "", None))
    if found is None:
        raise InspectionError(f"{file.name} has no kernel {name}")
    names = [parameter.partition(" =")[0].split()[-1] for parameter in (found[1] or "").split(",") if parameter]
    constants = {"true": True, "false": False}
    given = [argument.strip() for argument in arguments.split(",") if argument]
    values = [int(word) if word.isdigit() else constants.get(word, word) for word in given]
    return found[0], place, code.count("\n", 0, found.start()) + 1, dict(zip(names, values, strict=False))
