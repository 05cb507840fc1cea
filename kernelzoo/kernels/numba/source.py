"""Compile kernels written in Numba to PTX and machine code. No GPU is needed.

Numba passes a tensor as seven arguments. Here kernels take raw pointers and 64-bit integers.
"""

import inspect
import platform
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from cuda.core import Program, ProgramOptions
from numba import cuda
from numba.cuda import types
from numba.cuda.cudadrv.nvvm import NVVM

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import STORAGE
from kernelzoo.kernels.shared import code_cache, cubin, programs
from kernelzoo.kernels.shared.shown import describe_source
from kernelzoo.launch import Compiled

compiling = threading.RLock()
"""A lock. Numba's compiler isn't thread-safe, and reads tables to which definitions of functions add."""


class TensorStrides(NamedTuple):
    """A tensor's strides in elements: between rows along the outer and inner axis, and within a row (``step``)."""

    outer: int
    step: int
    inner: int


@dataclass(frozen=True, eq=False)  # compared by identity, because ``make_once`` caches each one
class Source:
    """A kernel before compilation. Its arguments are pointers, then 64-bit integers. An argument whose name ends in
    ``_at`` stands for three integers, as a ``TensorStrides``."""

    function: Callable[..., None]
    pointees: tuple[Any, ...]
    """The types to which the pointers point: names of dtypes, or Numba types."""
    threads: int
    """The most threads per block."""
    blocks: int = 1
    """How many blocks must fit on an SM. This limits the registers of a thread."""
    inputs: int = 1
    """The number of input pointers, which come first. Workspaces follow. The output's pointer is the last."""
    constants: tuple[object, ...] = ()
    """The arguments of the decorated function, see ``make_once``. With its qualified name, they identify the kernel."""

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """Numba's types of the arguments."""
        at = types.NamedUniTuple(types.int64, len(TensorStrides._fields), TensorStrides)
        names = [*inspect.signature(self.function).parameters][len(self.pointees) :]
        pointers = (types.CPointer(STORAGE.get(p, p)) for p in self.pointees)
        return *pointers, *(at if name.endswith("_at") else types.int64 for name in names)

    @cached_property
    def name(self) -> str:
        """The kernel's name and constants."""
        return f"{self.function.__qualname__}{self.constants}"

    @property
    def identity(self) -> tuple[object, ...]:
        """A key that is unique to this kernel within this package."""
        made_with = (self.constants, self.arguments, self.threads, self.blocks)
        return (self.function.__module__, self.function.__qualname__), made_with


def make_once(make_source: Callable[..., Source]) -> Callable[..., Source]:
    """Cache the decorated function, which makes a kernel. Its arguments become the kernel's constants."""

    @cache
    @wraps(make_source)
    def cached_maker(*arguments: Any, **named: Any) -> Source:
        return replace(make_source(*arguments, **named), constants=(*arguments, *named.values()))

    return cached_maker


def capability_pair(device: Device) -> tuple[int, int]:
    """Return a device's compute capability as Numba writes it: (9, 0)."""
    return divmod(device.capability, 10)


def to_ptx(source: Source, capability: tuple[int, int]) -> str:
    """Return PTX of the kernel for a compute capability.

    From 9.0 on, the kernel first waits for all earlier work on its stream, because a launch may begin before the
    previous one ends. No kernel lets the next launch begin early. That would help only two launches of ours in a row.
    """
    bounds, signature = (source.threads, source.blocks), types.void(*source.arguments)
    how = {"device": False, "abi": "numba", "cc": capability, "output": "ptx", "launch_bounds": bounds}
    ptx, _ = cuda.compile(source.function, signature, **how)
    if capability < (9, 0):
        return str(ptx)
    waiting, entries = re.subn(r"(\.entry [^{]*\{)", r"\1\n\tgriddepcontrol.wait;", str(ptx))
    assert entries == 1, "Numba's PTX of a kernel has one entry"
    return waiting


def to_cubin(ptx: str, capability: tuple[int, int]) -> bytes:
    """Assemble PTX to machine code, by the toolkit's assembler instead of the driver's."""
    major, minor = capability
    return bytes(Program(ptx, "ptx", ProgramOptions(arch=f"sm_{major}{minor}")).compile("cubin").code)


def entry_name(ptx: str) -> str:
    """Return the name of the kernel in its PTX."""
    found = re.search(r"\.visible \.entry (\w+)", ptx)
    assert found is not None, "Numba's PTX of a kernel has one entry"
    return found[1]


def load_or_build(source: Source, capability: tuple[int, int]) -> tuple[str, bytes]:
    """Return the kernel's name and machine code for a compute capability, from the disk cache if possible.

    Numba's own cache ignores the variables of a kernel's closure, on which all kernels here depend. So the key has all
    that machine code depends on: this package's text, the kernel's constants, and the compilers' versions."""

    def make() -> bytes:
        ptx = to_ptx(source, capability)
        return entry_name(ptx).encode() + b"\0" + to_cubin(ptx, capability)

    key = _build_key(), capability, source.identity
    name, _, binary = programs.load_or_build("numba", key, make).partition(b"\0")
    return name.decode(), binary


@cache
def _build_key() -> str:
    """Return a text for cache keys that stands for this package's source and its compilers' versions."""
    packages = {name: version(name) for name in ("numba", "numba-cuda", "llvmlite", "cuda-core", "numpy")}
    text = code_cache.digest_sources(Path(__file__).parent)
    return repr((text, packages, platform.python_version(), NVVM().get_version()))


@cache
def inspect_kernel(source: Source, capability: tuple[int, int]) -> Compiled:
    """Return a kernel's description for a recording. The kernel is compiled again: the disk cache has no PTX."""
    constants = inspect.getclosurevars(source.function).nonlocals.items()
    # Constants have names in capitals. All else that the source closes over are functions and types.
    named = {name: value for name, value in constants if name.isupper()}
    with compiling:
        return describe_binary(source.function, to_ptx(source, capability), capability, named)


def describe_binary(
    function: Callable[..., None], ptx: str, capability: tuple[int, int], constants: dict[str, Any]
) -> Compiled:
    """Assemble a function's PTX, and return the kernel's description for a recording."""
    symbol, binary = entry_name(ptx), to_cubin(ptx, capability)
    return Compiled(
        name=function.__name__,
        language="Numba CUDA",
        constants=constants,
        symbol=symbol,
        binary=binary,
        ptx=ptx,
        **describe_source(function),
        **vars(cubin.resources(binary, symbol, 10 * capability[0] + capability[1])),
    )
