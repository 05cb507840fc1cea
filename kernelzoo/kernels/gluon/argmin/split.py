import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.argmin.rows import find_first_minimum, row_argmin
from kernelzoo.kernels.gluon.long_rows import load_parts, locate_tile_and_part, result_offset
from kernelzoo.kernels.gluon.packs import locate_tile_rows, make_pack_constants
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.shared.pack_tiles import plan_parts
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import min_identity, rows_of
from kernelzoo.registry import register


@gluon.jit
def parts_kernel(
    x, out, least, places, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    parts, span, IDENTITY: gl.constexpr, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, LANES: gl.constexpr,
    PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    tile, part, begin, end = locate_tile_and_part(gl.cast(n, gl.int64) * MULTIPLE, parts, span)
    group, place, there = locate_tile_rows(tile, rows, inner, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None, None]
    part_least, found = row_argmin(
        x_rows, x_n, begin, end, there[:, None, None], IDENTITY, ACC_DTYPE, ROWS, LANES, PACK, VECTOR, LAYOUT
    )
    left = (group * inner + place) * parts + part
    gl.store(least + left, part_least, there)
    gl.store(places + left, found, there)


@gluon.jit
def first_kernel(
    x, out, least, places, parts, inner, out_outer, out_inner, IDENTITY: gl.constexpr, PARTS: gl.constexpr
):  # fmt: skip
    dev.await_last_launch()
    NONE: gl.constexpr = 0x7FFFFFFFFFFFFFFF
    part_places = load_parts(places, parts, NONE, PARTS)
    _, place = find_first_minimum(load_parts(least, parts, IDENTITY, PARTS), part_places, NONE)
    gl.store(out + result_offset(inner, out_outer, out_inner), place)


@register("gluon", "argmin", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program reduces part of a row as ``rows`` does. A second launch takes the first part with the minimum."""
    rows = rows_of(x, out)
    plan, id, none = plan_parts(x, rows), "gluon/argmin/split", min_identity(x.dtype)
    least = x.new_empty((rows.total, plan.parts), dtype=wide_dtype(x.dtype))
    left = (x, out, least, x.new_empty(least.shape, dtype=torch.int64))
    kinds = (plan.parts, plan.span, none, wide_type(x.dtype))
    args = (*left, *row_arguments(rows), *kinds, *make_pack_constants(rows, plan.tile))
    first = bind_grid(id, parts_kernel, plan.programs, args, plan.tile.warps)
    args = (*left, plan.parts, rows.inner, rows.out_outer, rows.out_inner, none, plan.padded_parts)
    return chain_launches(first, bind_grid(id, first_kernel, rows.total, args, 1))
