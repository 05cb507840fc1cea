"""Compile kernels written in CuTe to machine code. No GPU is needed.

A kernel's arguments are addresses of tensors, the sizes and strides of rows, and constants. It is compiled for the
arguments' types and the constants' values. Its parameters are words, in the order of its arguments."""

import inspect
import re
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import cutlass
from cutlass import cute
from cutlass._mlir._mlir_libs import _cutlass_ir
from cutlass.cute.runtime import make_ptr

from kernelzoo.kernels.cute.arguments import KernelArguments, RowCounts, Strides
from kernelzoo.kernels.cute.tiles import Tile
from kernelzoo.kernels.shared import code_cache, programs
from kernelzoo.kernels.shared.shown import describe_code
from kernelzoo.launch import Compiled
from kernelzoo.packages import why_version_unfit

DTYPES = {
    "float16": cutlass.Float16,
    "bfloat16": cutlass.BFloat16,
    "float32": cutlass.Float32,
    "float64": cutlass.Float64,
    "uint8": cutlass.Uint8,
    "int8": cutlass.Int8,
    "int16": cutlass.Int16,
    "int32": cutlass.Int32,
    "int64": cutlass.Int64,
}
"""CuTe's dtypes, by torch's names."""


class PointerProperties(NamedTuple):
    """The properties of an address for which a kernel is compiled."""

    dtype: str
    aligned: int
    """The alignment in bytes."""


@dataclass(frozen=True)
class Program:
    """A kernel to compile. Its arguments are addresses, ``RowCounts``, the ``Strides`` of some tensors, 32-bit integers
    and constants. The last constants are its tile, and whether it may begin before the previous launch has ended."""

    kernel: Any
    pointers: tuple[PointerProperties, ...]
    strides: int
    integers: int
    constants: tuple[Any, ...]
    tile: Tile
    blocks: int = 1
    """Blocks per cluster."""

    @property
    def function(self) -> Any:
        """The kernel's Python function, without its decorator."""
        return inspect.unwrap(self.kernel)

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    @property
    def named_constants(self) -> dict[str, Any]:
        """The values of the kernel's constants by name, with the main fields of its tile and the cluster size."""
        names = list(inspect.signature(self.function).parameters)[-len(self.constants) - 2 : -2]
        return {**dict(zip(names, self.constants, strict=True)), **self.tile.inspected_fields, "cluster": self.blocks}

    @property
    def cache_key(self) -> str:
        """A text that differs between any two programs of this package."""
        kinds = (self.pointers, self.strides, self.integers, self.constants, self.tile, self.blocks)
        return repr((self.function.__module__, self.function.__qualname__, kinds))


class CubinAndPtx(NamedTuple):
    """Machine code and PTX of a program for one compute capability."""

    binary: bytes
    ptx: str

    @property
    def symbol(self) -> str:
        """The name of the kernel in ``binary``. The compiler derives it from the arguments."""
        found = re.search(r"\.entry (\w+)", self.ptx)
        assert found is not None, "a kernel has an entry"
        return found[1]


def missing_requirement() -> str:
    """Return why the installed package can't compile kernels, or "" if it can."""
    return why_version_unfit("nvidia-cutlass-dsl", version("nvidia-cutlass-dsl"), "cute")


@cute.jit
def _host(
    kernel: cutlass.Constexpr, pointers: list[Any], numbers: list[Any], constants: cutlass.Constexpr,
    threads: cutlass.Constexpr, blocks: cutlass.Constexpr,
):  # fmt: skip
    """Launch the kernel. This is never run, but CuTe compiles a kernel only from a launch."""
    rows, *others = numbers
    known = zip(others, constants[-2].dense, constants[-2].vectorized, strict=False)  # integers come after strides
    strides = [Strides(*one) for one in known]
    given = KernelArguments(pointers[: len(strides)], pointers[len(strides) :], rows, strides)
    kernel(given, *others[len(strides) :], *constants).launch(
        grid=(blocks, 1, 1), block=(threads, 1, 1), cluster=(blocks, 1, 1)
    )


_compiling = threading.RLock()


def to_code(program: Program, capability: int) -> CubinAndPtx:
    """Compile a program to machine code and PTX for a compute capability, such as 90 for 9.0. Needs no GPU."""
    pointers = [make_ptr(DTYPES[p.dtype], 0, cute.AddressSpace.gmem, assumed_align=p.aligned) for p in program.pointers]
    index = cutlass.Int64 if program.tile.far else cutlass.Int32
    numbers = [RowCounts(*[index(1)] * 3), *[(cutlass.Int64(1),) * 3] * program.strides]
    numbers += [cutlass.Int32(1)] * program.integers
    constants = (*program.constants, program.tile, capability >= 90)
    with _compiling, tempfile.TemporaryDirectory(prefix="kernelzoo-") as folder:
        options = f"--gpu-arch sm_{capability} --keep-cubin --keep-ptx --dump-dir {folder}"
        made = cute.compile(
            _host, program.kernel, pointers, numbers, constants, program.tile.threads, program.blocks, options=options
        )
        return CubinAndPtx(made.__cubin__, made.__ptx__)


def load_or_build(program: Program, capability: int) -> CubinAndPtx:
    """Return a program's code for a compute capability, from the cache on disk, or else compile it."""

    def make() -> bytes:
        made = to_code(program, capability)
        return made.ptx.rstrip("\0").encode() + b"\0" + made.binary  # a zero byte separates both: PTX has none

    text, _, binary = programs.load_or_build(
        "cute", (_compiler_identity(), capability, program.cache_key), make
    ).partition(b"\0")
    return CubinAndPtx(binary, text.decode())


def code_and_symbol(program: Program, capability: int) -> tuple[bytes, str]:
    """Return (machine code, the kernel's name in this code) for a compute capability."""
    made = load_or_build(program, capability)
    return made.binary, made.symbol


@cache
def _compiler_identity() -> str:
    """Return a text that identifies this package's source and the compiler, different for CUDA 12 and 13."""
    text = code_cache.digest_sources(Path(__file__).parent)
    return repr((text, version("nvidia-cutlass-dsl"), Path(_cutlass_ir.__file__).name))


@cache
def describe_program(program: Program, capability: int) -> Compiled:
    """Return a program's compiled code with the kernel's name and constants, as ``kernelzoo inspect`` shows them."""
    made = load_or_build(program, capability)
    return describe_code("CuTe", program, made.symbol, made.binary, capability, program.named_constants, made.ptx)
