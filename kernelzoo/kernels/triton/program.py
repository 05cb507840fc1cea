"""What all kernels of this backend share: where a row lies, how wide to compute, and how a kernel is bound."""

import math
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared import code_cache
from kernelzoo.kernels.triton.occupancy import current_device
from kernelzoo.ops import dtype_name, on_device_of
from kernelzoo.registry import Launch, Movable
from kernelzoo.tables import Step, noting
from kernelzoo.workspace import owning

MAX_PROGRAMS = 2**31 - 1
"""The largest one-dimensional grid of either vendor."""

INTERPRETED: tl.constexpr = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def await_last_launch():
    """First in every kernel, before it touches memory: wait for the launch before this one to end.

    On NVIDIA from compute capability 9.0 on a launch is prepared while the one before it ends (programmatic dependent
    launch, see ``compiled``). None lets the next begin early.
    """
    if not INTERPRETED and tl.target_info.cuda_capability_geq(9, 0):
        tl.extra.cuda.gdc_wait()


@triton.jit
def row_start(row, inner, stride_outer, stride_inner, MULTIPLE: tl.constexpr):
    """Offset of a row's first element; row in 64 bits, so that no product overflows."""
    return (row // inner * stride_outer + row % inner * stride_inner) * MULTIPLE


@triton.jit
def whole_vectors(start, n, VECTOR: tl.constexpr):
    """(before, inside): elements of a row ahead of its first aligned vector, and elements in whole vectors after."""
    before = tl.minimum((-start) & (VECTOR - 1), n)
    return before, (n - before) // VECTOR * VECTOR


@triton.jit
def edge_columns(lane, before, inside, n, VECTOR: tl.constexpr):
    """(columns, known) of the elements outside whole vectors, fewer than VECTOR at either end; 2 * VECTOR lanes."""
    cols = tl.where(lane < VECTOR, lane, before + inside + lane - VECTOR)
    return cols, tl.where(lane < VECTOR, lane < before, cols < n)


@triton.jit
def ragged_tile(
    x, body, row, in_rows, safe, before, inside, after, WIDE: tl.constexpr, NOTHING: tl.constexpr,
    VECTOR: tl.constexpr, LANES: tl.constexpr, PACKS: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    """(tile, mask, edges, own, at): rows side by side, their whole vectors as [ROWS, PACKS, LANES * VECTOR] from body,
    and the two vectors in which each begins and ends as [ROWS, 2, VECTOR] at body + at, foreign elements left out.
    POLICY is the L2 cache's for the whole vectors.

    A program has a tile, in the order of rows. Of rows from safe on, the last vector may reach past the memory: those
    edges are read one by one.
    """
    cols = tl.arange(0, LANES * VECTOR)[None, None, :]
    first = tl.arange(0, PACKS)[None, :, None] * (LANES * VECTOR)
    mask = in_rows & (cols < inside - first)
    tile = tl.load(x + body + cols + first, mask, other=NOTHING, eviction_policy=POLICY)
    side = tl.arange(0, 2)[None, :, None]
    lane = tl.arange(0, VECTOR)[None, None, :]
    at = tl.where(side == 0, -VECTOR, inside) + lane
    there = in_rows & (tl.where(side == 0, before, after) > 0)
    own = there & tl.where(side == 0, lane >= VECTOR - before, lane < after)
    whole = there & ((side == 0) | (row < safe))
    edges = tl.load(x + body + at, whole, other=NOTHING)
    if (tl.program_id(0).to(tl.int64) + 1) * row.shape[0] > safe:
        edges = tl.where(whole, edges, tl.load(x + body + at, own & ~whole, other=NOTHING))
    return tile.to(WIDE), mask, tl.where(own, edges.to(WIDE), NOTHING), own, at


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """What an element is computed in: half precision in float32, narrow integers in int32, the rest in itself."""
    if dtype.itemsize >= 4:
        return dtype
    return torch.float32 if dtype.is_floating_point else torch.int32


def wide_type(dtype: torch.dtype) -> tl.dtype:
    """``wide_dtype`` as Triton's language names it."""
    return getattr(tl, dtype_name(wide_dtype(dtype)))


class Rows(NamedTuple):
    """The rows of a canonical ``(x, out)``, counted so that neighbours in number are neighbours in memory.

    Row r starts at ``r // inner * stride_outer + r % inner * stride_inner``. A stride that can't matter is one that
    Triton specialises on (1 folds away, 0 keeps the alignment of the rest), so that few kernels serve many layouts.
    """

    total: int
    n: int
    inner: int
    x_outer: int
    x_n: int
    x_inner: int
    out_outer: int
    out_n: int
    out_inner: int

    @property
    def multiple(self) -> int:
        """The power of two, at most 8, in which a row's length and the offsets of rows are counted.

        Triton sees that an integer is a multiple of 16 and otherwise nothing, so that rows of 1000 floats would be
        read one by one. Kernels take these numbers divided by the multiple, a constant, and see 16-byte vectors.
        """
        common = self.common
        return common if common < 16 else 1

    @property
    def common(self) -> int:
        """The power of two, at most 16, of which a row's length and the offsets of rows are multiples."""
        written = (self.out_outer, self.out_inner) if self.out_n else ()
        return math.gcd(16, self.n, self.x_outer, self.x_inner, *written)

    @property
    def reading(self) -> tuple[int, ...]:
        """A kernel's arguments that say where x lies: rows, n, inner, x_outer, x_n, x_inner."""
        m = self.multiple
        return self.total, self.n // m, self.inner, self.x_outer // m, self.x_n, self.x_inner // m

    @property
    def layout(self) -> tuple[int, ...]:
        """``reading``, then where out lies, out_outer, out_n, out_inner, and MULTIPLE.

        The output of a reduction is one element to a row, and its strides are not divided.
        """
        m = self.multiple
        divisor = m if self.out_n else 1
        return *self.reading, self.out_outer // divisor, self.out_n, self.out_inner // divisor, m

    def packed(self, x: torch.Tensor, out: torch.Tensor) -> bool:
        """Whether rows of half precision may be read as whole vectors of pairs, their edges aside."""
        whole = x.element_size() == 2 and self.x_n == self.out_n == 1 and not self.across
        aligned = self.common >= 8 and x.data_ptr() % 16 == out.data_ptr() % 16 == 0
        return whole and (aligned or edges_of(self, x, out) > 0)

    @property
    def safe(self) -> int:
        """How many rows have another row behind them in memory, so that their last vector lies in it as a whole."""
        steps = [
            step for step, many in ((self.x_outer, self.total > self.inner), (self.x_inner, self.inner > 1)) if many
        ]
        return self.total - 1 if all(step >= self.n for step in steps) else 0

    @property
    def across(self) -> bool:
        """Whether x is nearer to contiguous from row to row than along a row, so that a tile should hold many rows."""
        return self.total > 1 and self.x_n > (self.x_inner if self.inner > 1 else self.x_outer)


def rows_of(x: torch.Tensor, out: torch.Tensor) -> Rows:
    """Count the rows of x (outer, n, inner) and out (outer, n, inner) or, for a reduction, (outer, inner)."""
    outer, n, inner = x.shape
    x_outer, x_n, x_inner = x.stride()
    out_outer, out_n, out_inner = out.stride() if out.ndim == 3 else (out.stride(0), 0, out.stride(1))
    if outer == 1 or (inner > 1 and x_outer < x_inner):
        outer, x_outer, out_outer, inner, x_inner, out_inner = inner, x_inner, out_inner, outer, x_outer, out_outer
    if inner == 1:
        x_inner = out_inner = 0
    if outer == 1:
        x_outer = out_outer = 0
    if n == 1:
        x_n, out_n = 1, out_n and 1
    return Rows(outer * inner, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner)


class Columns(NamedTuple):
    """Rows across which memory is contiguous, as columns: outer times n times inner, and the strides of both tensors.

    multiple is the power of two, at most a 16-byte vector, of which inner and all strides but the last are multiples; a
    reduction's output, of which out_n is 0, is of no concern.
    """

    outer: int
    n: int
    inner: int
    x_outer: int
    x_n: int
    x_inner: int
    out_outer: int
    out_n: int
    out_inner: int
    multiple: int

    @property
    def layout(self) -> tuple[int, ...]:
        """A kernel's arguments that say where x and out lie, divided by MULTIPLE where it is a divisor, and it."""
        m = self.multiple
        x = self.x_outer // m, self.x_n // m, self.x_inner
        divisor = m if self.out_n else 1
        out = self.out_outer // divisor, self.out_n // divisor, self.out_inner
        return self.outer, self.n, self.inner // m, *x, *out, m

    def strips(self, columns: int) -> int:
        """How many strips of so many columns there are."""
        count: int = self.outer * triton.cdiv(self.inner, columns)
        return count

    @property
    def dense(self) -> bool:
        """Whether columns of both tensors are one piece of memory."""
        inner, steps = self.inner, (self.x_n, self.x_inner, self.out_n, self.out_inner)
        return self.outer == 1 and steps == (inner, 1, inner, 1)


def columns_of_rows(rows: Rows, dtype: torch.dtype) -> Columns:
    """Rows that lie across, as columns."""
    if rows.inner == 1:
        outer, inner, x_outer, x_inner, out_outer, out_inner = 1, rows.total, 0, rows.x_outer, 0, rows.out_outer
    else:
        outer, inner = rows.total // rows.inner, rows.inner
        x_outer, x_inner, out_outer, out_inner = rows.x_outer, rows.x_inner, rows.out_outer, rows.out_inner
    written = (out_outer, rows.out_n) if rows.out_n else ()
    multiple = math.gcd(16 // dtype.itemsize, inner, x_outer, rows.x_n, *written)
    return Columns(outer, rows.n, inner, x_outer, rows.x_n, x_inner, out_outer, rows.out_n, out_inner, multiple)


def edges_of(rows: Rows, x: torch.Tensor, out: torch.Tensor) -> int:
    """Elements of a 16-byte vector where rows start or end within one and may be read by whole ones in between, else 0.

    x and out must agree in where their rows start within a vector; a reduction's output is of no concern.
    """
    vector = 16 // x.element_size()
    if rows.common >= vector or rows.n < 2 * vector or rows.x_n != 1 or rows.across or x.data_ptr() % 16:
        return 0
    if rows.out_n and (
        rows.out_n != 1
        or out.data_ptr() % 16
        or (rows.x_outer - rows.out_outer) % vector
        or (rows.x_inner - rows.out_inner) % vector
    ):
        return 0
    return vector


def compiled(x: torch.Tensor, kernel: Any, args: tuple[Any, ...], warps: int, stages: int = 1, **options: Any) -> Any:
    """Compile a kernel for all of its arguments, constants included, and load it; None in the interpreter, and where
    plans are only noted.

    Compiling happens here, in the bind, one at a time: a launch neither compiles nor races with another first launch.
    """
    if noting.get() is not None:
        return None
    with _lock, on_device_of(x):
        # Said outright, since Triton's default is to change with 3.10, and 3.9 warns of it.
        options |= {"enable_fp_fusion": True, "num_warps": warps, "num_stages": stages}
        if current_device().waits:
            options["launch_pdl"] = True
        try:
            program = kernel.warmup(*args, grid=(1,), **options)
        except (OSError, ValueError, KeyError) as error:  # not the compiler's: files of its cache, cut short or refused
            code_cache.thrown_away("TRITON_CACHE_DIR", Path(triton.knobs.cache.dir), f"{type(error).__name__}: {error}")
            program = kernel.warmup(*args, grid=(1,), **options)
        if program is not None:
            program.run  # noqa: B018  # the property loads the binary, which is when registers are known
        return program


def launch_of(implementation: str, kernel: Any, program: Any, programs: int, args: tuple[Any, ...]) -> Launch:
    """The launch of so many programs of a kernel that ``compiled`` returned for the same arguments, x the first of them
    and, where there is no workspace, out the second.

    Raises UnsupportedProblemError if the grid is too large.
    """
    if programs > MAX_PROGRAMS:
        raise UnsupportedProblemError(implementation, f"it needs {programs} programs, a grid holds {MAX_PROGRAMS}")
    x = args[0]
    if program is None:
        grid = (programs, 1, 1)

        def interpret() -> None:
            # Triton's interpreter patches the language while it runs, so it runs one launch at a time. NumPy warns of
            # inf - inf and of a row of NaN, which are legal here.
            with _lock, warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                kernel[grid](*args)

        return interpret
    # Straight to the compiled kernel's launcher, without the argument handling of Triton's own call (5 us and more for
    # a kernel of 14 arguments). An address is as good as a tensor to it, and spares it a query of the driver.
    call, fixed, together = submission(program)
    device: int = x.get_device()
    stream = _current_stream
    plain = tuple(arg.data_ptr() if isinstance(arg, torch.Tensor) else arg for arg in args)
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if len(tensors) == 2:
        rest = plain[2:]

        def at(x: int, out: int) -> None:
            if together:
                call(programs, 1, 1, stream(device), *fixed, (x, out, *rest))
            else:
                call(programs, 1, 1, stream(device), *fixed, x, out, *rest)

        return Movable(at, x, args[1])
    arguments = (plain,) if together else plain

    def launch(_alive: tuple[Any, ...] = args) -> None:
        call(programs, 1, 1, stream(device), *fixed, *arguments)

    return owning(launch, *tensors[2:])


class Submission(NamedTuple):
    """How a compiled kernel is launched: ``call(programs, 1, 1, stream, *fixed, *arguments)``, or the arguments
    together, as the last."""

    call: Callable[..., None]
    fixed: tuple[Any, ...]
    together: bool


def submission(program: Any) -> Submission:
    """The launch of a compiled kernel, with no hooks.

    What a CUDA launcher of Triton 3.6 or 3.7 hands to its own ``launch`` is the same at every call but for stream and
    arguments, as long as the kernel asks for no scratch memory; to work it out anew takes half a microsecond.
    """
    run, hooks, scratch = program.run, (None, None, None), (None, None)
    known = triton.__version__.startswith(("3.6.", "3.7.")) and type(run).__name__ == "CudaLauncher"
    if not known or run.global_scratch_size or run.profile_scratch_size:
        return Submission(run, (program.function, program.packed_metadata, *hooks), together=False)
    kind = (program.function, run.launch_cooperative_grid, run.launch_pdl)
    if hasattr(run, "kernel_signature"):  # from 3.7 on, one launch for all kernels
        rest = (program.packed_metadata, *hooks, *scratch, run.arg_annotations, run.kernel_signature)
        return Submission(run.launch, (*kind, *rest), together=True)
    return Submission(run.launch, (*kind, *scratch, program.packed_metadata, *hooks), together=False)


def bound(
    implementation: str, x: torch.Tensor, kernel: Any, programs: int, args: tuple[Any, ...], warps: int, **options: Any
) -> Launch:
    """Compile a kernel and return its launch over so many programs; see ``compiled`` and ``launch_of``."""
    note(kernel, programs, args, warps, **options)
    return launch_of(implementation, kernel, compiled(x, kernel, args, warps, **options), programs, args)


def note(kernel: Any, programs: int, args: tuple[Any, ...], warps: int, stages: int = 1, **options: Any) -> None:
    """Where plans are noted (see :mod:`kernelzoo.tables`), note this one."""
    steps = noting.get()
    if steps is not None:
        numbers = tuple(str(arg) for arg in args if not isinstance(arg, torch.Tensor))
        what = f"{kernel.__name__}, {warps} warps, {stages} stages, {options}"
        steps.append(Step(what, (programs,), warps * current_device().warp_size, arguments=numbers))


_lock = threading.RLock()

# The caller's stream, and no object made for it; a torch built for the CPU, where kernels are compiled ahead of time,
# has none.
_current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)
