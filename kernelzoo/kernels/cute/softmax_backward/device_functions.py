"""Words of a softmax's gradient that its kernels share."""

from kernelzoo.kernels.cute.device_functions import loaded, seen, wide


def elements_of(tensor, at, start, row_end, element, here, TILE, TENSOR):
    """A thread's elements of an input as they are computed, 0 past the ends of rows."""
    return wide(loaded(seen(tensor, start, element, at, TILE, TENSOR), here, element, row_end, 0.0, TILE), TILE)


def products(grads, weights):
    """Of what the sum of a row is made."""
    return [[g * w for g, w in zip(*pair, strict=True)] for pair in zip(grads, weights, strict=True)]


def gradient(grads, weights, totals):
    """What a softmax's inputs get. totals: the sum of products of each element's row, along a vector."""
    return [
        [w * (g - total) for g, w, total in zip(*pair, totals, strict=True)]
        for pair in zip(grads, weights, strict=True)
    ]
