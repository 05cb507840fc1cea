from dataclasses import replace

from kernelzoo.kernels.cupy.rows import has_contiguous_rows
from kernelzoo.layout import Rows


def plan_exact_sums(rows: Rows) -> tuple[Rows, str]:
    """Return (rows to plan for, last template argument of the kernel): ", true" for exact sums, else "".

    Rows of a batch-invariant call need exact sums if they may be unaligned. Exact sums don't depend on the order of
    additions, so any plan will do. Kernels check where rows begin. In double, exact sums don't fit."""
    if not rows.single or rows.itemsize == 8 or not has_contiguous_rows(rows):
        return rows, ""
    return replace(rows, single=False, x_phase=0, planned=rows.total), ", true"
