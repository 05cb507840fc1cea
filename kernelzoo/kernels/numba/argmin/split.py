from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.argmin.rows import equal_or_both_nan, row_argmin_function
from kernelzoo.kernels.numba.device_functions import minimum
from kernelzoo.kernels.numba.dtypes import WIDE, highest
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, make_once, plan_once
from kernelzoo.kernels.numba.parts import MERGE_TILING, bind_parts_and_merge, cut_rows, part_finder
from kernelzoo.kernels.numba.row import block_reduce, row_finder, row_offsets
from kernelzoo.registry import register


@make_once
def parts_kernel(dtype: str, tiling: Tiling) -> Source:
    kind, first_least, find_part = WIDE[dtype], row_argmin_function(dtype, tiling), part_finder(tiling)
    (_, store), SCRATCH = machine.element_accessors("int64"), tiling.scratch

    def argmin_parts(x, places, out, rows, inner, n, x_at, out_at, phase, parts, span):
        least = cuda.shared.array(SCRATCH, kind)
        first = cuda.shared.array(SCRATCH, types.int64)
        lane, lanes, r, part, start, end = find_part(rows, n, parts, span)
        source, _ = row_offsets(r, inner, x_at, out_at)
        place = first_least(x, source, x_at.step, lane, lanes, start, end, least, first)
        if lane == 0 and r < rows:
            store(places, r * parts + part, place)

    return Source(argmin_parts, (dtype, "int64", "int64"), tiling.threads)


@make_once
def together_kernel(dtype: str) -> Source:
    HIGHEST, NOWHERE = highest(dtype), highest("int64")
    (load, _), (load_place, store) = machine.element_accessors(dtype), machine.element_accessors("int64")
    (_, warp_min, _), (_, warp_first, _) = block_reduce(MERGE_TILING, HIGHEST), block_reduce(MERGE_TILING, NOWHERE)
    find_row = row_finder(MERGE_TILING)

    def argmin_together(x, places, out, rows, inner, n, x_at, out_at, phase, parts, span):
        lane, lanes, r, length = find_row(rows, parts)
        source, target = row_offsets(r, inner, x_at, out_at)
        least, first = HIGHEST, NOWHERE
        for part in range(lane, length, lanes):
            least = minimum(least, load(x, source + load_place(places, r * parts + part) * x_at.step))
        least = warp_min(least, None)
        for part in range(lane, length, lanes):
            place = load_place(places, r * parts + part)
            if equal_or_both_nan(load(x, source + place * x_at.step), least):
                first = min(first, place)
        first = warp_first(first, None)
        if lane == 0 and r < rows:
            store(out, target, first)

    return Source(argmin_together, (dtype, "int64", "int64"), MERGE_TILING.threads)


@register("numba", "argmin", "split")
@plan_once()
def split(v: RowView) -> BindView:
    """Several blocks share a row, and store the index of each part's least element. A second launch compares them."""
    parts = cut_rows(v)
    first, second = parts_kernel(v.dtype, parts.tiling), together_kernel(v.dtype)
    return bind_parts_and_merge("numba/argmin/split", parts, first, second, v)
