from numba import cuda

from kernelzoo.kernels.numba.device_functions import exponential
from kernelzoo.kernels.numba.launch import BindView, Source, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import block_reduce, row_accessors, row_finder, row_offsets
from kernelzoo.kernels.numba.softmax.arithmetic import softmax_functions, type_and_constants
from kernelzoo.kernels.numba.softmax.exact import sum_functions, view_for_exact_sums
from kernelzoo.kernels.numba.tiling import RowView, Tiling, column_tiling, one_row_tiling
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob


@form_knobs
class Knobs:
    """Launch knobs of forms that keep rows in a block's registers. Shipped values were chosen on an H200."""

    wide_vectors: int = knob(
        1536, among=(1024, 1536, 2048, 4096), unit="vectors", why="of a row, above which a thread has eight, not four"
    )
    packed_vectors: int = knob(
        768, among=(512, 768, 1024, 2048), unit="vectors", why="the same, of packed halves, with more arithmetic a byte"
    )
    edge_vectors: int = knob(
        512, among=(256, 512, 1024), unit="vectors", why="the same, with edges, which every thread computes along"
    )


@make_once
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    kind, _, ONE, LOWEST = type_and_constants(dtype)
    WORD, WORDS = tiling.register_type(dtype), tiling.registers(dtype)
    load_row, store_row = row_accessors(dtype, tiling, LOWEST)
    block_max, _, block_sum = block_reduce(tiling, LOWEST)
    finite, thread_max, thread_sum, normalize, _ = softmax_functions(dtype, tiling.vec, WORDS, tiling.exact)
    sum_kind, larger, term, total = sum_functions(dtype, tiling.exact)
    find_row, SCRATCH = row_finder(tiling), tiling.scratch

    def fused(x, out, rows, inner, n, x_at, out_at, phase):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, sum_kind)
        lane, lanes, r, n = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        edge = load_row(x, source, x_at.step, phase + source, lane, lanes, n, row, 0)

        top = block_max(larger(thread_max(row, 0), edge), maxima)
        m = finite(top)
        edge = exponential(edge - m)
        scale = ONE / total(block_sum(term(edge) + thread_sum(row, 0, m), sums), top)
        normalize(row, 0, m, scale)

        store_row(out, target, out_at.step, phase + source, lane, lanes, n, row, 0, edge * scale)

    return Source(fused, (dtype, dtype), tiling.threads)


def vectors_per_thread(v: RowView, threads: int, knobs: Knobs) -> int | None:
    """Return how many vectors each of up to ``threads`` threads has, or None if the row is too long. Eight vectors pay
    off sooner for packed halves, for rows with edges and in float64. A thread may have 16 narrower vectors."""
    if v.dtype == "float64" and v.vec > 1 and v.vectors_per_row <= threads * 8:
        return 4 if v.vectors_per_row <= 256 else 8
    if v.vectors_per_row <= 128:
        return 1 if v.vectors_per_row <= 64 else 2
    packed = knobs.edge_vectors if v.edges else knobs.packed_vectors
    if v.vectors_per_row <= min(4 * threads, knobs.wide_vectors if v.itemsize > 2 else packed):
        return 4
    most = 8 if v.has_full_vectors else 16
    return most if v.vectors_per_row <= threads * most else None


def block_tiling(v: RowView, threads: int, size: int, knobs: Knobs) -> Tiling | None:
    """Return a tiling that keeps a row in the registers of up to ``threads`` threads, or None if it is too long."""
    if v.is_strided:
        return column_tiling(v, size)
    tiles = vectors_per_thread(v, threads, knobs)
    return None if tiles is None else one_row_tiling(v, threads, tiles)


def fused_tiling(v: RowView, knobs: Knobs) -> Tiling | None:
    """Return a tiling of a block per row. A thread has four vectors, fewer if rows are short, eight if long."""
    return block_tiling(v, 1024, 16, knobs)


@register("numba", "softmax", "fused")
@plan_once(Knobs)
def fused(v: RowView, knobs: Knobs) -> BindView:
    """One block keeps a row in registers: one read, one write."""
    v = view_for_exact_sums(v)
    return bind_over_rows("numba/softmax/fused", fused_kernel, fused_tiling(v, knobs), v)
