"""Kernels that take rows element by element, see lanes.cuh: how many lanes to a row, and how many rows to a block."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step
from kernelzoo.kernels.cupy.rows import C_TYPES, WARP, c_type
from kernelzoo.layout import Rows, Strides, cdiv, power_of_two

THREADS = 256
FEW = 4  # elements that a lane has at the least, where rows lie along memory
SM_THREADS = 1024  # of blocks that take rows in turn


def plan_rows(rows: Rows, *others: Strides, dtypes: tuple[str, ...], scalars: tuple[Argument, ...] = ()) -> Plan:
    """The plan of a kernel ``rows`` of those dtypes, with the others' strides and the scalars that it takes."""
    lanes, together = lanes_of(rows)
    kernel = f"rows<{', '.join(C_TYPES[dtype] for dtype in dtypes)}>"
    arguments: tuple[Argument, ...] = ((I32, lanes), (I32, int(rows.across)), *scalars)
    return Plan(rows, (Step(kernel, cdiv(rows.total, together), lanes * together, arguments),), others=others)


def plan_turns(
    rows: Rows, *others: Strides, device: Device, sums: tuple[int, ...], scalars: tuple[Argument, ...] = ()
) -> Plan:
    """The plan of a kernel ``rows`` whose blocks take rows in turn, and of those that add up what each block leaves.

    ``sums``: which tensors of the operation are sums over all rows.
    """
    lanes, together = lanes_of(rows)
    blocks = min(cdiv(rows.total, together), device.multiprocessors * SM_THREADS // (lanes * together))
    count, dtype = max(1, blocks), c_type(rows)
    arguments: tuple[Argument, ...] = ((I32, lanes), (I32, int(rows.across)), "partial", *scalars)
    first = Step(f"rows<{dtype}>", count, lanes * together, arguments)
    adding = (
        Step(
            f"sum_of_partials<{dtype}, {len(others)}, {tensor}>",
            *(cdiv(rows.n, WARP), THREADS, ("partial", (I64, count), (I64, before))),
        )
        for before, tensor in enumerate(sums)
    )
    return Plan(rows, (first, *adding), len(sums) * count * rows.n * max(4, rows.itemsize), others=others)


def lanes_of(rows: Rows) -> tuple[int, int]:
    """Lanes to a row, and rows to a block: along rows, or across them where neighbours are nearer in memory."""
    if rows.across:
        together = min(WARP, power_of_two(rows.neighbours))
        return min(THREADS // together, power_of_two(rows.n)), together
    lanes = min(THREADS, power_of_two(cdiv(rows.n, FEW)))
    return lanes, min(THREADS // lanes, power_of_two(rows.total))
