"""Device functions of the minimum. Elements are compared in their own dtype, without rounding."""

import cuda.tile as ct

from kernelzoo.kernels.cutile import device_functions as dev


def nan_minimum(a, b):
    """Return the elementwise minimum; NaN if either is."""
    return ct.minimum(a, b, propagate_nan=True)


def row_min(x, AXIS):
    """Return the minimum along AXIS, which remains with size 1. It is NaN if an element is."""
    return ct.min(x, AXIS, keepdims=True, propagate_nan=True)


def load_padded(x, group, strip, block, IDENTITY, FLOAT, MASKED, AXIS, SHAPE):
    """Load a block. Past the end of rows, floats are +inf. Integers are IDENTITY if MASKED, else 0."""
    padding = ct.PaddingMode.POS_INF if FLOAT else ct.PaddingMode.ZERO
    tile = ct.load(x, dev.block_index(group, strip, block, AXIS), SHAPE, padding_mode=padding, allow_tma=False)
    if MASKED:
        tile = ct.where(dev.row_mask(x, block, AXIS, SHAPE), tile, IDENTITY)
    return tile


def reduce_row_ends(x, number, n, IDENTITY, PACK):
    """Return the minimum of a row's elements outside its whole vectors. number: the row's index."""
    _, _, ends = dev.load_row_ends(x, number * n, n, IDENTITY, x.dtype, PACK)
    return row_min(ends, 2)
