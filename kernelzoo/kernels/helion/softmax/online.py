"""After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867)."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_rounding_error, load_masked, row_end_indices, vector_bounds
from kernelzoo.kernels.helion.launch import bind_flat, bind_tiled
from kernelzoo.kernels.helion.softmax.device_functions import exponential, update_state
from kernelzoo.launch import Launch
from kernelzoo.registry import register

LONG = 16384
"""The least length of contiguous rows for which blocks, and the number of threads, are doubled."""


@helion.kernel(static_shapes=False)
def online_kernel(x, out, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.full([o, i], float("-inf"), dtype=acc_dtype)
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            top, total, lost = update_state(top, total, lost, x[o, c, i].to(acc_dtype))
        total = add_rounding_error(total, lost)
        inverse = 1.0 / total
        for c in hl.tile(n):
            tile = x[o, c, i].to(acc_dtype)
            out[o, c, i] = (exponential(tile - top[:, None, :]) * inverse[:, None, :]).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_online_kernel(x, out, n, longest, rows, acc_dtype: torch.dtype, shift: hl.constexpr):
    """Do the same as ``online_kernel`` for unaligned rows. longest: a length that covers a row's whole vectors."""
    for o in hl.tile(rows):
        row = o.index[:, None]
        first, stop = vector_bounds(row, n, shift)
        end, outside = row_end_indices(row, n, first, stop, shift)
        ends = load_masked(x, end, outside, float("-inf"), acc_dtype)
        top = hl.full([o], float("-inf"), dtype=acc_dtype)
        total = hl.zeros([o], dtype=acc_dtype)
        lost = hl.zeros([o], dtype=acc_dtype)
        top, total, lost = update_state(top, total, lost, ends)
        for c in hl.tile(longest):
            place = first + c.index[None, :]
            top, total, lost = update_state(
                top, total, lost, load_masked(x, place, place < stop, float("-inf"), acc_dtype)
            )
        inverse = (1.0 / add_rounding_error(total, lost))[:, None]
        hl.store(out, [end], (exponential(ends - top[:, None]) * inverse).to(out.dtype), extra_mask=outside)
        for c in hl.tile(longest):
            place = first + c.index[None, :]
            here = place < stop
            tile = load_masked(x, place, here, float("-inf"), acc_dtype)
            hl.store(out, [place], (exponential(tile - top[:, None]) * inverse).to(out.dtype), extra_mask=here)


@register("helion", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks keeps a running (max, sum) state of each row. A second pass reads again and writes."""
    id, (rows, views) = "helion/softmax/online", tiles.rows_and_views(x, out)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES)
    if not rows.is_strided and rows.n >= LONG:
        tile = tile._replace(cols=2 * tile.cols, warps=2 * tile.warps)
    if tiles.hides_vectors(rows):
        kinds, sizes = (tiles.acc_dtype(x), tiles.vector_log2(rows)), (rows.n, tiles.padded_length(rows), rows.total)
        blocks = tile.outer, tile.cols // 2, tile.cols // 2  # offsets of elements take registers too
        return bind_flat(id, ragged_online_kernel, x, out, tile.warps, sizes, kinds, blocks)
    return bind_tiled(id, online_kernel, views, tile, (tiles.acc_dtype(x),), tile.block_sizes(2))
