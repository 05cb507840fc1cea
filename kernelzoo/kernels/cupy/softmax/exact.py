from dataclasses import replace

from kernelzoo.kernels.cupy.rows import side_by_side
from kernelzoo.layout import Rows


def exactly(rows: Rows) -> tuple[Rows, str]:
    """Return the rows to plan for, and the kernel's last template argument: ", true" for exact sums, else "".

    Rows of a batch-invariant call need exact sums if they may be unaligned. Exact sums don't depend on the order of
    additions, so any plan will do. Kernels check where rows begin. In double, exact sums don't fit."""
    if not rows.single or rows.itemsize == 8 or not side_by_side(rows):
        return rows, ""
    return replace(rows, single=False, x_phase=0, planned=rows.total), ", true"
