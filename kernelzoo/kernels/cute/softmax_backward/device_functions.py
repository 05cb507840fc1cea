"""Device functions of a softmax's gradient."""

from kernelzoo.kernels.cute import device_functions as dev


def load_input(tensor, at, start, row_end, element, here, TILE, TENSOR):
    """A thread's elements of an input as they are computed, 0 past the ends of rows."""
    source = dev.make_thread_tensor(tensor, start, element, at, TILE, TENSOR)
    return dev.load_tile(source, here, element, row_end, 0.0, TILE)


def products(grads, weights):
    """Of what the sum of a row is made."""
    return [[g * w for g, w in zip(*pair, strict=True)] for pair in zip(grads, weights, strict=True)]


def gradient(grads, weights, totals):
    """What a softmax's inputs get. totals: the sum of products of each element's row, along a vector."""
    return [
        [w * (g - total) for g, w, total in zip(*pair, totals, strict=True)]
        for pair in zip(grads, weights, strict=True)
    ]
