"""Device functions of a softmax's gradient."""

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn


def load_both(tXgG, tXgY, tXcX, i, rows, TILE):
    """(gradients, weights) of a thread's elements of a block, 0 past the ends of rows."""
    return dev.load(tXgG, tXcX, i, rows, TILE), dev.load(tXgY, tXcX, i, rows, TILE)


def products(both, TILE):
    """Of what the sum of a row is made."""
    return fn.map_tiles(dev.multiply, both, TILE)


def gradient(grad, weight, total):
    """What a softmax's input gets, of the sum of its row's products."""
    return weight * (grad - total)
