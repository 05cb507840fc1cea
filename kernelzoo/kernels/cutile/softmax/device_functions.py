"""Device functions of softmax.

All kernels subtract the maximum first and scale by log2(e) after (``exponential`` does), since the other order loses
bits on rows with a large offset. ``ct.max`` may drop a NaN, but the sum has it: exp(NaN - max) is NaN.
"""

import cuda.tile as ct

from kernelzoo.kernels.cutile import device_functions as dev

LOG2_E = 1.4426950408889634

FINE = 1.5 * 2.0**-17
"""A float32 whose last bit is 2^-40."""


def exponential(x):
    """Return e^x. In float32 it is a power of two, with results below the smallest normal number flushed to zero."""
    return ct.exp(x) if x.dtype == ct.float64 else ct.exp2(x * LOG2_E, flush_to_zero=True)


def exact_sum(x, total, AXIS, FOLD):
    """Return total plus each lane's sum of x, in multiples of 2^-40. x is at most 1. Float32 adds 16 of these without
    rounding, in any order, and float64 all."""
    coarse = (x + 8.0) - 8.0
    fine = (x - coarse + FINE) - FINE
    total = total + ct.astype(dev.lane_sums(coarse, AXIS, FOLD), ct.float64)
    return total + ct.astype(dev.lane_sums(fine, AXIS, FOLD), ct.float64)


def zero_if_empty(top):
    """Return what to subtract from a row: its maximum, or 0 if all of it is -inf. No lane then computes -inf - -inf,
    and the row's NaN comes from 0 * (1 / 0)."""
    return ct.where(top == -float("inf"), 0.0, top)


def fast_inverse(total):
    """Return 1 / total. In float32 it is within two units in the last place, without the branches of exact rounding."""
    if total.dtype == ct.float64:
        return 1.0 / total
    return ct.truediv(1.0, total, rounding_mode=ct.RoundingMode.FULL)


def lowest(x, SHAPE):
    """Return a tile of the lowest finite number, where running maxima begin, so that no difference is -inf - -inf. In
    float64 it is made from bits, since cuTile rounds a constant to float32."""
    if x.dtype == ct.float64:
        return ct.bitcast(ct.full(SHAPE, -(2**52) - 1, ct.int64), ct.float64)
    return ct.full(SHAPE, -3.4028234663852886e38, ct.float32)


def online_update(top, total, lost, block, x, AXIS, FOLD):
    """Return each lane's (max, sum, the sum's rounding errors) after one more block. Maxima start from ``lowest``."""
    if AXIS == 2:
        return online_update_folded(top, total, lost, ct.reshape(block, (*top.shape, FOLD)), x)
    rise = block - top
    # One of exp(top - new top) and exp(block - new top) is 1, and this is the other.
    other = exponential(-ct.abs(rise))
    if x.dtype == ct.float16 or x.dtype == ct.bfloat16:
        return ct.maximum(top, block), ct.where(rise > 0, total * other + 1, total + other), lost
    scale, term = ct.where(rise > 0, other, 1.0), ct.where(rise > 0, 1.0, other)
    # After Kahan, with fewer registers than ``accumulate``: a term exceeds a total only if a maximum rises.
    kept, term = total * scale, term + lost * scale
    total = kept + term
    lost = term - (total - kept)
    return ct.maximum(top, block), total, lost


def online_update_folded(top, total, lost, block, x):
    """As ``online_update``, with several elements per lane along a further axis of the block."""
    higher = ct.maximum(top, ct.max(block, block.ndim - 1))
    scale, exponentials = exponential(top - higher), exponential(block - ct.expand_dims(higher, block.ndim - 1))
    total, lost = dev.accumulate(total * scale, lost * scale, ct.sum(exponentials, block.ndim - 1), x)
    return higher, total, lost
