"""What a cross entropy and its gradient have in common: the (max, sum) states of rows."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon.softmax.device_functions import exponential, online_update


@gluon.jit
def row_states(
    x_rows, x_n, n, cols, there,
    LOWEST: gl.constexpr, WIDE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """(max, sum) of rows, in one pass. Of a row with a NaN or +inf the sum is NaN, of -inf alone 0."""
    # A maximum starts at the lowest finite number, so that no difference of two is -inf - -inf.
    top = gl.full([ROWS, BLOCK], LOWEST, WIDE, LAYOUT)
    sums = gl.full([ROWS, BLOCK], 0.0, WIDE, LAYOUT)
    for start in range(0, n, BLOCK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, there[:, None] & (here < n), other=float("-inf")).to(WIDE)
        top, sums = online_update(top, sums, tile)
    row_top = gl.max(top, 1, keep_dims=True)
    return row_top, gl.sum(sums * exponential(top - row_top), 1, keep_dims=True)
