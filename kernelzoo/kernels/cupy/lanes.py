"""Plans of kernels with several lanes per row, see lanes.cuh: how many lanes, elements per vector, rows per block."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step
from kernelzoo.kernels.cupy.rows import C_TYPES, WARP, c_type, pack_width
from kernelzoo.layout import Rows, Strides, cdiv, next_power_of_two

THREADS = 512  # per block, at most
SHORT_ROWS_THREADS = 128  # threads per block of several rows
FEWEST = 4  # vectors per lane, at least, if rows lie along memory
MANY_LANES = 2**17  # enough to fill a large GPU
MOST_VECTORS = 8  # vectors per lane in registers, at most
LONG_VECTORS = 32  # vectors per row, at least, for vector loads with an unaligned head and tail to pay off
SM_THREADS = 1024  # threads per SM, if blocks loop over rows
REGISTER_VECTORS = (1, 2, 4)  # possible vectors of each input per lane, besides its sums in registers
SUM_REGISTERS = 32  # registers per lane for sums
MOST_SUMS = 2**26  # partial sums in memory, at most, over all blocks


def plan_rows(
    rows: Rows,
    *others: Strides,
    dtypes: tuple[str, ...],
    scalars: tuple[Argument, ...] = (),
    constants: tuple[int, ...] = (),
    lane_vectors: tuple[int, int] = (2 * FEWEST, 1),
) -> Plan:
    """Return the plan of a kernel ``rows`` with ``dtypes`` and ``constants`` (vector width first) as template
    arguments. Only x and the last tensor may have several elements per row. ``lane_vectors``: (vectors per lane if
    ``MANY_LANES`` lanes remain, the least vectors otherwise). ``scalars``: the kernel's last arguments."""
    numbers = constants or (aligned_width(rows) if rows.out_n else ragged_width(rows),)
    wanted, least = lane_vectors
    few = max(least, min(wanted, rows.planned * rows.n // (numbers[0] * MANY_LANES)))
    lanes, together = choose_lanes(rows, rows.n, numbers[0], few)
    kernel = template_instance("rows", dtypes, *numbers)
    arguments: tuple[Argument, ...] = ((I32, lanes), (I32, int(rows.is_strided)), *scalars)
    return Plan(rows, (Step(kernel, cdiv(rows.total, together), lanes * together, arguments),), others=others)


def plan_multi_pass(
    rows: Rows,
    *others: Strides,
    along: tuple[Strides, ...] | None = None,
    dtypes: tuple[str, ...],
    scalars: tuple[Argument, ...] = (),
) -> Plan:
    """Return the plan of a kernel ``rows`` that reads rows several times, from registers if they fit there.

    ``along``: the tensors of ``others`` that have several elements per row. By default, all have."""
    wide = aligned_width(rows, *(others if along is None else along))
    count = cdiv(rows.n, choose_lanes(rows, rows.n, wide)[0] * wide)
    held = next((held for held in (FEWEST, MOST_VECTORS) if wide > 1 and held >= count), 0)
    return plan_rows(rows, *others, dtypes=dtypes, scalars=scalars, constants=(wide, held), lane_vectors=(FEWEST,) * 2)


def template_instance(kernel: str, dtypes: tuple[str, ...], *numbers: int) -> str:
    return f"{kernel}<{', '.join([*(C_TYPES[dtype] for dtype in dtypes), *map(str, numbers)])}>"


def aligned_width(rows: Rows, *along: Strides) -> int:
    """Return the vector width. It is 1 unless rows of x, out and ``along`` consist of complete, aligned vectors."""
    wide = pack_width(rows, *along)
    starts = (start for tensor in along for start in (tensor.outer, tensor.inner, tensor.phase))
    return wide if rows.aligned and rows.offset_gcd() % wide == 0 and not any(s % wide for s in starts) else 1


def ragged_width(rows: Rows) -> int:
    """Return the vector width for kernels that read an unaligned head and tail. It is 1 if rows are strided, or short
    and unaligned."""
    return pack_width(rows) if rows.n >= LONG_VECTORS * pack_width(rows) else aligned_width(rows)


def choose_whole_warp_width(n: int, wide: int, wanted_vectors: int) -> tuple[int, int]:
    """Return (vector width, least vectors per lane) such that the lanes of a row of n elements fill complete warps."""
    most = n // (WARP * wide)
    return (wide, min(wanted_vectors, most)) if most else (1, wanted_vectors)


def plan_with_row_sums(
    rows: Rows, *others: Strides, device: Device, sums: tuple[int, ...], scalars: tuple[Argument, ...] = ()
) -> Plan:
    """Return a plan whose blocks loop over rows and store sums over these rows. More kernels add up the blocks' sums.

    ``sums``: the indices of the tensors that are sums over all rows."""
    wide, most = aligned_width(rows, *others), SUM_REGISTERS // (len(sums) * cdiv(rows.itemsize, 4))
    lanes, together = choose_lanes(rows, rows.n, wide, 1)
    items = next((n for n in REGISTER_VECTORS if wide > 1 and n * wide <= most and lanes * n * wide >= rows.n), 0)
    if items == 0:  # sums in memory; rows of one block have separate sums
        wide, (lanes, together) = 1, choose_lanes(rows, rows.n)
    each = 1 if items else together
    blocks = min(cdiv(rows.total, together), device.multiprocessors * SM_THREADS // (lanes * together))
    count, dtype = each * max(1, min(blocks, MOST_SUMS // max(1, each * rows.n))), c_type(rows)
    arguments: tuple[Argument, ...] = ((I32, lanes), (I32, int(rows.is_strided)), "partial", *scalars)
    first = Step(f"rows<{dtype}, {wide}, {items}>", count // each, lanes * together, arguments)
    adding = (
        Step(
            f"sum_of_partials<{dtype}, {len(others)}, {tensor}>",
            *(cdiv(rows.n, WARP), THREADS, ("partial", (I64, count), (I64, before))),
        )
        for before, tensor in enumerate(sums)
    )
    return Plan(rows, (first, *adding), len(sums) * count * rows.n * max(4, rows.itemsize), others=others)


def choose_lanes(rows: Rows, n: int, wide: int = 1, few: int = FEWEST) -> tuple[int, int]:
    """Return (lanes per row of n elements, rows per block), so that a block has complete warps. If rows are strided,
    adjacent threads get adjacent rows. Otherwise a lane has at least ``few`` vectors of ``wide`` elements."""
    if rows.is_strided:
        together = min(WARP, next_power_of_two(rows.evenly_spaced_rows))
        return min(THREADS // together, max(WARP // together, next_power_of_two(n))), together
    lanes = min(THREADS, next_power_of_two(cdiv(n, few * wide)))
    return lanes, max(1, WARP // lanes, min(SHORT_ROWS_THREADS // lanes, next_power_of_two(rows.planned)))
