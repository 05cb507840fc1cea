"""Rows that several programs share: which part a program has, and what the parts have left."""

import triton
import triton.language as tl


@triton.jit
def part_of(n, parts, span, ROWS: tl.constexpr):
    """(row, begin, end, place): a program's rows, the elements of their part, and where it leaves what they come to."""
    program = tl.program_id(0)
    row = ((program // parts).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    part = (program % parts).to(tl.int64)
    return row, part * span, tl.minimum(n, (part + 1) * span), row * parts + part


@triton.jit
def load_parts(left, row, parts, other, PARTS: tl.constexpr):
    """What the parts of rows have left, side by side: [rows, PARTS]."""
    part = tl.arange(0, PARTS)[None, :]
    return tl.load(left + (row * parts + part), part < parts, other=other)


@triton.jit
def merging_row():
    """The row of a program that merges its parts, [1, 1]."""
    return (tl.program_id(0).to(tl.int64) + tl.arange(0, 1))[:, None]
