from dataclasses import replace

from kernelzoo.kernels.cupy.rows import has_contiguous_rows
from kernelzoo.layout import Rows


def plan_exact_sums(rows: Rows) -> tuple[Rows, str]:
    """Return (rows as the plan should take them, last template argument): ", true" for exact sums, else "".

    Rows of a batch-invariant call need exact sums if they may be unaligned. Exact sums don't depend on the order of
    additions, so any plan will do. Kernels check where rows begin. In double, sums have too few bits to be exact."""
    if not rows.single or rows.itemsize == 8 or not has_contiguous_rows(rows):
        return rows, ""
    return replace(rows, single=False, x_phase=0, planned=rows.total), ", true"
