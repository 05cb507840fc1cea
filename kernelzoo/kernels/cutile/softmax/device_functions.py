"""Device functions of softmax.

All kernels subtract the maximum before ``exponential`` multiplies by log2(e). The other order loses bits on rows of
large numbers. ``ct.max`` may ignore a NaN, but the sum is NaN then, because exp(NaN - max) is NaN."""

import cuda.tile as ct

from kernelzoo.kernels.cutile import device_functions as dev

LOG2_E = 1.4426950408889634

FINE = 1.5 * 2.0**-17
"""A float32 number whose last bit is worth 2^-40."""


def exponential(x):
    """Return e^x. In float32 it is a power of two, and results below the smallest normal number become zero."""
    return ct.exp(x) if x.dtype == ct.float64 else ct.exp2(x * LOG2_E, flush_to_zero=True)


def add_exact_sum(x, total, AXIS, FOLD):
    """Return total plus each lane's sum of x. Elements of x are at most 1, and are rounded to multiples of 2^-40. So
    all sums are exact, in any order: of up to 16 elements in float32, of more in float64."""
    coarse = (x + 8.0) - 8.0
    fine = (x - coarse + FINE) - FINE
    total = total + ct.astype(dev.lane_sums(coarse, AXIS, FOLD), ct.float64)
    return total + ct.astype(dev.lane_sums(fine, AXIS, FOLD), ct.float64)


def zero_if_empty(row_max):
    """Return the number to subtract from a row: its maximum, or 0 if that is -inf. A row of only -inf becomes NaN."""
    return ct.where(row_max == -float("inf"), 0.0, row_max)


def fast_inverse(total):
    """Return 1 / total. In float32 its error is at most two units in the last place, and it has no branches."""
    if total.dtype == ct.float64:
        return 1.0 / total
    return ct.truediv(1.0, total, rounding_mode=ct.RoundingMode.FULL)


def lowest_finite(x, SHAPE):
    """Return a tile of the lowest finite number. Running maxima start from it, because -inf would allow -inf - -inf. In
    float64 it is made from bits, because cuTile rounds constants to float32."""
    if x.dtype == ct.float64:
        return ct.bitcast(ct.full(SHAPE, -(2**52) - 1, ct.int64), ct.float64)
    return ct.full(SHAPE, -3.4028234663852886e38, ct.float32)


def online_update(top, total, lost, block, x, AXIS, FOLD):
    """Add a block to each lane's state (max, sum, rounding errors). Maxima must start from ``lowest_finite``."""
    if AXIS == 2:
        return online_update_by_vectors(top, total, lost, ct.reshape(block, (*top.shape, FOLD)), x)
    rise = block - top
    # Of exp(top - new top) and exp(block - new top), one is 1, and this is the other.
    other = exponential(-ct.abs(rise))
    if x.dtype == ct.float16 or x.dtype == ct.bfloat16:
        return ct.maximum(top, block), ct.where(rise > 0, total * other + 1, total + other), lost
    scale, term = ct.where(rise > 0, other, 1.0), ct.where(rise > 0, 1.0, other)
    # Kahan's sum takes fewer registers than ``accumulate``. A term exceeds the total only if the maximum rises.
    kept, term = total * scale, term + lost * scale
    total = kept + term
    lost = term - (total - kept)
    return ct.maximum(top, block), total, lost


def online_update_by_vectors(top, total, lost, block, x):
    """Do the same as ``online_update`` if the last axis of the block has several elements per lane."""
    higher = ct.maximum(top, ct.max(block, block.ndim - 1))
    scale, exponentials = exponential(top - higher), exponential(block - ct.expand_dims(higher, block.ndim - 1))
    total, lost = dev.accumulate(total * scale, lost * scale, ct.sum(exponentials, block.ndim - 1), x)
    return higher, total, lost
