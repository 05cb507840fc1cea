"""What a thread holds of columns, of both inputs."""

from kernelzoo.kernels.cupy.gradients.columns import Holding
from kernelzoo.layout import VECTOR_BYTES, Columns


def held(columns: Columns, vector: int) -> Holding:
    """Packs in registers and of a batch in shared memory; single elements are there as wide as the arithmetic."""
    double = columns.itemsize == 8
    items, batch = (4, 2 if double else 4) if vector > 1 else (8, 4 if double else 8)
    return Holding(items, batch, 2 * batch * (VECTOR_BYTES if vector > 1 else max(4, columns.itemsize)))
