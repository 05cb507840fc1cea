"""Device functions of a softmax's gradient."""

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn


def load_both(tXgG, tXgY, tXcX, i, rows, TILE):
    """Load (gradients, softmax) of a thread's elements of a block, 0 past the ends of rows."""
    return dev.load(tXgG, tXcX, i, rows, TILE), dev.load(tXgY, tXcX, i, rows, TILE)


def products(both, TILE):
    """Return grad * y of each element, the terms of a row's sum."""
    return fn.map_tiles(dev.multiply, both, TILE)


def gradient(grad, weight, total):
    """Return the gradient of a softmax's input: y * (grad - total), with total the row's sum of products."""
    return weight * (grad - total)
