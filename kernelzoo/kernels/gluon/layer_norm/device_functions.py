"""Device function that layer_norm and its gradient share: the means of rows."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev


@gluon.jit
def row_means(
    x_rows, x_n, n, cols, in_rows,
    ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, WHOLE: gl.constexpr,
):  # fmt: skip
    total = gl.full([ROWS, BLOCK], 0.0, ACC_DTYPE, LAYOUT)
    lost = total
    for start in range(0, n, BLOCK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, in_rows[:, None] & (here < n), other=0).to(ACC_DTYPE)
        total, lost = dev.accumulate(total, lost, tile, WHOLE)
    return gl.sum(dev.add_up(total, lost), 1, keep_dims=True) / n
