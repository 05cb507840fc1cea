import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.long_rows import load_parts, locate_tile_and_part, result_offset
from kernelzoo.kernels.gluon.packs import locate_tile_rows, make_pack_constants, max_and_sum, merge_states
from kernelzoo.kernels.gluon.tiles import lowest_finite
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import PackPlan, plan_parts
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import register


@gluon.jit
def states_kernel(
    x, out, states, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr, parts,
    span, LOWEST: gl.constexpr, HIGHEST: gl.constexpr, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, LANES: gl.constexpr,
    PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    tile, part, begin, end = locate_tile_and_part(gl.cast(n, gl.int64) * MULTIPLE, parts, span)
    group, place, there = locate_tile_rows(tile, rows, inner, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None, None]
    top, total = max_and_sum(
        x_rows, x_n, begin, end, there[:, None, None], LOWEST, HIGHEST, ACC_DTYPE, ROWS, LANES, PACK, VECTOR, LAYOUT
    )
    left = states + (group * inner + place) * parts + part
    gl.store(left, top, there)
    gl.store(left + gl.cast(rows, gl.int64) * parts, total, there)


@gluon.jit
def load_merged_state(states, rows, parts, LOWEST: gl.constexpr, PARTS: gl.constexpr):
    """Load the states of all parts of this program's row. Return them merged, as (max, sum)."""
    tops = load_parts(states, parts, LOWEST, PARTS)
    return merge_states(tops, load_parts(states + gl.cast(rows, gl.int64) * parts, parts, 0, PARTS))


@gluon.jit
def merge_kernel(
    x, out, states, rows, parts, inner, out_outer, out_inner, LOWEST: gl.constexpr, PARTS: gl.constexpr
):  # fmt: skip
    dev.await_last_launch()
    top, total = load_merged_state(states, rows, parts, LOWEST, PARTS)
    result = (top + gl.log(total)).to(out.dtype.element_ty)
    gl.store(out + result_offset(inner, out_outer, out_inner), result)


def launch_states(
    id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, plan: PackPlan, highest: float
) -> tuple[torch.Tensor, Launch]:
    """Return (a workspace for the parts' states, the launch that fills it). In memory, all maxima precede all sums."""
    states = x.new_empty((2, rows.total, plan.parts), dtype=wide_dtype(x.dtype))
    kinds = (plan.parts, plan.span, lowest_finite(states.dtype), highest, wide_type(x.dtype))
    args = (x, out, states, *row_arguments(rows), *kinds, *make_pack_constants(rows, plan.tile))
    return states, bind_grid(id, states_kernel, plan.programs, args, plan.tile.warps)


@register("gluon", "logsumexp", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program reduces part of a row as ``rows`` does. A second launch merges the states, one program per row."""
    rows = rows_of(x, out)
    plan, least = plan_parts(x, rows), lowest_finite(wide_dtype(x.dtype))
    states, first = launch_states("gluon/logsumexp/split", x, out, rows, plan, -least)
    place = (rows.total, plan.parts, rows.inner, rows.out_outer, rows.out_inner)
    args = (x, out, states, *place, least, plan.padded_parts)
    return chain_launches(first, bind_grid("gluon/logsumexp/split", merge_kernel, rows.total, args, 1))
