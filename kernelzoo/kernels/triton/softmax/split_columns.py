"""Softmax of columns that several programs share: strips stay in registers, or tiles are read twice."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.exchange import LEAVE, WRITE, phase_per_launch
from kernelzoo.kernels.shared.jit import bind_grid, device_of, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.kernels.shared.split import split
from kernelzoo.kernels.triton.device_functions import add_exactly, add_up, await_last_launch, rounded_product, row_start
from kernelzoo.kernels.triton.softmax.columns import launch_strips
from kernelzoo.kernels.triton.softmax.strips import Strips, count_strip_parts, plan_strips
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import Columns, Rows, cdiv, next_power_of_two, rows_of

ID = "triton/softmax/split"

TILE_BYTES, THREADS, PROGRAMS, MANY_PARTS, LEAST_PART = 32768, 256, 2, 512, 64
"""Bytes per tile in the dtype of the computation, threads per program, programs per SM, the most programs per tile, and
the fewest elements of a row per program."""


@triton.jit(do_not_specialize=["parts", "span", "blocks"])
def split_across_kernel(
    x, out, pairs, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, blocks, ACC_DTYPE: tl.constexpr, LOWEST: tl.constexpr, PHASE: tl.constexpr,
    VECTOR: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Compute softmax of columns. Phase LEAVE stores parts' (max, sum) pairs. The next phase merges them and writes."""
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    part = program % parts
    groups = tl.num_programs(0) // parts
    lanes = tl.arange(0, PARTS)[None, :]
    cols = tl.arange(0, COLS).to(tl.int64)[None, :]
    begin = part.to(tl.int64) * span * VECTOR
    end = tl.minimum(n, begin + tl.cast(span, tl.int64) * VECTOR)
    for i in range(program // parts, (rows - 1) // ROWS + 1, groups):  # rows + ROWS may be past 2^31
        row = tl.cast(i, tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        in_rows = row < rows
        x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        tops = pairs + row * (2 * parts)
        totals = tops + parts
        if PHASE == LEAVE:
            top = tl.full([ROWS, 1], LOWEST, ACC_DTYPE)  # finite: see online_state
            total = tl.zeros_like(top)
            lost = tl.zeros_like(top)
            for k in range(blocks):
                here = begin + k * COLS + cols
                tile = tl.load(x + (x_start + here * x_n), in_rows & (here < end), other=float("-inf")).to(ACC_DTYPE)
                new_top = tl.maximum(top, tl.max(tile, 1, keep_dims=True))
                terms = tl.sum(exponential(tile - new_top), 1, keep_dims=True)
                scale = exponential(top - new_top)
                total, lost = add_exactly(total * scale, lost * scale, terms)
                top = new_top
            tl.store(tops + part, top, in_rows)
            tl.store(totals + part, add_up(total, lost), in_rows)
        else:
            there = in_rows & (lanes < parts)
            row_tops = tl.load(tops + lanes, there, other=LOWEST, volatile=True)
            row_totals = tl.load(totals + lanes, there, other=0.0, volatile=True)
            row_top = tl.max(row_tops, 1, keep_dims=True)
            inverse = 1.0 / tl.sum(rounded_product(row_totals, exponential(row_tops - row_top)), 1, keep_dims=True)
            for k in range(blocks):
                here = begin + (blocks - 1 - k) * COLS + cols  # backwards: what was read last is likely still in L2
                mask = in_rows & (here < end)
                tile = tl.load(x + (x_start + here * x_n), mask, other=float("-inf")).to(ACC_DTYPE)
                result = (exponential(tile - row_top) * inverse).to(out.dtype.element_ty)
                tl.store(out + (out_start + here * out_n), result, mask)


def launch_columns(x: torch.Tensor, out: torch.Tensor, columns: Columns) -> Launch:
    """Return the launch, or two: over strips if their parts fit in registers, else over tiles."""
    strips = plan_strips(columns, device_of(x))
    if strips is not None and strips.elements < columns.n:
        return launch_shared_strips(x, out, columns, strips)
    return launch_shared_tiles(x, out, rows_of(x, out))


def launch_shared_strips(x: torch.Tensor, out: torch.Tensor, columns: Columns, strips: Strips) -> Launch:
    """Return the launch, or two, over strips that several programs share and keep in registers."""
    device = device_of(x)
    place = (2, columns.strip_count(strips.columns), count_strip_parts(columns, strips, device), strips.columns)
    shared = x.new_full(place, -1, dtype=torch.int64), x.new_zeros(1, dtype=torch.int64)
    return chain_launches(*(launch_strips(ID, x, out, columns, strips, p, *shared) for p in phase_per_launch(device)))


def launch_shared_tiles(x: torch.Tensor, out: torch.Tensor, rows: Rows) -> Launch:
    """Return the two launches over tiles that programs share, with as many programs as can be resident at once."""
    device, wide, side = device_of(x), wide_dtype(x.dtype), LINE_BYTES // rows.itemsize
    tiles, block = cdiv(rows.total, side), TILE_BYTES // wide.itemsize // side
    resident = PROGRAMS * device.multiprocessors
    most = max(1, min(resident // tiles, MANY_PARTS, cdiv(rows.n, LEAST_PART)))
    plan = split(tiles, rows.n, most, rows.vector_elements, resident)
    pairs = x.new_empty((rows.total, 2, plan.parts), dtype=wide)
    place = (x, out, pairs, *row_arguments(rows), plan.parts, plan.span // rows.vector_elements, cdiv(plan.span, block))
    kinds = (wide_type(x.dtype), torch.finfo(wide).min)
    sizes = (rows.vector_elements, side, block, next_power_of_two(plan.parts))

    def part(phase: object) -> Launch:
        args = (*place, *kinds, phase, *sizes)
        return bind_grid(ID, split_across_kernel, plan.blocks, args, device.warps(THREADS))

    return chain_launches(part(LEAVE), part(WRITE))
