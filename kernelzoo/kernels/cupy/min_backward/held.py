"""What a thread holds of a row, or of columns: a bit to an element."""

from kernelzoo.kernels.cupy.gradients.columns import Holding
from kernelzoo.layout import cdiv

WORD_BITS = 32


def batch(vector: int) -> int:
    """Packs that a thread reads at once."""
    return 4 if vector == 8 else 8


def batch_bytes(vector: int) -> int:
    """What a batch takes in shared memory."""
    return cdiv(batch(vector) * vector, WORD_BITS) * 4


def held(vector: int) -> Holding:
    """Packs of columns in registers, and of a batch in shared memory."""
    items = batch(vector)
    return Holding(items, items, batch_bytes(vector))
