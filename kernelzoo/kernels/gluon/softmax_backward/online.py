import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.device_functions import TOGETHER
from kernelzoo.kernels.shared.jit import bind_grid, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@gluon.jit
def online_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    y_outer, y_n, y_inner, ACC_DTYPE: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr,
    WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr
):  # fmt: skip
    dev.await_last_launch()
    DTYPE: gl.constexpr = out.dtype.element_ty
    n, inner, grad_n, y_n = dev.multiply_sizes(gl.cast(n, gl.int64), inner, grad_n, y_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    _, _, out_n, _ = dev.multiply_sizes(n, inner, out_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, ACROSS, ROWS, LAYOUT)
    there = there[:, None]
    grad_start = dev.row_start(group, place, grad_outer, grad_inner, MULTIPLE, ACROSS)[:, None]
    y_start = dev.row_start(group, place, y_outer, y_inner, MULTIPLE, ACROSS)[:, None]
    out_start = dev.row_start(group, place, out_outer, out_inner, MULTIPLE, ACROSS)[:, None]
    cols, here = dev.column_offsets(BLOCK, WIDE_OFFSETS, LAYOUT)
    length, edge, known, grad_edges = dev.load_edges(grad, grad_start, there, n, 0, ACC_DTYPE, EDGES, EDGE_LAYOUT)
    if EDGES:
        y_edges = gl.load(dev.edge_pointers(y, y_start, edge, EDGE_LAYOUT), known, other=0).to(ACC_DTYPE)
        out_edges = dev.edge_pointers(out, out_start, edge, EDGE_LAYOUT)
    grad_start = dev.align(grad_start, EDGES)
    y_start = dev.align(y_start, EDGES)
    out_start = dev.align(out_start, EDGES)
    longest = dev.end_of_vectors(n, EDGES)
    running = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    total = gl.full([ROWS, 1], 0.0, ACC_DTYPE, LAYOUT)
    for start in range(0, longest, BLOCK):
        mask = there & (cols < length - start)
        grads = gl.load(grad + (grad_start + start * grad_n) + here * grad_n, mask, other=0).to(ACC_DTYPE)
        weights = gl.load(y + (y_start + start * y_n) + here * y_n, mask, other=0).to(ACC_DTYPE)
        running += grads * weights
        if (gl.cast(start, gl.int64) % (TOGETHER * BLOCK) == (TOGETHER - 1) * BLOCK) | (start + BLOCK >= longest):
            total += gl.sum(running, 1, keep_dims=True)
            running = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    if EDGES:
        total += gl.convert_layout(gl.sum(grad_edges * y_edges, 1, keep_dims=True), LAYOUT)
        gl.store(out_edges, (y_edges * (grad_edges - gl.convert_layout(total, EDGE_LAYOUT))).to(DTYPE), known)
    blocks = (longest + BLOCK - 1) // BLOCK
    for i in range(blocks):
        start = (blocks - 1 - i) * BLOCK  # backwards: what was read last is likely still in a cache
        mask = there & (cols < length - start)
        grads = gl.load(grad + (grad_start + start * grad_n) + here * grad_n, mask, other=0).to(ACC_DTYPE)
        weights = gl.load(y + (y_start + start * y_n) + here * y_n, mask, other=0).to(ACC_DTYPE)
        gl.store(out + (out_start + start * out_n) + here * out_n, (weights * (grads - total)).to(DTYPE), mask)


@register("gluon", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks keeps a running sum of grad * y in each lane. A second pass reads again and writes."""
    rows, (weights,) = layouts_of(grad, out, y)
    tile = tiles.make_block_tile(rows, tiles.BLOCK_BYTES, weights)
    kinds = (wide_type(grad.dtype), *tile.kernel_constants(rows, weights))
    args = (grad, y, out, *tiles.layout_arguments(rows, tile, weights), *kinds)
    id = "gluon/softmax_backward/online"
    return bind_grid(id, online_kernel, tile.count_tiles(rows), args, tile.warps, tensors=3)
