"""Device functions of the minimum. Elements are compared in their own dtype, which loses nothing."""

import cuda.tile as ct

from kernelzoo.kernels.cutile import device_functions as dev


def lower(a, b):
    """Elementwise minimum; NaN if either is."""
    return ct.minimum(a, b, propagate_nan=True)


def row_min(x, AXIS):
    """The minimum along an axis, which stays; NaN if there is one."""
    return ct.min(x, AXIS, keepdims=True, propagate_nan=True)


def load_padded(x, group, strip, block, IDENTITY, FLOAT, MASKED, AXIS, SHAPE):
    """A block of a tile's rows. Past their end it is infinity, or of integers, if MASKED, IDENTITY."""
    padding = ct.PaddingMode.POS_INF if FLOAT else ct.PaddingMode.ZERO
    tile = ct.load(x, dev.block_index(group, strip, block, AXIS), SHAPE, padding_mode=padding, allow_tma=False)
    if MASKED:
        tile = ct.where(dev.row_mask(x, block, AXIS, SHAPE), tile, IDENTITY)
    return tile


def min_of_ends(x, number, n, IDENTITY, PACK):
    """The minimum of what a row that begins anywhere has outside of whole vectors."""
    _, _, ends = dev.row_ends(x, number * n, n, IDENTITY, x.dtype, PACK)
    return row_min(ends, 2)
