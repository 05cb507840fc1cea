"""Kernels that take rows by lanes, see lanes.cuh: how many lanes to a row, how wide, and how many rows to a block."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step
from kernelzoo.kernels.cupy.rows import C_TYPES, WARP, c_type, width
from kernelzoo.layout import Rows, Strides, cdiv, power_of_two

THREADS = 512
FULL = 128  # threads of a block that takes several rows
FEW = 4  # vectors that a lane has at the least, where rows lie along memory
MANY = 2**17  # lanes: enough for a large chip
MOST_HELD = 8  # vectors that a lane holds in registers
LONG = 32  # vectors of a row that is worth an unaligned head and tail
SM_THREADS = 1024  # of blocks that take rows in turn
HELD_BETWEEN = (1, 2, 4)  # vectors of each input that a lane of those may hold, beside sums
SUMS_HELD = 32  # registers of those sums
MOST_SUMS = 2**26  # of all blocks in memory


def plan_rows(
    rows: Rows,
    *others: Strides,
    dtypes: tuple[str, ...],
    scalars: tuple[Argument, ...] = (),
    numbers: tuple[int, ...] = (),
    few: int = 2 * FEW,
    least: int = 1,
) -> Plan:
    """The plan of a kernel ``rows`` of those dtypes, with the others' strides and the scalars that it takes.

    Of the tensors, x and the last one may have elements along the row. numbers: of the kernel's template, first how
    wide its vectors are. few: vectors that a lane has at the least, where there are ``MANY`` lanes; least: elsewhere.
    """
    numbers = numbers or (aligned_width(rows) if rows.out_n else ragged_width(rows),)
    few = max(least, min(few, rows.planned * rows.n // (numbers[0] * MANY)))
    lanes, together = lanes_of(rows, rows.n, numbers[0], few)
    kernel = instance("rows", dtypes, *numbers)
    arguments: tuple[Argument, ...] = ((I32, lanes), (I32, int(rows.across)), *scalars)
    return Plan(rows, (Step(kernel, cdiv(rows.total, together), lanes * together, arguments),), others=others)


def plan_held(
    rows: Rows,
    *others: Strides,
    along: tuple[Strides, ...] | None = None,
    dtypes: tuple[str, ...],
    scalars: tuple[Argument, ...] = (),
) -> Plan:
    """The same of a kernel that reads rows several times, and holds those in registers that are not too long.

    ``along``: which of the others have elements along the row, if not all.
    """
    wide = aligned_width(rows, *(others if along is None else along))
    count = cdiv(rows.n, lanes_of(rows, rows.n, wide)[0] * wide)
    items = next((items for items in (FEW, MOST_HELD) if wide > 1 and items >= count), 0)
    return plan_rows(rows, *others, dtypes=dtypes, scalars=scalars, numbers=(wide, items), few=FEW, least=FEW)


def instance(kernel: str, dtypes: tuple[str, ...], *numbers: int) -> str:
    return f"{kernel}<{', '.join([*(C_TYPES[dtype] for dtype in dtypes), *map(str, numbers)])}>"


def aligned_width(rows: Rows, *along: Strides) -> int:
    """Elements of a vector where every row is whole vectors, in x, out and other tensors along the row, else 1."""
    wide = width(rows, *along)
    starts = (start for tensor in along for start in (tensor.outer, tensor.inner, tensor.phase))
    return wide if rows.aligned and rows.common() % wide == 0 and not any(start % wide for start in starts) else 1


def ragged_width(rows: Rows) -> int:
    """Elements of a vector where a row's lie side by side, if it is long or whole vectors, else 1."""
    return width(rows) if rows.n >= LONG * width(rows) else aligned_width(rows)


def whole_warps(n: int, wide: int, few: int) -> tuple[int, int]:
    """How wide the vectors are of lanes that are whole warps, and how few vectors of n elements a lane has."""
    most = n // (WARP * wide)
    return (wide, min(few, most)) if most else (1, few)


def plan_turns(
    rows: Rows, *others: Strides, device: Device, sums: tuple[int, ...], scalars: tuple[Argument, ...] = ()
) -> Plan:
    """The plan of a kernel ``rows`` whose blocks take rows in turn, and of those that add up what each block leaves.

    ``sums``: which tensors of the operation are sums over all rows.
    """
    wide, most = aligned_width(rows, *others), SUMS_HELD // (len(sums) * cdiv(rows.itemsize, 4))
    lanes, together = lanes_of(rows, rows.n, wide, 1)
    items = next((n for n in HELD_BETWEEN if wide > 1 and n * wide <= most and lanes * n * wide >= rows.n), 0)
    if items == 0:  # each row of a block has sums of its own
        wide, (lanes, together) = 1, lanes_of(rows, rows.n)
    each = 1 if items else together
    blocks = min(cdiv(rows.total, together), device.multiprocessors * SM_THREADS // (lanes * together))
    count, dtype = each * max(1, min(blocks, MOST_SUMS // max(1, each * rows.n))), c_type(rows)
    arguments: tuple[Argument, ...] = ((I32, lanes), (I32, int(rows.across)), "partial", *scalars)
    first = Step(f"rows<{dtype}, {wide}, {items}>", count // each, lanes * together, arguments)
    adding = (
        Step(
            f"sum_of_partials<{dtype}, {len(others)}, {tensor}>",
            *(cdiv(rows.n, WARP), THREADS, ("partial", (I64, count), (I64, before))),
        )
        for before, tensor in enumerate(sums)
    )
    return Plan(rows, (first, *adding), len(sums) * count * rows.n * max(4, rows.itemsize), others=others)


def lanes_of(rows: Rows, n: int, wide: int = 1, few: int = FEW) -> tuple[int, int]:
    """Lanes to n elements of a row, and rows to a block of whole warps: along rows, or across where neighbours are
    nearer. A lane has ``few`` vectors of ``wide`` elements at the least, where rows lie along memory."""
    if rows.across:
        together = min(WARP, power_of_two(rows.neighbours))
        return min(THREADS // together, max(WARP // together, power_of_two(n))), together
    lanes = min(THREADS, power_of_two(cdiv(n, few * wide)))
    return lanes, max(1, WARP // lanes, min(FULL // lanes, power_of_two(rows.planned)))
