"""Rows that several programs share: what the parts of a row have left, and where a program that merges them writes."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev

MERGE: gl.constexpr = gl.constexpr(gl.BlockedLayout([1, 1], [1, 32], [1, 1], [1, 0]))
"""One warp has what all parts of a row have left."""


@gluon.jit
def part_of(n, parts, span):
    """(tile, part, begin, end): a program's tile of rows, and the elements of them that it takes."""
    tile, part = dev.tile_and_part(parts)
    begin, end = dev.part_range(part, span, 1)
    return tile, part, begin, gl.minimum(n, end)


@gluon.jit
def load_parts(left, parts, other, PARTS: gl.constexpr):
    """What the parts of a program's row have left, [1, PARTS]."""
    part = gl.arange(0, PARTS, gl.SliceLayout(0, MERGE))[None, :]
    return gl.load(left + gl.program_id(0).to(gl.int64) * parts + part, part < parts, other=other)


@gluon.jit
def merged_place(inner, out_outer, out_inner):
    """Where a program's row has its result, [1]."""
    row = gl.program_id(0).to(gl.int64) + gl.arange(0, 1, gl.SliceLayout(1, MERGE))
    return dev.row_start(row // inner, row % inner, out_outer, out_inner, 1)
