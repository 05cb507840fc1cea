"""Device functions that kernels of a softmax's gradient share."""

import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import TOGETHER


@triton.jit
def sum_of_products(
    x, x_start, x_n, y, y_start, y_n, cols, in_rows, inside, longest,
    WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each row's sum of products, by blocks. Every lane keeps a sum, and lanes meet after TOGETHER blocks."""
    total = tl.zeros([ROWS, 1], WIDE)
    sums = tl.zeros([ROWS, BLOCK], WIDE)
    for start in range(0, longest, BLOCK):
        here = start + cols
        mask = in_rows & (here < inside)
        tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(WIDE)
        sums += tile * tl.load(y + (y_start + here * y_n), mask, other=0).to(WIDE)
        if (tl.cast(start, tl.int64) % (TOGETHER * BLOCK) == (TOGETHER - 1) * BLOCK) | (start + BLOCK >= longest):
            total += tl.sum(sums, 1, keep_dims=True)
            sums = tl.zeros([ROWS, BLOCK], WIDE)
    return total
