"""Device functions that several operations share: offsets of rows, and unaligned heads and tails of rows.

A tile is [ROWS, COLS]: rows of the problem x elements of each row. Its LAYOUT assigns the elements to threads. A thread
has adjacent elements of one row. If ACROSS, rows are columns in memory, and a thread has elements of adjacent rows.

A row that starts or ends inside an aligned 16-byte vector has *edges*: a head and a tail shorter than a vector. EDGES
is the number of elements per vector, or 0 if no row has edges. Edges are a second tile, [ROWS, 2 * EDGES] in
EDGE_LAYOUT. Both layouts assign a row to the same lanes, so that lanes exchange nothing between the two.
"""

import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.shared.device_functions import accumulate as accumulate
from kernelzoo.kernels.shared.device_functions import add_exactly as add_exactly
from kernelzoo.kernels.shared.device_functions import add_up as add_up
from kernelzoo.kernels.shared.device_functions import align as align
from kernelzoo.kernels.shared.device_functions import end_of_vectors as end_of_vectors
from kernelzoo.kernels.shared.device_functions import float8_bits as float8_bits
from kernelzoo.kernels.shared.device_functions import min_or_nan as min_or_nan

barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
"""The barrier of all threads of a program. Triton 3.6 names it ``thread_barrier``."""


@gluon.jit
def await_last_launch():
    """Wait for the previous launch to end. Every kernel calls this first, before it touches memory.

    From compute capability 9.0 on, a launch is prepared while the previous one ends (programmatic dependent launch, see
    ``jit.compiler_options``). No kernel triggers the next launch before its own end.
    """
    if tl.target_info.cuda_capability_geq(9, 0):
        gl.inline_asm_elementwise("griddepcontrol.wait; // dummy $0", "=r", [], gl.int32, is_pure=False, pack=1)


@gluon.jit
def multiply_sizes(n, inner, x_n, out_n, MULTIPLE: gl.constexpr, WIDE_OFFSETS: gl.constexpr, ACROSS: gl.constexpr):
    """Return n, inner, x_n and out_n in elements. The launch passes n, or if ACROSS the others, divided by MULTIPLE."""
    if ACROSS:
        inner = gl.cast(inner, gl.int64) * MULTIPLE
        x_n = gl.cast(x_n, gl.int64 if WIDE_OFFSETS else gl.int32) * MULTIPLE
        out_n = gl.cast(out_n, gl.int64 if WIDE_OFFSETS else gl.int32) * MULTIPLE
    else:
        n *= MULTIPLE
    return n, inner, x_n, out_n


@gluon.jit
def tile_and_part(parts):
    """Return (tile number, part number) of this program. ``parts`` programs share each tile."""
    return gl.program_id(0) // parts, gl.program_id(0) % parts


@gluon.jit
def part_range(part, span, UNIT: gl.constexpr):
    """Return (begin, end) of a part's columns. A part has ``span`` units of UNIT elements in each row."""
    begin = part.to(gl.int64) * span * UNIT
    return begin, begin + gl.cast(span, gl.int64) * UNIT


@gluon.jit
def row_coords(tile, rows, inner, ACROSS: gl.constexpr, ROWS: gl.constexpr, LAYOUT: gl.constexpr):
    """Return (outer index, inner index, whether the row exists) for each row of a tile.

    Without ACROSS, tiles take rows in the order of ``outer index * inner + inner index``. With ACROSS, a tile takes
    adjacent columns of one outer index.
    """
    lane = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    tile = gl.cast(tile, gl.int64)
    if ACROSS:
        strips = (inner + ROWS - 1) // ROWS
        group = tile // strips
        place = tile % strips * ROWS + lane
        there = place < inner
    else:
        row = tile * ROWS + lane
        group = row // inner
        place = row % inner
        there = row < rows
    return group, place, there


@gluon.jit
def row_start(group, place, stride_outer, stride_inner, MULTIPLE: gl.constexpr, ACROSS: gl.constexpr = False):
    """Return the offset of each row's first element, in 64 bits. group and place: the row's outer and inner index."""
    if ACROSS:
        start = group * stride_outer * MULTIPLE + place * stride_inner
    else:
        start = (group * stride_outer + place * stride_inner) * MULTIPLE
    return start


@gluon.jit
def load_per_row(x, group, place, outer, inner, in_rows, ACC_DTYPE: gl.constexpr, ACROSS: gl.constexpr = False):
    """Load one element for each row of a tile, and convert it to the dtype ACC_DTYPE."""
    return gl.load(x + row_start(group, place, outer, inner, 1, ACROSS), in_rows, other=0).to(ACC_DTYPE)


@gluon.jit
def column_offsets(COLS: gl.constexpr, WIDE_OFFSETS: gl.constexpr, LAYOUT: gl.constexpr):
    """Return a tile's column indices twice, [1, COLS]: as int32, and in the dtype of offsets: int64 if WIDE_OFFSETS."""
    cols = gl.arange(0, COLS, gl.SliceLayout(0, LAYOUT))[None, :]
    return cols, cols.to(gl.int64 if WIDE_OFFSETS else gl.int32)


@gluon.jit
def count_before_vectors(start, n, EDGES: gl.constexpr):
    """Return how many elements of a row come before its first aligned vector."""
    return gl.minimum((-start) & (EDGES - 1), n)


@gluon.jit
def count_in_vectors(start, n, EDGES: gl.constexpr):
    """Return how many elements of a row are in complete aligned vectors."""
    return (n - count_before_vectors(start, n, EDGES)) // EDGES * EDGES


@gluon.jit
def edge_columns(start, in_rows, n, EDGES: gl.constexpr, EDGE_LAYOUT: gl.constexpr):
    """Return (columns, mask) of the rows' edge elements. Heads and tails have fewer than EDGES elements each."""
    start = gl.convert_layout(start, EDGE_LAYOUT)
    before, inside = count_before_vectors(start, n, EDGES), count_in_vectors(start, n, EDGES)
    lane = gl.arange(0, 2 * EDGES, gl.SliceLayout(0, EDGE_LAYOUT))[None, :]
    cols = gl.where(lane < EDGES, lane, before + inside + lane - EDGES)
    known = gl.where(lane < EDGES, lane < before, cols < n)
    return cols, known & gl.convert_layout(in_rows, EDGE_LAYOUT)


@gluon.jit
def edge_pointers(x, start, edge, EDGE_LAYOUT: gl.constexpr):
    """Return pointers to the rows' edge elements: x + start + edge, after start is converted to EDGE_LAYOUT."""
    return x + (gl.convert_layout(start, EDGE_LAYOUT) + edge)


@gluon.jit
def load_edges(
    x, start, in_rows, n, other, ACC_DTYPE: gl.constexpr, EDGES: gl.constexpr, EDGE_LAYOUT: gl.constexpr
):  # fmt: skip
    """Return (elements per row in complete vectors; columns, mask and values of the edge elements, as ACC_DTYPE)."""
    if EDGES:
        inside = count_in_vectors(start, n, EDGES)
        edge, known = edge_columns(start, in_rows, n, EDGES, EDGE_LAYOUT)
        edges = gl.load(edge_pointers(x, start, edge, EDGE_LAYOUT), known, other=other).to(ACC_DTYPE)
    else:  # no edges
        inside, edge, known, edges = n, start, in_rows, start
    return inside, edge, known, edges


@gluon.jit
def load_evict_last(pointer, mask, other):
    """Load elements of rows that a program keeps on chip. L2 evicts these inputs later than results.

    Results are then written from L2 to memory steadily. Kernels before and after are no slower for it.
    """
    return gl.load(pointer, mask, other=other, eviction_policy="evict_last")
