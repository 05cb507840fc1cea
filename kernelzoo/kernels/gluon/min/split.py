import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.min.tiles import block_tile, min_constants
from kernelzoo.kernels.shared.jit import bind_grid, device_of, wide_dtype
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


@gluon.jit(do_not_specialize=["parts", "span"])
def split_kernel(
    x, out, partials, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: gl.constexpr, parts, span, UNIT: gl.constexpr, PARTS: gl.constexpr, ACC_DTYPE: gl.constexpr,
    IDENTITY: gl.constexpr, EDGES: gl.constexpr, ACROSS: gl.constexpr, WIDE_OFFSETS: gl.constexpr, ROWS: gl.constexpr,
    BLOCK: gl.constexpr, LAYOUT: gl.constexpr, EDGE_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Reduce one part of a tile's rows: ``span`` units of UNIT elements of each row. Part 0 also has the unaligned
    ends. PARTS: ``parts``, rounded up to a power of two."""
    dev.await_last_launch()
    n, inner, x_n, _ = dev.multiply_sizes(gl.cast(n, gl.int64), inner, x_n, out_n, MULTIPLE, WIDE_OFFSETS, ACROSS)
    number, part = dev.tile_and_part(parts)
    group, place, there = dev.row_coords(number, rows, inner, ACROSS, ROWS, LAYOUT)
    in_rows = there[:, None]
    x_start = dev.row_start(group, place, x_outer, x_inner, MULTIPLE, ACROSS)[:, None]
    cols, here = dev.column_offsets(BLOCK, WIDE_OFFSETS, LAYOUT)
    begin, end = dev.part_range(part, span, UNIT)
    length, _, _, edges = dev.load_edges(x, x_start, in_rows & (part == 0), n, IDENTITY, ACC_DTYPE, EDGES, EDGE_LAYOUT)
    x_start = dev.align(x_start, EDGES)
    length = gl.minimum(length, end)
    running = gl.full([ROWS, BLOCK], IDENTITY, ACC_DTYPE, LAYOUT)
    for start in range(begin, gl.minimum(end, n), BLOCK):
        block_here = x + (x_start + gl.cast(start, gl.int64) * x_n) + here * x_n
        mask = in_rows & (cols < length - start)
        block = gl.load(block_here, mask, other=IDENTITY, eviction_policy="evict_first")
        running = dev.min_or_nan(running, block.to(ACC_DTYPE))
    least = gl.reduce(running, 1, dev.min_or_nan)
    if EDGES:
        least = dev.min_or_nan(least, gl.convert_layout(gl.reduce(edges, 1, dev.min_or_nan), gl.SliceLayout(1, LAYOUT)))
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    left = partials + number.to(gl.int64) * ROWS * parts + lane
    gl.store(left + part * ROWS, least)
    # The barrier orders the stores of all threads before the arrival, which releases them to the device. The last
    # program to arrive acquires the stores of all others.
    dev.barrier()
    if gl.atomic_add(arrivals + number, 1, sem="acq_rel", scope="gpu") == parts - 1:
        dev.barrier()
        peer = gl.arange(0, PARTS, gl.SliceLayout(0, LAYOUT))[None, :]
        found = gl.load(left[:, None] + peer * ROWS, peer < parts, other=IDENTITY, cache_modifier=".cg")
        result = gl.reduce(found, 1, dev.min_or_nan).to(out.dtype.element_ty)
        gl.store(out + dev.row_start(group, place, out_outer, out_inner, 1, ACROSS), result, there)
        gl.store(arrivals + number, 0)  # for the next launch


@register("gluon", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns. The last to finish merges their minima: one launch.

    The launch resets its counts of finished programs to zero, so that it can be repeated.
    """
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    rows, device = rows_of(x, out), device_of(x)
    tile = block_tile(device, rows)
    plan, count = tiles.plan_parts(rows, tile, device), tile.count_tiles(rows)
    partials = x.new_empty((count, plan.parts, tile.rows), dtype=wide_dtype(x.dtype))
    arrivals = x.new_zeros(count, dtype=torch.int32)
    args = (x, out, partials, arrivals, *tiles.layout_arguments(rows, tile), *plan, *min_constants(rows, x.dtype, tile))
    return bind_grid("gluon/min/split", split_kernel, count * plan.parts, args, tile.warps)
