"""What a layer norm and its gradient have in common: the means of rows."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def row_means(
    x_rows, x_n, n, cols, there, WIDE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr
):
    total = gl.full([ROWS, BLOCK], 0.0, WIDE, LAYOUT)
    for start in range(0, n, BLOCK):
        here = start + cols
        total += gl.load(x_rows + here * x_n, there[:, None] & (here < n), other=0).to(WIDE)
    return gl.sum(total, 1, keep_dims=True) / n
