from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.cross_entropy.rows import loss_function
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, make_once, plan_once
from kernelzoo.kernels.numba.logsumexp.split import parts_kernel
from kernelzoo.kernels.numba.logsumexp.state import merge_function
from kernelzoo.kernels.numba.parts import MERGE_TILING, bind_parts_and_merge, cut_rows
from kernelzoo.kernels.numba.row import row_coords, row_finder, row_start
from kernelzoo.registry import register


@make_once
def together_kernel(dtype: str, ignore_index: int) -> Source:
    merge, find_row, (_, store) = merge_function(dtype), row_finder(MERGE_TILING), machine.element_accessors(dtype)
    compute_loss, pointees = loss_function(dtype, ignore_index), (dtype, "int64", str(WIDE[dtype]), dtype)

    def cross_entropy_together(x, labels, states, loss, rows, inner, n, x_at, out_at, phase, labels_at, parts, span):
        lane, _, r, length = find_row(rows, parts)
        place = row_coords(r, inner)
        source, label = row_start(x_at, place), row_start(labels_at, place)
        top, total = merge(states, r * parts, length, lane)
        if lane == 0 and r < rows:
            store(loss, row_start(out_at, place), compute_loss(x, source, x_at.step, labels, label, n, top, total))

    return Source(cross_entropy_together, pointees, MERGE_TILING.threads, inputs=2)


@register("numba", "cross_entropy", "split")
@plan_once()
def split(v: RowView, ignore_index: int) -> BindView:
    """Several blocks share a row, and store states (max, sum). A second launch merges them, and reads the logit."""
    parts = cut_rows(v)
    first, second = parts_kernel(v.dtype, parts.tiling, v.out_dtype), together_kernel(v.dtype, ignore_index)
    return bind_parts_and_merge("numba/cross_entropy/split", parts, first, second, v, values_per_part=2)
