"""Device functions of softmax's gradient."""

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn


def load_inputs(tXgG, tXgY, tXcX, i, rows, TILE):
    """Load (gradients, softmax) for a thread's elements of block i, 0 past the ends of rows."""
    return dev.load(tXgG, tXcX, i, rows, TILE), dev.load(tXgY, tXcX, i, rows, TILE)


def grad_times_y(inputs, TILE):
    """Return grad * y for each element: the terms of a row's sum."""
    return fn.map_tiles(dev.multiply, inputs, TILE)


def input_gradient(grad, y, total):
    """Return softmax's input gradient. ``y``: an element of its output. ``total``: the sum of grad * y in the row."""
    return y * (grad - total)
