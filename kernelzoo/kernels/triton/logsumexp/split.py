import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import PackPlan, plan_parts
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.long_rows import load_parts, locate_rows_and_part, row_to_merge
from kernelzoo.kernels.triton.packs import max_and_sum, merge_states
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import register


@triton.jit
def states_kernel(
    x, out, states, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, LOWEST: tl.constexpr, HIGHEST: tl.constexpr, ACC_DTYPE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    row, begin, end, place = locate_rows_and_part(tl.cast(n, tl.int64) * MULTIPLE, parts, span, ROWS)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    top, total = max_and_sum(
        x, x_start, x_n, begin, end, row < rows, LOWEST, HIGHEST, ACC_DTYPE, ROWS, BLOCK, LANES, VECTOR
    )
    tl.store(states + place, top, row < rows)
    tl.store(states + tl.cast(rows, tl.int64) * parts + place, total, row < rows)


@triton.jit
def load_merged_state(states, row, rows, parts, LOWEST: tl.constexpr, PARTS: tl.constexpr):
    """Load the states of all parts of rows. Return the merged (max, sum) of each row."""
    tops = load_parts(states, row, parts, LOWEST, PARTS)
    return merge_states(tops, load_parts(states + tl.cast(rows, tl.int64) * parts, row, parts, 0, PARTS))


@triton.jit
def merge_kernel(
    x, out, states, rows, parts, inner, out_outer, out_inner, LOWEST: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    await_last_launch()
    row = row_to_merge()
    top, total = load_merged_state(states, row, rows, parts, LOWEST, PARTS)
    result = (top + tl.log(total)).to(out.dtype.element_ty)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), result)


def launch_states(
    id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, plan: PackPlan, highest: float
) -> tuple[torch.Tensor, Launch]:
    """Return (a workspace for the parts' states, the launch that fills it). In memory, all maxima precede all sums."""
    lowest = torch.finfo(wide_dtype(x.dtype)).min
    states = x.new_empty((2, rows.total, plan.parts), dtype=wide_dtype(x.dtype))
    kinds = (plan.parts, plan.span, lowest, highest, wide_type(x.dtype))
    args = (x, out, states, *row_arguments(rows), *kinds, *plan.tile.constants)
    return states, bind_grid(id, states_kernel, plan.programs, args, plan.tile.warps)


@register("triton", "logsumexp", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program reduces part of a row as ``rows`` does. A second launch merges the states, one program per row."""
    rows = rows_of(x, out)
    plan, lowest = plan_parts(x, rows), torch.finfo(wide_dtype(x.dtype)).min
    states, first = launch_states("triton/logsumexp/split", x, out, rows, plan, -lowest)
    place = (rows.total, plan.parts, rows.inner, rows.out_outer, rows.out_inner)
    args = (x, out, states, *place, lowest, plan.padded_parts)
    return chain_launches(first, bind_grid("triton/logsumexp/split", merge_kernel, rows.total, args, 1))
