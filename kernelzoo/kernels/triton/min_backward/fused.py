"""One program to a row, which it holds on chip: one read, one write."""

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.min_backward.arguments import one_a_row
from kernelzoo.kernels.triton.min_backward.words import gradient_tile
from kernelzoo.kernels.triton.softmax.fused import Numbers, row_columns, row_warps
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, power_of_two, rows_with
from kernelzoo.registry import register
from kernelzoo.tables import of

FEW = 16
"""Rows to a multiprocessor. Of so few, each is spread over as many threads as there is room for, eight elements to one:
(264, 12288) bfloat16 takes 5.4 us by 1024 threads on an H200, 6.2 by 256; (1823, 781) float32 4.7 by 64, 5.0 by 32."""


@triton.jit
def fused_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner, WIDE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program r has row r. COLS is the power of two that holds it: ``gradient_tile`` masks what lies past its end."""
    await_last_launch()
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1)).to(WIDE)
    slope = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1)).to(WIDE)
    cols = tl.arange(0, COLS)
    gradient_tile(x, x_start, x_n, least, slope, out, out_start, out_n, row < rows, n, cols, WIDE, EDGES, 0)


def warps_of(rows: Rows, device: Device, edges: int) -> int:
    """Warps for one row."""
    warps = row_warps(of(Numbers, device.index), device, rows, edges)
    if rows.total > FEW * device.multiprocessors:
        return warps
    threads = min(device.threads * device.multiprocessors // max(1, rows.total), rows.n // 8)
    return max(warps, device.warps(power_of_two(threads + 1) // 2))


@register("triton", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, which it holds on chip: one read, one write."""
    rows, others = rows_with(x, out, y, grad)
    device, edges = device_of(x), edges_of(rows)
    columns = row_columns(rows, edges, "triton/min_backward/fused")
    warps = warps_of(rows, device, edges)
    args = (x, y, grad, out, *row_arguments(rows), *one_a_row(others), wide_type(x.dtype), edges, columns)
    return bound("triton/min_backward/fused", x, fused_kernel, rows.total, args, warps, tensors=4)
