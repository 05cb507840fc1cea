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
    """Load a block. Past a row's end, floats are +inf. Integers are IDENTITY, for which MASKED must be True."""
    padding = ct.PaddingMode.POS_INF if FLOAT else ct.PaddingMode.ZERO
    tile = ct.load(x, dev.block_index(group, strip, block, AXIS), SHAPE, padding_mode=padding, allow_tma=False)
    if MASKED:
        tile = ct.where(dev.row_mask(x, block, AXIS, SHAPE), tile, IDENTITY)
    return tile


def min_of_unaligned_ends(x, row, n, IDENTITY, PACK):
    """Return the minimum of the elements of row number ``row`` outside its aligned vectors of PACK elements."""
    _, _, ends = dev.load_unaligned_ends(x, row * n, n, IDENTITY, x.dtype, PACK)
    return row_min(ends, 2)
