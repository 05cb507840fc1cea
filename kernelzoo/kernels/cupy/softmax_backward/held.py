"""What a thread holds of columns, of both inputs."""

from kernelzoo.kernels.cupy.gradients.columns import Holding
from kernelzoo.layout import VECTOR_BYTES, Columns


def held(columns: Columns, vector: int) -> Holding:
    """Packs in registers and of a batch in shared memory; single elements are there as wide as the arithmetic."""
    if vector > 1:
        return Holding(4, 4, 2 * 4 * VECTOR_BYTES)
    return Holding(8, 4, 2 * 4 * max(4, columns.itemsize))
