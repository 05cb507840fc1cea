"""A kernel written in cuTile, and its way to machine code, for which no GPU is needed.

An array is passed to a compiled kernel as its address, its sizes and its strides. Which of these are known beforehand,
and by what they can be divided, makes it another kernel: tileiras reads several elements at once only where it sees
that they lie in one aligned piece of memory.
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
    """What a kernel is compiled to know of an array."""

    dtype: str
    """As cuTile names it, which is torch's name."""
    index: str
    """Type of its sizes and strides: int32, or int64 where it is large."""
    ones: tuple[bool, ...]
    """Of each axis, whether it has one element only."""
    dense: bool
    """Whether elements of the last axis lie side by side."""
    multiple: int
    """By which all other strides, and the size of the last axis, can be divided."""
    aligned: int
    """Bytes by which its address can be divided."""


@dataclass(frozen=True)
class Program:
    """A kernel before it is compiled, for arrays of some kind. It takes integers of 32 bits after its arrays, and
    constants after those."""

    kernel: Any
    arrays: tuple[Array, ...]
    integers: int
    constants: tuple[Any, ...]
    warps: int
    """Of a block, at the most."""
    occupancy: int | None = None
    """Programs that the compiler is to let fit on a multiprocessor, if it is told."""

    @property
    def function(self) -> Any:
        """What the kernel's decorator was given."""
        return self.kernel._pyfunc

    @cached_property
    def name(self) -> str:
        return str(self.function.__name__)

    @cached_property
    def named(self) -> dict[str, Any]:
        """Its constants by name, and how it is compiled."""
        names = list(inspect.signature(self.function).parameters)[-len(self.constants) :]
        constants = dict(zip(names, self.constants, strict=True))
        return {**constants, "num_worker_warps": self.warps}

    @property
    def identity(self) -> str:
        """What makes it another kernel than the others of this package."""
        kinds = (self.arrays, self.integers, self.constants, self.warps, self.occupancy)
        return repr((self.function.__module__, self.function.__qualname__, kinds))


def lacking() -> str:
    """Why nothing can be compiled, or ""."""
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
    """What tileiras says of its version."""
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
    """Machine code for a compute capability (90 for 9.0), with its PTX in it. Needs no GPU."""
    kernel = program.kernel.replace_hints(num_worker_warps=program.warps, num_ctas=1, occupancy=program.occupancy)
    made = io.BytesIO()
    # cuTile's own cache on disk would be a second one, in a folder that others may write to.
    with _compiling, replaced(default_tile_context.config, cache_dir=None):
        export_kernel(kernel, [_signature(program)], made, gpu_code=f"sm_{capability}", output_format="cubin")
    return made.getvalue()


def compiled(program: Program, capability: int) -> bytes:
    """Machine code for a compute capability, from the cache on disk if it is there. Its entry is the program's name."""
    what = _compiler(), capability, program.identity
    return programs.on_disk("cutile", what, lambda: to_cubin(program, capability))


def entry(program: Program, capability: int) -> tuple[bytes, str]:
    """Machine code for a compute capability, and its entry."""
    return compiled(program, capability), program.name


@cache
def _compiler() -> str:
    """What turns a program into machine code: this package's text, and the versions of its compilers."""
    return repr((code_cache.text_of(Path(__file__).parent), version("cuda-tile"), _tileiras()))


def threads(program: Program, capability: int) -> int:
    """Threads of a block of the compiled program: the compiler may take fewer warps than it is told of."""
    found = re.search(r"\.reqntid (\d+)", described(program, capability).ptx or "")
    assert found is not None, "what tileiras makes has its threads in its PTX"
    return int(found[1])


@cache
def described(program: Program, capability: int) -> Compiled:
    """The program compiled, and what is to be said of it."""
    binary = compiled(program, capability)
    return shown("cuTile", program, program.name, binary, capability, program.named, cubin.ptx(binary))
