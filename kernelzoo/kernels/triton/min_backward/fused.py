import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.kernels.shared.device_functions import split_gradient
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, head_and_body, head_and_tail, row_start
from kernelzoo.kernels.triton.gradients import fused_launch
from kernelzoo.kernels.triton.min_backward.columns_kernel import columns_kernel
from kernelzoo.kernels.triton.softmax import tiles
from kernelzoo.kernels.triton.softmax.device_functions import READ
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, next_power_of_two
from kernelzoo.registry import register
from kernelzoo.tables import of

FEW_ROWS_PER_SM = 16
"""The number of rows per SM up to which threads have eight elements each, if the device has room. On an H200, (264,
12288) bfloat16 takes 5.4 us with 1024 threads, 6.2 with 256; (1823, 781) float32 4.7 with 64, 5.0 with 32."""


@triton.jit
def fused_kernel(
    x, y, grad, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner,
    ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, SINGLE: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of ROWS rows. COLS: a power of two, not below a row's length without its unaligned ends."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n *= MULTIPLE
    if SINGLE:  # adds 0, which hides the stride's divisors: a thread then has whole rows, not vectors across rows
        x_n += tl.program_id(1)
        out_n += tl.program_id(1)
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, COLS)
    AXIS: tl.constexpr = 0 if ROWS == 1 else 1
    if ROWS > 1:
        row = (row * ROWS + tl.arange(0, ROWS))[:, None]
        cols = cols[None, :]
    in_rows = row < rows
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1), in_rows, other=0).to(ACC_DTYPE)
    slope = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1), in_rows, other=0).to(ACC_DTYPE)
    if EDGES:
        before, inside = head_and_body(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        mask = in_rows & (cols < inside)
        lane = tl.arange(0, 2 * EDGES)
        edge, known = head_and_tail(lane[None, :] if AXIS == 1 else lane, before, inside, n, EDGES)
        known = known & in_rows
        edges_equal = tl.load(x + (x_start + edge), known, other=float("nan")).to(ACC_DTYPE) == least
        here = align(x_start, EDGES) + cols
        equal = tl.load(x + here, mask, other=float("nan"), eviction_policy=READ).to(ACC_DTYPE) == least
        count = tl.sum(equal.to(tl.int32), AXIS, keep_dims=True)
        count += tl.sum(edges_equal.to(tl.int32), AXIS, keep_dims=True)
        each, rest = split_gradient(slope, count, DTYPE)
        here = align(out_start, EDGES) + cols
        tl.store(out + here, tl.where(equal, each, rest), mask)
        tl.store(out + (out_start + edge), tl.where(edges_equal, each, rest), known)
    else:
        mask = in_rows & (cols < n)
        here = cols.to(tl.int64)
        tile = tl.load(x + (x_start + here * x_n), mask, other=float("nan"), eviction_policy=READ)
        equal = tile.to(ACC_DTYPE) == least
        each, rest = split_gradient(slope, tl.sum(equal.to(tl.int32), AXIS, keep_dims=True), DTYPE)
        tl.store(out + (out_start + here * out_n), tl.where(equal, each, rest), mask)


def choose_warps(device: Device, rows: Rows, edges: int) -> int:
    warps = tiles.row_warps(of(tiles.Knobs, device.index), device, rows, edges)
    if rows.planned > FEW_ROWS_PER_SM * device.multiprocessors:
        return warps
    threads = min(device.threads * device.multiprocessors // max(1, rows.planned), rows.n // 8)
    return max(warps, device.warps(next_power_of_two(threads + 1) // 2))


@register("triton", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps a row, several short rows or a strip of columns on chip: one read, one write."""
    return fused_launch("triton/min_backward/fused", fused_kernel, columns_kernel, (x, y, grad, out), 1, choose_warps)
