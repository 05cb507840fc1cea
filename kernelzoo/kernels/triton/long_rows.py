"""Device functions for rows that several programs share: a program's part, and the results of parts."""

import triton
import triton.language as tl


@triton.jit
def locate_rows_and_part(n, parts, span, ROWS: tl.constexpr):
    """Return (the program's rows, begin and end of its part's columns, offsets at which it stores its results)."""
    program = tl.program_id(0)
    row = ((program // parts).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    part = (program % parts).to(tl.int64)
    return row, part * span, tl.minimum(n, (part + 1) * span), row * parts + part


@triton.jit
def load_parts(partials, row, parts, other, PARTS: tl.constexpr):
    """Load the results of all parts of rows from ``partials``, as [rows, PARTS]."""
    part = tl.arange(0, PARTS)[None, :]
    return tl.load(partials + (row * parts + part), part < parts, other=other)


@triton.jit
def row_to_merge():
    """Return the number of the row whose parts this program merges, as [1, 1]."""
    return (tl.program_id(0).to(tl.int64) + tl.arange(0, 1))[:, None]
