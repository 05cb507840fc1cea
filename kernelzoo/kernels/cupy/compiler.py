"""Inline the headers of a kernel's source, and compile it with NVRTC. No device is needed."""

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
def list_included_files(file: Path) -> tuple[Path, ...]:
    """Return a file and all files that it includes, each once. Included files come before their includers."""
    found: dict[Path, None] = {}

    def gather(path: Path) -> None:
        for name in filter(None, _INCLUDE.findall(path.read_text(encoding="utf-8"))):
            if (included := (path.parent / name).resolve()) not in found:
                gather(included)
        found[path] = None

    gather(file.resolve())
    return tuple(found)


@cache
def full_source(file: Path) -> str:
    """Return a file's CUDA C++ with all includes inlined. CuPy caches machine code on disk by this text."""
    return "\n".join(_INCLUDE.sub("", path.read_text(encoding="utf-8")) for path in list_included_files(file))


def check_kernel_name(kernel: str) -> str:
    """Return a kernel's name. Raises ValueError if the name contains other code, because NVRTC would compile it."""
    if not _NAME.fullmatch(kernel):
        raise ValueError(f"{kernel!r} is no kernel's name: a template's, of numbers and {', '.join(C_TYPES.values())}")
    return kernel


@dataclass(frozen=True)
class Program:
    """Machine code and PTX of a file's kernels, compiled for one architecture."""

    ptx: str
    cubin: bytes
    log: str  # the assembler's log, with registers and spills
    symbols: dict[str, str]  # the name of each instance in ptx and cubin


def compile_code(code: str, instances: tuple[str, ...], capability: int, options: tuple[str, ...] = OPTIONS) -> Program:
    """Compile CUDA C++ with ``options`` and those that cupy.RawModule adds. Needs no GPU. Raises InspectionError."""
    handle = nvrtc.createProgram(code, "", (), ())
    for instance in instances:
        nvrtc.addNameExpression(handle, instance)
    added = ("-ftz=true", f"-arch=sm_{capability}", "--device-as-default-execution-space", "--ptxas-options=-v")
    try:
        nvrtc.compileProgram(handle, (*options, *added))
    except nvrtc.NVRTCError as error:
        raise InspectionError(f"NVRTC fails for sm_{capability}: {nvrtc.getProgramLog(handle)}") from error
    return Program(
        nvrtc.getPTX(handle).decode().rstrip("\0"),
        nvrtc.getCUBIN(handle) + b"\0",  # CuPy drops the last byte, as if it were a string's terminator
        nvrtc.getProgramLog(handle),
        {instance: nvrtc.getLoweredName(handle, instance) for instance in instances},
    )


@cache
def compile_instance(file: Path, kernel: str, capability: int) -> Compiled:
    """Compile a template instance of a file for a compute capability, without loading it."""
    result = compile_code(full_source(file), (check_kernel_name(kernel),), capability)
    return describe_program(result, kernel, capability, *find_template(file, kernel))


def describe_program(
    result: Program, kernel: str, capability: int, text: str, place: str | Path, line: int, constants: dict[str, Any]
) -> Compiled:
    """Describe a compiled kernel. ``text`` is its source, at line ``line`` of the file ``place``."""
    symbol = result.symbols.get(kernel, kernel)
    return Compiled(
        name=kernel,
        language="CUDA C++",
        source=text,
        file=str(place),
        line=line,
        constants=constants,
        symbol=symbol,
        binary=result.cubin,
        ptx=result.ptx,
        **vars(cubin.resources(result.cubin, symbol, capability)),
    )


@cache
def find_template(file: Path, instance: str) -> tuple[str, Path, int, dict[str, int | str | bool]]:
    """Find an instance's template in a file or its includes. Return (source text, file, line, template arguments)."""
    name, _, arguments = instance.rstrip(">").partition("<")
    pattern = rf"^(?:template <([^;{{}}]*?)>\n)?__global__[^;{{}}]*?\s{name}\([^;{{]*\{{.*?^\}}$"
    texts = ((path, path.read_text(encoding="utf-8")) for path in reversed(list_included_files(file)))
    searched = ((path, code, re.search(pattern, code, re.DOTALL | re.MULTILINE)) for path, code in texts)
    place, code, found = next((one for one in searched if one[2] is not None), (file, "", None))
    if found is None:
        raise InspectionError(f"{file.name} has no kernel {name}")
    names = [parameter.partition(" =")[0].split()[-1] for parameter in (found[1] or "").split(",") if parameter]
    constants = {"true": True, "false": False}
    given = [argument.strip() for argument in arguments.split(",") if argument]
    values = [int(word) if word.isdigit() else constants.get(word, word) for word in given]
    return found[0], place, code.count("\n", 0, found.start()) + 1, dict(zip(names, values, strict=False))
