"""NVIDIA machine code of any language: a kernel's resources, and its disassembly.

Resources are read from the ELF file without a tool. Disassembly needs nvdisasm, which comes with the CUDA toolkit, with
NVIDIA's wheel nvidia-cuda-nvdisasm, and with triton.
"""

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class Resources:
    """The resources that one kernel takes, as ``cuobjdump --dump-resource-usage`` shows them."""

    registers: int
    """Registers per thread."""
    local_bytes: int
    """Bytes of stack and local memory per thread, including spilled registers."""
    shared_bytes: int
    """Bytes of static shared memory per block, without what the system reserves."""


RESERVED_FROM = 90
"""From this compute capability on, files count the 1 KiB of shared memory that the system reserves per block."""

# Attributes in section .nv.info: each has a function's symbol and a number. A function's stack includes its callees'.
_STACK, _REGISTERS = 0x12, 0x2F


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int


def resources(cubin: bytes, entry: str, capability: int) -> Resources:
    """Return the resources of kernel ``entry`` in a cubin for compute capability ``capability`` (90 for 9.0)."""
    sections = _sections(cubin)
    symbols, names = sections[".symtab"], sections[".strtab"]
    attributes = {}
    at, end = sections[".nv.info"].offset, sections[".nv.info"].offset + sections[".nv.info"].size
    while at < end:
        form, attribute, extent = struct.unpack_from("<BBH", cubin, at)
        if (form, extent) == (4, 8):
            symbol, number = struct.unpack_from("<II", cubin, at + 4)
            (name,) = struct.unpack_from("<I", cubin, symbols.offset + 24 * symbol)
            attributes[attribute, _read_string(cubin, names.offset + name)] = number
        at += 4 + (extent if form == 4 else 0)
    local, shared = (sections.get(f".nv.{kind}.{entry}") for kind in ("local", "shared"))
    reserved = 1024 if capability >= RESERVED_FROM else 0
    return Resources(
        attributes[_REGISTERS, entry],
        attributes[_STACK, entry] + (local.size if local else 0),
        shared.size - reserved if shared else 0,
    )


def ptx(cubin: bytes) -> str | None:
    """Return the PTX that a compiler embedded in a cubin for debuggers, without debug sections; None without PTX."""
    kept = _sections(cubin).get(".nv_debug_ptx_txt")
    if kept is None:
        return None
    lines = cubin[kept.offset : kept.offset + kept.size].decode().split("\0")
    text = "\n".join(line for line in lines if line)
    return re.split(r"\n\.(?:section|nv_)", text, maxsplit=1)[0] + "\n"


def _sections(cubin: bytes) -> dict[str, _Section]:
    table, size, entries, names = (*struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<HHH", cubin, 58))
    found = [_Section(*struct.unpack_from("<IIQQQQ", cubin, table + size * i)) for i in range(entries)]
    return {_read_string(cubin, found[names].offset + section.name): section for section in found}


def _read_string(cubin: bytes, at: int) -> str:
    return cubin[at : cubin.index(b"\0", at)].decode()


def disassembly(cubin: bytes) -> tuple[dict[str, str], str | None]:
    """Return ({symbol: SASS}, None). If no nvdisasm succeeds, as an old one may not, return ({}, the reason)."""
    reason = "no nvdisasm found; pip install nvidia-cuda-nvdisasm brings it, and so do triton and the CUDA toolkit"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        for tool in find_tools("nvdisasm"):
            done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=False)
            if not done.returncode:
                # Each function has a section of its own, between lines that name the sections.
                parts = re.split(r"^//-+ +(\S+) +-+\n", done.stdout, flags=re.MULTILINE)
                sections = dict(zip(parts[1::2], parts[2::2], strict=True))
                return {n[6:]: text.strip("\n") for n, text in sections.items() if n.startswith(".text.")}, None
            reason = f"{tool} fails: {done.stderr.strip() or done.returncode}; is it older than the compiler?"
    return {}, reason


@cache
def find_tools(name: str) -> tuple[Path, ...]:
    """Return the paths of a tool: on PATH, in NVIDIA's wheels, in triton's wheel, and in the CUDA toolkit's folder."""
    return tuple(dict.fromkeys(path for path in _tool_paths(name) if os.access(path, os.X_OK)))


def _tool_paths(name: str) -> Iterator[Path]:
    on_path = shutil.which(name)
    if on_path is not None:
        yield Path(on_path)
    for package, pattern in (("nvidia", "*/bin"), ("triton", "backends/nvidia/bin")):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for binaries in sorted(Path(folder).glob(pattern), reverse=True):
                yield binaries / name
    for toolkit in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if toolkit:
            yield Path(toolkit, "bin", name)
