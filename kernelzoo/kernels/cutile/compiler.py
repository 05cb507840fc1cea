"""Compile kernels written in cuTile to machine code. No GPU is needed.

A compiled kernel takes an array as its address, sizes and strides. It is specialized to those that are known, and to
divisors of the others: tileiras reads several elements at once only if it sees that they are contiguous and aligned.
"""

import inspect
import io
import re
import subprocess
import threading
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cuda.tile as ct
from cuda.tile import _compile as cutile
from cuda.tile._cext import default_tile_context
from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, ScalarConstraint, export_kernel

from kernelzoo.kernels.shared import code_cache, cubin, programs
from kernelzoo.kernels.shared.absent import replaced
from kernelzoo.kernels.shared.shown import shown
from kernelzoo.launch import Compiled
from kernelzoo.packages import unfit


@dataclass(frozen=True)
class Array:
    """The properties of an array that a kernel is compiled for."""

    dtype: str
    """cuTile's name of the dtype, which is torch's too."""
    index: str
    """The type of its sizes and strides: int32, or int64 if it is large."""
    ones: tuple[bool, ...]
    """For each axis, whether it has only one element."""
    dense: bool
    """Whether the last axis is contiguous."""
    multiple: int
    """A divisor of all other strides, and of the size of the last axis."""
    aligned: int
    """A divisor of its address in bytes."""


@dataclass(frozen=True)
class Program:
    """A kernel before compilation, for arrays of given properties, followed by 32-bit integers and constants."""

    kernel: Any
    arrays: tuple[Array, ...]
    integers: int
    constants: tuple[Any, ...]
    warps: int
    """The most warps of a block."""
    occupancy: int | None = None
    """The number of programs that the compiler must fit on an SM, or None to leave it the choice."""

    @property
    def function(self) -> Any:
        """The Python function that the kernel's decorator wraps."""
        return self.kernel._pyfunc

    @cached_property
    def name(self) -> str:
        return str(self.function.__name__)

    @cached_property
    def named(self) -> dict[str, Any]:
        """Its constants and compiler options by name."""
        names = list(inspect.signature(self.function).parameters)[-len(self.constants) :]
        constants = dict(zip(names, self.constants, strict=True))
        return {**constants, "num_worker_warps": self.warps}

    @property
    def identity(self) -> str:
        """A text that differs from that of every other kernel of this package."""
        kinds = (self.arrays, self.integers, self.constants, self.warps, self.occupancy)
        return repr((self.function.__module__, self.function.__qualname__, kinds))


def lacking() -> str:
    """Return why nothing can be compiled here, or ""."""
    try:
        path = cutile._find_compiler_bin().path
    except FileNotFoundError:
        return "cuTile's compiler, tileiras, is not installed"
    found = _tileiras()
    release = re.search(r"release (\d+\.\d+)", found)
    if release is None:
        return f"{path} answers with no version: {found!r}"
    return unfit("nvidia-cuda-tileiras", release[1], "cutile")


@cache
def _tileiras() -> str:
    """Return what tileiras prints as its version."""
    path = cutile._find_compiler_bin().path
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def _signature(program: Program) -> KernelSignature:
    return KernelSignature(
        [
            *map(_constraint, program.arrays),
            *[ScalarConstraint(ct.int32)] * program.integers,
            *program.constants,
        ],
        CallingConvention.cutile_python_v2(),
        program.name,
    )


def _constraint(array: Array) -> ArrayConstraint:
    *others, _ = array.ones
    return ArrayConstraint(
        getattr(ct, array.dtype),
        len(array.ones),
        index_dtype=getattr(ct, array.index),
        stride_lower_bound_incl=0,
        alias_groups=(),  # an output overlaps no input, nor does a workspace
        may_alias_internally=False,
        stride_constant=(*[None] * len(others), 1 if array.dense else None),
        shape_constant=[1 if one else None for one in array.ones],
        stride_divisible_by=(*[array.multiple] * len(others), 1),
        shape_divisible_by=(*[1] * len(others), 1 if array.ones[-1] else array.multiple),
        base_addr_divisible_by=array.aligned,
    )


_compiling = threading.RLock()


def to_cubin(program: Program, capability: int) -> bytes:
    """Return machine code for a compute capability (90 for 9.0), with its PTX in it. Needs no GPU."""
    kernel = program.kernel.replace_hints(num_worker_warps=program.warps, num_ctas=1, occupancy=program.occupancy)
    made = io.BytesIO()
    # cuTile's own cache on disk would be a second one, in a folder that others may write to.
    with _compiling, replaced(default_tile_context.config, cache_dir=None):
        export_kernel(kernel, [_signature(program)], made, gpu_code=f"sm_{capability}", output_format="cubin")
    return made.getvalue()


def compiled(program: Program, capability: int) -> bytes:
    """Return machine code for a compute capability, cached on disk. Its entry is the program's name."""
    what = _compiler(), capability, program.identity
    return programs.on_disk("cutile", what, lambda: to_cubin(program, capability))


def entry(program: Program, capability: int) -> tuple[bytes, str]:
    """Return (machine code for a compute capability, the name of its entry)."""
    return compiled(program, capability), program.name


@cache
def _compiler() -> str:
    """Return what machine code depends on besides the program: this package's text and its compilers' versions."""
    return repr((code_cache.text_of(Path(__file__).parent), version("cuda-tile"), _tileiras()))


def threads(program: Program, capability: int) -> int:
    """Return the threads of a block of the compiled program. They may be fewer than those of the program's warps."""
    found = re.search(r"\.reqntid (\d+)", described(program, capability).ptx or "")
    assert found is not None, "what tileiras makes has its threads in its PTX"
    return int(found[1])


@cache
def described(program: Program, capability: int) -> Compiled:
    """Return the compiled program as recordings show it."""
    binary = compiled(program, capability)
    return shown("cuTile", program, program.name, binary, capability, program.named, cubin.ptx(binary))
