import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_rounding_error, load_masked, row_end_indices, vector_bounds
from kernelzoo.kernels.helion.launch import bind_pair
from kernelzoo.kernels.helion.softmax.device_functions import exponential, update_state, zero_if_neg_inf
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def pairs_kernel(x, tops, totals, span, acc_dtype: torch.dtype):
    """Store the (max, sum) states of span elements of each row of a tile."""
    outer, n, inner = x.size()
    parts = tops.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        top = hl.full([o, i], float("-inf"), dtype=acc_dtype)
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            top, total, lost = update_state(top, total, lost, x[o, c, i].to(acc_dtype))
        total = add_rounding_error(total, lost)
        tops[o, part.begin, i] = top
        totals[o, part.begin, i] = total


@helion.kernel(static_shapes=False)
def merge_kernel(x, tops, totals, out, span, acc_dtype: torch.dtype):
    """Each program merges the states of its rows' parts in the same order, so that all get the same bits."""
    outer, n, inner = x.size()
    parts = tops.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        every = tops[o, :, i]
        top = torch.amax(every, dim=1)
        # A part of only -inf has the state (-inf, 0). A row of only -inf has it too, and becomes 0 * (1 / 0) = NaN.
        shift = zero_if_neg_inf(top)
        inverse = 1.0 / (totals[o, :, i] * exponential(every - shift[:, None, :])).sum(1)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            tile = x[o, c, i].to(acc_dtype)
            out[o, c, i] = (exponential(tile - shift[:, None, :]) * inverse[:, None, :]).to(out.dtype)


@helion.kernel(static_shapes=False)
def ragged_pairs_kernel(x, tops, totals, n, span, acc_dtype: torch.dtype, shift: hl.constexpr):
    """Store the (max, sum) state of span elements of a row's whole vectors. Part 0 also includes the row's ends."""
    rows, parts, _ = tops.size()
    for o, part in hl.tile([rows, parts], block_size=[None, 1]):
        row = o.index[:, None]
        first, stop = vector_bounds(row, n, shift)
        end, outside = row_end_indices(row, n, first, stop, shift, part.begin)
        top = hl.full([o], float("-inf"), dtype=acc_dtype)
        total = hl.zeros([o], dtype=acc_dtype)
        lost = hl.zeros([o], dtype=acc_dtype)
        top, total, lost = update_state(top, total, lost, load_masked(x, end, outside, float("-inf"), acc_dtype))
        for c in hl.tile(part.begin * span, part.begin * span + span):
            place = first + c.index[None, :]
            top, total, lost = update_state(
                top, total, lost, load_masked(x, place, place < stop, float("-inf"), acc_dtype)
            )
        tops[o, part.begin, 0] = top
        totals[o, part.begin, 0] = add_rounding_error(total, lost)


@helion.kernel(static_shapes=False)
def ragged_merge_kernel(x, tops, totals, out, n, span, acc_dtype: torch.dtype, shift: hl.constexpr):
    rows, parts, _ = tops.size()
    for o, part in hl.tile([rows, parts], block_size=[None, 1]):
        row = o.index[:, None]
        first, stop = vector_bounds(row, n, shift)
        every = tops[o, :, 0]
        top = torch.amax(every, dim=1, keepdim=True)
        # A part of only -inf has the state (-inf, 0). A row of only -inf has it too, and becomes 0 * (1 / 0) = NaN.
        inverse = 1.0 / (totals[o, :, 0] * exponential(every - zero_if_neg_inf(top))).sum(1, keepdim=True)
        end, outside = row_end_indices(row, n, first, stop, shift, part.begin)
        ends = load_masked(x, end, outside, float("-inf"), acc_dtype)
        hl.store(out, [end], (exponential(ends - zero_if_neg_inf(top)) * inverse).to(out.dtype), extra_mask=outside)
        for c in hl.tile(part.begin * span, part.begin * span + span):
            place = first + c.index[None, :]
            here = place < stop
            tile = load_masked(x, place, here, float("-inf"), acc_dtype)
            hl.store(out, [place], (exponential(tile - zero_if_neg_inf(top)) * inverse).to(out.dtype), extra_mask=here)


@register("helion", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store states. A second launch merges them and writes."""
    id, acc_dtype = "helion/softmax/split_two_launches", tiles.acc_dtype(x)
    rows, views = tiles.rows_and_views(x, out)
    tile, pair = tiles.loop_tile(rows, tiles.BLOCK_BYTES), (acc_dtype, acc_dtype)
    plan = tiles.plan_parts(rows, tile, device_of(x))
    if tiles.hides_vectors(rows):
        both, kinds = (ragged_pairs_kernel, ragged_merge_kernel), (acc_dtype, tiles.vector_log2(rows))
        blocks, flat = (tile.outer, tile.cols // 2), tiles.view_as_one_axis(x, out)
        return bind_pair(id, both, flat, 1, rows, tile, plan, pair, kinds, blocks=blocks, before_span=(rows.n,))
    return bind_pair(id, (pairs_kernel, merge_kernel), views, 1, rows, tile, plan, pair, (acc_dtype,))
