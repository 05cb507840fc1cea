"""Words of the minimum that its kernels share. Elements are compared in their own dtype, which loses nothing."""

import cuda.tile as ct

from kernelzoo.kernels.cutile.device_functions import block_at, ends_of, inside_rows


def lower(a, b):
    """Elementwise minimum; NaN if either is."""
    return ct.minimum(a, b, propagate_nan=True)


def least_of(x, AXIS):
    """The minimum along an axis, which stays; NaN if there is one."""
    return ct.min(x, AXIS, keepdims=True, propagate_nan=True)


def block_of(x, group, strip, block, IDENTITY, FLOAT, MASKED, AXIS, SHAPE):
    """A block of a tile's rows. Past their end it is infinity, or of integers, if MASKED, IDENTITY."""
    padding = ct.PaddingMode.POS_INF if FLOAT else ct.PaddingMode.ZERO
    tile = ct.load(x, block_at(group, strip, block, AXIS), SHAPE, padding_mode=padding, allow_tma=False)
    if MASKED:
        tile = ct.where(inside_rows(x, block, AXIS, SHAPE), tile, IDENTITY)
    return tile


def least_end(x, number, n, IDENTITY, PACK):
    """The minimum of what a row that begins anywhere has outside of whole vectors."""
    _, _, ends = ends_of(x, number, n, IDENTITY, x.dtype, PACK)
    return least_of(ends, 2)
