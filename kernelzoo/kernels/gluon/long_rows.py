"""Device functions for rows that several programs share: a program's part, and the results of parts."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev

MERGE: gl.constexpr = gl.constexpr(gl.BlockedLayout([1, 1], [1, 32], [1, 1], [1, 0]))
"""The layout in which one warp loads the results of all parts of a row."""


@gluon.jit
def locate_tile_and_part(n, parts, span):
    """Return (tile number, part number, begin and end of the part's columns) of this program."""
    tile, part = dev.tile_and_part(parts)
    begin, end = dev.part_range(part, span, 1)
    return tile, part, begin, gl.minimum(n, end)


@gluon.jit
def load_parts(partials, parts, other, PARTS: gl.constexpr):
    """Load the results of all parts of this program's row from ``partials``, as [1, PARTS]."""
    part = gl.arange(0, PARTS, gl.SliceLayout(0, MERGE))[None, :]
    return gl.load(partials + gl.program_id(0).to(gl.int64) * parts + part, part < parts, other=other)


@gluon.jit
def result_offset(inner, out_outer, out_inner):
    """Return the output offset of this program's row, as [1]. A program merges one row."""
    row = gl.program_id(0).to(gl.int64) + gl.arange(0, 1, gl.SliceLayout(1, MERGE))
    return dev.row_start(row // inner, row % inner, out_outer, out_inner, 1)
