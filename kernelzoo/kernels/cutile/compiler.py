"""Compile kernels written in cuTile to machine code. No GPU is needed.

A compiled kernel receives an array's address, sizes and strides. It is specialized to some of their values and
divisors, because tileiras loads vectors only if these prove that elements are contiguous and aligned."""

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
from kernelzoo.kernels.shared.absent import with_stubs
from kernelzoo.kernels.shared.shown import describe_code
from kernelzoo.launch import Compiled
from kernelzoo.packages import why_version_unfit


@dataclass(frozen=True)
class ArrayProperties:
    """The properties of an array for which a kernel is specialized."""

    dtype: str
    """The dtype's name, which is the same in cuTile and torch."""
    index: str
    """The integer type of sizes and strides: int64 for large arrays, else int32."""
    ones: tuple[bool, ...]
    """For each axis, whether its size is 1."""
    dense: bool
    """Whether the last axis is contiguous."""
    multiple: int
    """A common divisor of the last axis's size and of all other axes' strides."""
    aligned: int
    """The alignment of the array's address, in bytes."""


@dataclass(frozen=True)
class Program:
    """A kernel before compilation. Its arguments are arrays, then ``integers`` 32-bit integers, then constants."""

    kernel: Any
    arrays: tuple[ArrayProperties, ...]
    integers: int
    constants: tuple[Any, ...]
    warps: int
    """The most warps per block."""
    occupancy: int | None = None
    """How many programs must fit on an SM. None leaves the choice to the compiler."""

    @property
    def function(self) -> Any:
        """The Python function that the kernel's decorator wraps."""
        return self.kernel._pyfunc

    @cached_property
    def name(self) -> str:
        return str(self.function.__name__)

    @cached_property
    def named_constants(self) -> dict[str, Any]:
        """The program's constants and compiler options, by name."""
        names = list(inspect.signature(self.function).parameters)[-len(self.constants) :]
        constants = dict(zip(names, self.constants, strict=True))
        return {**constants, "num_worker_warps": self.warps}

    @property
    def cache_key(self) -> str:
        """A text that is unique to this program within this package."""
        kinds = (self.arrays, self.integers, self.constants, self.warps, self.occupancy)
        return repr((self.function.__module__, self.function.__qualname__, kinds))


def why_cannot_compile() -> str:
    """Return why no kernel can be compiled here, or "" if kernels can."""
    try:
        path = cutile._find_compiler_bin().path
    except FileNotFoundError:
        return "cuTile's compiler, tileiras, is not installed"
    found = _tileiras_version()
    release = re.search(r"release (\d+\.\d+)", found)
    if release is None:
        return f"{path} answers with no version: {found!r}"
    return why_version_unfit("nvidia-cuda-tileiras", release[1], "cutile")


@cache
def _tileiras_version() -> str:
    """Return what tileiras prints as its version."""
    path = cutile._find_compiler_bin().path
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def _kernel_signature(program: Program) -> KernelSignature:
    return KernelSignature(
        [*map(_array_constraint, program.arrays), *[ScalarConstraint(ct.int32)] * program.integers, *program.constants],
        CallingConvention.cutile_python_v2(),
        program.name,
    )


def _array_constraint(array: ArrayProperties) -> ArrayConstraint:
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
    """Return machine code for a compute capability (90 for 9.0). The code includes the PTX. No GPU is needed."""
    kernel = program.kernel.replace_hints(num_worker_warps=program.warps, num_ctas=1, occupancy=program.occupancy)
    made = io.BytesIO()
    # cuTile's own disk cache is disabled: it would be a second cache, in a folder that others may write to.
    with _compiling, with_stubs(default_tile_context.config, cache_dir=None):
        export_kernel(kernel, [_kernel_signature(program)], made, gpu_code=f"sm_{capability}", output_format="cubin")
    return made.getvalue()


def load_or_build(program: Program, capability: int) -> bytes:
    """Return machine code for a compute capability, cached on disk. Its entry point is ``program.name``."""
    what = _compiler_identity(), capability, program.cache_key
    return programs.load_or_build("cutile", what, lambda: to_cubin(program, capability))


def code_and_name(program: Program, capability: int) -> tuple[bytes, str]:
    """Return (machine code for a compute capability, the name of its entry point)."""
    return load_or_build(program, capability), program.name


@cache
def _compiler_identity() -> str:
    """Return a text for cache keys that stands for this package's source and its compilers' versions."""
    return repr((code_cache.digest_sources(Path(__file__).parent), version("cuda-tile"), _tileiras_version()))


def threads_per_block(program: Program, capability: int) -> int:
    """Return the compiled program's threads per block. The compiler may use fewer warps than ``program.warps``."""
    found = re.search(r"\.reqntid (\d+)", describe_program(program, capability).ptx or "")
    assert found is not None, "what tileiras makes has its threads in its PTX"
    return int(found[1])


@cache
def describe_program(program: Program, capability: int) -> Compiled:
    """Return the compiled program's code, name and constants, as ``kernelzoo inspect`` shows them."""
    code = load_or_build(program, capability)
    return describe_code("cuTile", program, program.name, code, capability, program.named_constants, cubin.ptx(code))
