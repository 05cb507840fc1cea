"""Device functions that kernels of a softmax's gradient share."""

import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import add_exactly, whole


@triton.jit
def sum_of_products(
    x, x_start, x_n, y, y_start, y_n, cols, in_rows, inside, longest,
    WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each row's sum of products, by blocks. Every lane keeps a sum and what that rounds off; lanes meet last."""
    sums = tl.zeros([ROWS, BLOCK], WIDE)
    lost = tl.zeros([ROWS, BLOCK], WIDE)
    for start in range(0, longest, BLOCK):
        here = start + cols
        mask = in_rows & (here < inside)
        tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(WIDE)
        tile *= tl.load(y + (y_start + here * y_n), mask, other=0).to(WIDE)
        sums, lost = add_exactly(sums, lost, tile)
    return tl.sum(whole(sums, lost), 1, keep_dims=True)
