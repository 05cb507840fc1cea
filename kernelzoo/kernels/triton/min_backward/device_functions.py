"""Device functions of a minimum's gradient: what is equal to a row's minimum, and what each gets.

Elements are compared as they are computed, half precision in float32; a masked one is NaN, which equals nothing.
"""

import triton
import triton.language as tl

NOTHING_TWICE = tl.constexpr(0x7FFF7FFF)
"""Two NaN of half precision in one word, of float16 and of bfloat16."""


@triton.jit
def count_minima(
    x, x_start, x_n, cols, in_rows, inside, longest, least,
    WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """How many elements of each row equal its least. Every lane counts in 32 bits, and lanes meet at the end in 64."""
    counts = tl.zeros([ROWS, BLOCK], tl.int32)
    for start in range(0, longest, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < inside), other=float("nan"))
        counts += (tile.to(WIDE) == least).to(tl.int32)
    return tl.sum(counts.to(tl.int64), 1, keep_dims=True)
