"""Words of a softmax's gradient that its kernels share."""

from kernelzoo.kernels.cutile.words import is_whole, taken_masked, taken_whole


def both(grad, y, place, AXIS, SHAPE):
    """A tile of each input as it is computed, 0 past the ends of rows: all of both is asked for before either is used,
    see ``taken``."""
    if is_whole(grad, place, SHAPE):
        return taken_whole(grad, place, SHAPE), taken_whole(y, place, SHAPE)
    return taken_masked(grad, place, 0.0, AXIS, SHAPE), taken_masked(y, place, 0.0, AXIS, SHAPE)
