"""Device functions of a minimum's gradient: what each element that is equal to its row's minimum gets.

Elements are compared as they are computed, half precision in float32; past a row's end there is NaN, which equals
nothing.
"""

import cuda.tile as ct

from kernelzoo.kernels.cutile import device_functions as dev


def load_rows(x, group, strip, AXIS, SHAPE):
    """A tile of what there is one of to each row, as it is computed."""
    shape = (SHAPE[0], SHAPE[1]) if AXIS == 2 else (SHAPE[0], SHAPE[2])
    found = ct.load(x, (group, strip), shape, padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    return ct.reshape(ct.astype(found, dev.acc_dtype(x)), dev.reduced_shape(SHAPE, AXIS, 1))


def shares_of(grad, count, DTYPE):
    """What each of count equal minima gets, and what every other element does; NaN if there is none."""
    rest = ct.where(count > 0, grad * 0.0, float("nan"))
    return ct.astype(grad / ct.astype(count, grad.dtype), DTYPE), ct.astype(rest, DTYPE)
