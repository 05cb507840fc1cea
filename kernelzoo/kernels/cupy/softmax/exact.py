from dataclasses import replace

from kernelzoo.kernels.cupy.rows import side_by_side
from kernelzoo.layout import Rows


def exactly(rows: Rows) -> tuple[Rows, str]:
    """Rows as they are planned for, and the last argument of a kernel that adds their exponentials exactly.

    So are those of a batch-invariant call that begin anywhere in a vector. With no order in their bits, they are taken
    as rows of any other call are. Kernels look where they begin. In double they don't fit."""
    if not rows.single or rows.itemsize == 8 or not side_by_side(rows):
        return rows, ""
    return replace(rows, single=False, x_phase=0, planned=rows.total), ", true"
