"""An operation of this package's own: the mean of each row."""

import math

import torch

import kernelzoo

LARGEST = torch.finfo(torch.float32).max


@kernelzoo.operation(dtypes=kernelzoo.FLOATS)
class mean:
    """Mean of ``x`` along one axis, in float32 or wider."""

    x = kernelzoo.Input("outer n inner")
    out = kernelzoo.Output("outer inner")
    # The sum of a row must not overflow in float32 (of float64, in float64).
    domain = {"x": lambda dtype, n: max(dtype.max, LARGEST) / n}

    def reference(x):
        return x.mean(1)

    def error(x, n, unit):
        return unit * (4 + math.sqrt(n)) * x.abs().mean(1)
