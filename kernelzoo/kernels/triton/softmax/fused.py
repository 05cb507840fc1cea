"""One program to a row, which it holds on chip: one read, one write."""

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, edge_columns, row_start, whole_vectors
from kernelzoo.kernels.triton.softmax.device_functions import READ, softmax_of, softmax_with_edges
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers, of

ON_CHIP_BYTES = 32768 * 4
"""The widest tile one program holds in registers: 1024 threads (the most a program may have) times 32 elements of
float32, or 16 of float64, which leaves half of the 64 registers a thread has then for everything else."""


@numbers
class Numbers:
    row_elements: int = knob(
        16, among=(8, 16, 32), unit="elements", why="to a thread of a program that holds one row of wide elements"
    )
    double_elements: int = knob(
        8, among=(4, 8, 16), unit="elements", why="to a thread of a program that holds one row of float64, at the most"
    )
    half_elements: int = knob(
        32, among=(16, 32, 64), unit="elements", why="to a thread of a program that holds one row of half precision"
    )
    full_row: int = knob(
        16384,
        among=(4096, 8192, 16384),
        unit="elements",
        why="rows of wide elements from here on, without edges, take the most threads that a program may have",
    )
    packed_limit: int = knob(  # 32 words to each of 256 threads
        16384,
        among=(8192, 16384, 32768),
        unit="elements",
        why="of the longest row of half precision for few threads; longer ones, if many, go to persistent",
    )


@triton.jit
def softmax_row(
    x, x_start, x_n, out, out_start, out_n, n, cols, WIDE: tl.constexpr, EDGES: tl.constexpr
):  # fmt: skip
    """Softmax of one row that is held on chip."""
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        x_body = x + (x_start + EDGES - 1) // EDGES * EDGES + cols
        out_body = out + (out_start + EDGES - 1) // EDGES * EDGES + cols
        mask = cols < inside
        edge, known = edge_columns(tl.arange(0, 2 * EDGES), before, inside, n, EDGES)
        edges = tl.load(x + x_start + edge, known, other=float("-inf"))
        tile = tl.load(x_body, mask, other=float("-inf"), eviction_policy=READ)
        result, edges = softmax_with_edges(tile.to(WIDE), edges.to(WIDE), 0)
        tl.store(out_body, result.to(out.dtype.element_ty), mask)
        tl.store(out + out_start + edge, edges.to(out.dtype.element_ty), known)
    else:
        mask = cols < n
        here = cols.to(tl.int64)
        tile = tl.load(x + x_start + here * x_n, mask, other=float("-inf"), eviction_policy=READ)
        tl.store(out + out_start + here * out_n, softmax_of(tile.to(WIDE), 0).to(out.dtype.element_ty), mask)


@triton.jit
def fused_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program r has row r. COLS is the power of two that holds it: ``softmax_row`` masks what lies past its end."""
    await_last_launch()
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    softmax_row(x, x_start, x_n, out, out_start, out_n, n, tl.arange(0, COLS), WIDE, EDGES)


def wide_bytes(rows: Rows) -> int:
    """Bytes of an element as it is computed."""
    return max(4, rows.itemsize)


def tile_columns(n: int, edges: int) -> int:
    """The power of two that holds the whole vectors of a row of n elements, or all of it if it has no edges."""
    return power_of_two(n // edges * edges if edges else n)


def row_columns(rows: Rows, edges: int, implementation: str) -> int:
    """Columns of a tile that holds a whole row, its edges aside. Raises UnsupportedProblemError if none can."""
    capacity = ON_CHIP_BYTES // wide_bytes(rows)
    if rows.n > capacity:
        raise UnsupportedProblemError(
            implementation, f"a row must fit on chip, {capacity} of {rows.dtype}; got {rows.n}"
        )
    return tile_columns(rows.n, edges)


def row_warps(knobs: Numbers, device: Device, rows: Rows, edges: int) -> int:
    """Warps for one row: no more than the row itself can feed, however wide its tile is."""
    n = rows.n
    if rows.itemsize == 2 and n <= knobs.packed_limit:
        threads = max(32, min(256, n // knobs.half_elements))
    elif rows.itemsize == 8:  # at least so many: of its exponentials' registers, too, each thread has a part
        threads = max(32, min(1024, power_of_two(cdiv(n, knobs.double_elements))))
    else:
        threads = 1024 if n >= knobs.full_row and not edges else max(32, n // knobs.row_elements)
    return device.warps(power_of_two(threads + 1) // 2)


def warps_of(knobs: Numbers, device: Device, rows: Rows, edges: int) -> tuple[int, dict[str, int]]:
    """Warps for one row, and what the compiler is told of their registers."""
    if rows.dtype == "float64" and edges and tile_columns(rows.n, edges) == 8192 and device.arch in ("sm_80", "sm_90"):
        # With its edges such a row takes 44 registers of 1024 threads, one program to a multiprocessor; so it has two,
        # where no register is spilled for that.
        return device.warps(512), {"maxnreg": 64}
    return row_warps(knobs, device, rows, edges), {}


@register("triton", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, which it holds on chip: one read, one write.

    After Triton's tutorial (python/tutorials/02-fused-softmax.py) in its first form.
    """
    rows, device = rows_of(x, out), device_of(x)
    edges = edges_of(rows)
    columns = row_columns(rows, edges, "triton/softmax/fused")
    warps, options = warps_of(of(Numbers, device.index), device, rows, edges)
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), edges, columns)
    return bound("triton/softmax/fused", x, fused_kernel, rows.total, args, warps, **options)
