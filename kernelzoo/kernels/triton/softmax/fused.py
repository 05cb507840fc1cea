"""One program to a row, which it holds on chip: one read, one write.

After Triton's tutorial (python/tutorials/02-fused-softmax.py) in its first form.
"""

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.softmax.tiles import Numbers, row_columns, row_warps, tile_columns
from kernelzoo.kernels.triton.softmax.words import softmax_row
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


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
