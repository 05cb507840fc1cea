"""Device functions of several operations: where the rows of a tile lie, and their ends.

A tile is [ROWS, COLS]: rows of the problem by elements of each. Which thread holds what of it says its LAYOUT. Where
rows lie ALONG memory, a thread's elements are neighbours in a row; where they lie ACROSS it, they are of neighbouring
rows. All else of a kernel is the same.

A row that starts or ends inside a 16-byte vector has *edges* there: fewer elements than a vector at either end of the
whole vectors in between. They are a tile of their own, [ROWS, 2 * EDGES] in EDGE_LAYOUT, in which the lanes of a row
are those of LAYOUT, so that nothing is exchanged between the two.
"""

import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.shared.device_functions import accumulate as accumulate
from kernelzoo.kernels.shared.device_functions import add_exactly as add_exactly
from kernelzoo.kernels.shared.device_functions import aligned as aligned
from kernelzoo.kernels.shared.device_functions import end_of_vectors as end_of_vectors
from kernelzoo.kernels.shared.device_functions import float8_bits as float8_bits
from kernelzoo.kernels.shared.device_functions import lower as lower
from kernelzoo.kernels.shared.device_functions import whole as whole

barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
"""Waits for all threads of the program. Triton 3.6 calls it by another name."""


@gluon.jit
def await_last_launch():
    """First in every kernel, before it touches memory: wait for the launch before this one to end.

    From compute capability 9.0 on a launch is prepared while the one before it ends (programmatic dependent launch, see
    ``jit.compiler_options``). None lets the next begin early.
    """
    if tl.target_info.cuda_capability_geq(9, 0):
        gl.inline_asm_elementwise("griddepcontrol.wait; // dummy $0", "=r", [], gl.int32, is_pure=False, pack=1)


@gluon.jit
def scaled(n, inner, x_n, out_n, MULTIPLE: gl.constexpr, FAR: gl.constexpr, ACROSS: gl.constexpr):
    """n, inner, x_n and out_n as they are: a launch passes some divided by MULTIPLE, see ``tiles.place_arguments``."""
    if ACROSS:
        inner = gl.cast(inner, gl.int64) * MULTIPLE
        x_n = gl.cast(x_n, gl.int64 if FAR else gl.int32) * MULTIPLE
        out_n = gl.cast(out_n, gl.int64 if FAR else gl.int32) * MULTIPLE
    else:
        n *= MULTIPLE
    return n, inner, x_n, out_n


@gluon.jit
def tile_and_part(parts):
    """(tile, part): a program's tile, and which part of its rows, where so many programs share each."""
    return gl.program_id(0) // parts, gl.program_id(0) % parts


@gluon.jit
def part_range(part, span, UNIT: gl.constexpr):
    """(begin, end): the elements of each row in a part of span units."""
    begin = part.to(gl.int64) * span * UNIT
    return begin, begin + gl.cast(span, gl.int64) * UNIT


@gluon.jit
def row_coords(tile, rows, inner, ACROSS: gl.constexpr, ROWS: gl.constexpr, LAYOUT: gl.constexpr):
    """(group, place, there): of each row of a tile, and whether there is such a row.

    Rows along memory are counted through: row is ``group * inner + place``. Of those across it a tile has neighbours of
    one group.
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
    """Offsets of rows' first elements in 64 bits, so that no product overflows."""
    if ACROSS:
        start = group * stride_outer * MULTIPLE + place * stride_inner
    else:
        start = (group * stride_outer + place * stride_inner) * MULTIPLE
    return start


@gluon.jit
def load_rows(x, group, place, outer, inner, there, WIDE: gl.constexpr, ACROSS: gl.constexpr = False):
    """What there is one of to each row, as it is computed."""
    return gl.load(x + row_start(group, place, outer, inner, 1, ACROSS), there, other=0).to(WIDE)


@gluon.jit
def column_offsets(COLS: gl.constexpr, FAR: gl.constexpr, LAYOUT: gl.constexpr):
    """(cols, here): the elements of a tile's rows, [1, COLS], and the same as offsets are counted."""
    cols = gl.arange(0, COLS, gl.SliceLayout(0, LAYOUT))[None, :]
    return cols, cols.to(gl.int64 if FAR else gl.int32)


@gluon.jit
def before_vectors(start, n, EDGES: gl.constexpr):
    """Elements of a row ahead of its first aligned vector."""
    return gl.minimum((-start) & (EDGES - 1), n)


@gluon.jit
def inside_vectors(start, n, EDGES: gl.constexpr):
    """Elements of a row in its whole vectors."""
    return (n - before_vectors(start, n, EDGES)) // EDGES * EDGES


@gluon.jit
def edge_columns(start, there, n, EDGES: gl.constexpr, EDGE_LAYOUT: gl.constexpr):
    """(columns, known) of the elements outside of whole vectors, fewer than EDGES at either end."""
    start = gl.convert_layout(start, EDGE_LAYOUT)
    before, inside = before_vectors(start, n, EDGES), inside_vectors(start, n, EDGES)
    lane = gl.arange(0, 2 * EDGES, gl.SliceLayout(0, EDGE_LAYOUT))[None, :]
    cols = gl.where(lane < EDGES, lane, before + inside + lane - EDGES)
    known = gl.where(lane < EDGES, lane < before, cols < n)
    return cols, known & gl.convert_layout(there, EDGE_LAYOUT)


@gluon.jit
def edges_at(x, start, edge, EDGE_LAYOUT: gl.constexpr):
    """Where in a tensor the elements of those columns are."""
    return x + (gl.convert_layout(start, EDGE_LAYOUT) + edge)


@gluon.jit
def load_edges(
    x, start, there, n, other, WIDE: gl.constexpr, EDGES: gl.constexpr, EDGE_LAYOUT: gl.constexpr
):  # fmt: skip
    """(inside, edge, known, edges): elements of rows' whole vectors; columns of those outside of them, and these."""
    if EDGES:
        inside = inside_vectors(start, n, EDGES)
        edge, known = edge_columns(start, there, n, EDGES, EDGE_LAYOUT)
        edges = gl.load(edges_at(x, start, edge, EDGE_LAYOUT), known, other=other).to(WIDE)
    else:  # no edges
        inside, edge, known, edges = n, start, there, start
    return inside, edge, known, edges


@gluon.jit
def load_held(pointer, mask, other):
    """Elements of rows that a program holds, whose lines stay in the L2 cache longer than the results.

    That makes the written lines leave for memory steadily; kernels before and after are no slower for it.
    """
    return gl.load(pointer, mask, other=other, eviction_policy="evict_last")
