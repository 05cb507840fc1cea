"""The minimum in CUDA C++: the launch tables of min.cu.

Each function turns a problem into a plan. Sizes are in *packs*, 16 bytes of a contiguous row (one element of a strided
one), since that is what a thread loads at a time.
"""

import ctypes

import torch

from kernelzoo.kernels.cupy.module import Argument, Device, Plan, Problem, Step, bind
from kernelzoo.registry import Launch, register
from kernelzoo.tables import knob, launch_table

WARP = 32

# Loads of 16 bytes in flight per thread: 128 kB with 1024 threads an SM, three times what the memory's latency takes.
ITEMS = 8

THREADS = 256

CLUSTER = 4

BATCH_TILES = 128  # row tiles, of 8 rows, whose minima a block of atomic_batched holds at a time: 8 kB at most
MAX_GRID_Y = 65535

TILE_ROWS = 128
TILE_BYTES = 32 * 1024  # six such blocks on an SM with 200 kB of shared memory


@launch_table("cupy", "min")
class Knobs:
    """What depends on the card. Shipped values are an H200's."""

    fill_percent: int = knob(
        50, among=(25, 50, 100, 200), unit="% of the SMs", why="with a row each, above which no row is split"
    )
    columns_percent: int = knob(
        50, among=(25, 50, 100, 200), unit="% of the SMs", why="with a tile of columns each, below which they are split"
    )
    # Four of 256 threads run on an SM with the 56 registers a thread that these kernels take on sm_90.
    blocks_per_sm: int = knob(4, among=(2, 3, 4, 6, 8), unit="blocks", why="of split rows and of atomics, on each SM")
    flat_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="on each SM, of columns as one piece of memory")
    # Their minima meet without a trip to memory.
    cluster_rows: int = knob(
        24, among=(12, 24, 48, 96), unit="rows", why="from which four blocks each, as a cluster, fill the device"
    )
    row_threads: int = knob(
        512, among=(256, 512, 1024), unit="threads", why="to a long row, where an SM has several rows at once"
    )
    group_rows: int = knob(
        4, among=(2, 4), unit="packs", why="in flight to a thread of short rows, where they are many waves of blocks"
    )
    tile_row_bytes: int = knob(
        256, among=(64, 128, 256), unit="bytes", why="of rows off 16-byte words that are read as one piece of memory"
    )


@register("cupy", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The fastest of the others: rows_deferred where the rows fill the device, split where they don't."""
    return bind("min", _auto, Knobs, x, out)


@register("cupy", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One block per row; each tile of it is reduced to a scalar before the next is read."""
    return bind("min", _rows, Knobs, x, out)


@register("cupy", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A block, a warp, a part of a warp or a thread per row; its running minimum meets the others' once, at the end."""
    return bind("min", _rows_deferred, Knobs, x, out)


@register("cupy", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks per row leave partial minima behind, and the last to arrive reduces them: one launch."""
    return bind("min", _split, Knobs, x, out)


@register("cupy", "min", "atomic_eager")
def atomic_eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The reduced axis spread over the chip; each row's minimum goes out by an atomic at once."""
    return bind("min", _atomic_eager, Knobs, x, out)


@register("cupy", "min", "atomic_batched")
def atomic_batched(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """As atomic_eager, but a block keeps the minima of all its rows and sends them out together."""
    return bind("min", _atomic_batched, Knobs, x, out)


def _auto(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        if _is_flat(columns):
            return _split(problem, device, knobs)
        few = 100 * _column_tiles(columns) < knobs.columns_percent * device.sms and problem.n > 64
        return _split(problem, device, knobs) if few else _rows_deferred(problem, device, knobs)
    # A block per row fills the device from half as many rows as SMs; a row that one batch reads gains nothing either.
    if 100 * problem.rows > knobs.fill_percent * device.sms or _packs(problem) <= THREADS * ITEMS // 2:
        return _rows_deferred(problem, device, knobs)
    return _split(problem, device, knobs)


def _rows(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    kernel = f"rows<{problem.c_type}, {problem.width}, {ITEMS}>"
    return Plan(problem, (Step(kernel, problem.rows, _threads(_packs(problem), THREADS)),))


def _rows_deferred(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        # Single elements: as many bytes on their way take more items a thread and more blocks.
        lanes, items, most = _column_lanes(columns), ITEMS, 512
        if columns.column_width == 1:
            items, most = 2 * ITEMS, 128
        threads = max(WARP, min(most, lanes * _power_of_two(-(-columns.n // items))))
        kernel = f"columns<{columns.c_type}, {columns.column_width}, {items}, false>"
        arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, 1), (ctypes.c_int32, lanes))
        return Plan(columns, (Step(kernel, _column_tiles(columns), threads, arguments),))
    n, width, c_type, packs = problem.n, problem.width, problem.c_type, _packs(problem)
    # Short rows that don't keep to 16-byte words: all of them as one piece of memory.
    if (
        problem.one_piece
        and not problem.packed
        and n * problem.itemsize <= knobs.tile_row_bytes
        and TILE_ROWS * n * problem.itemsize <= TILE_BYTES
    ):
        shared = TILE_ROWS * n * problem.itemsize + 16
        return Plan(
            problem, (Step(f"rows_deferred_tile<{c_type}>", -(-problem.rows // TILE_ROWS), TILE_ROWS, (), shared),)
        )
    if packs <= WARP * ITEMS:
        has_edges = width > 1 and not problem.packed
        lanes = min(WARP, _power_of_two(packs))
        if has_edges:  # one edge element a lane: a row has 2 * (width - 1) of them at most
            lanes = max(lanes, _power_of_two(2 * (width - 1)))
        items = _power_of_two(-(-packs // lanes))
        # Four packs in flight and 64 registers a thread, 64 kB per SM; two where one wave of blocks holds all rows.
        group_rows = max(1, (knobs.group_rows if problem.rows * lanes > device.sms * 2048 else 2) // items)
        blocks = -(-problem.rows // (128 // lanes * group_rows))
        kernel = f"rows_deferred_lanes<{c_type}, {width}, {lanes}, {items}, {group_rows}, {int(has_edges)}>"
        return Plan(problem, (Step(kernel, blocks, 128),))
    # 512 threads a row, or 1024 where no SM has a second row.
    threads = _threads(packs, 1024 if problem.rows <= device.sms else knobs.row_threads)
    return Plan(problem, (Step(f"rows_deferred<{c_type}, {width}, {ITEMS}>", problem.rows, threads),))


def _split(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    columns = problem.by_columns()
    blocks = knobs.blocks_per_sm * device.sms
    if columns is not None and _is_flat(columns):
        blocks = min(knobs.flat_blocks * device.sms, max(1, columns.n * columns.inner // (512 * ITEMS)))
        step = Step(f"columns_flat<{columns.c_type}, {ITEMS}>", blocks, 512, ("partial", "counters"))
        return Plan(columns, (step,), blocks * columns.inner * 8, 4)
    if columns is not None:
        lanes, tiles = _column_lanes(columns), _column_tiles(columns)
        chunks = max(1, min(-(-columns.n // (THREADS // lanes * ITEMS)), blocks // min(blocks, tiles)))
        kernel = f"columns<{columns.c_type}, {columns.column_width}, {ITEMS}, true>"
        arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, chunks), (ctypes.c_int32, lanes))
        step = Step(kernel, tiles * chunks, THREADS, arguments)
        return Plan(columns, (step,), tiles * chunks * lanes * 16, tiles * 4)
    packs = _packs(problem)
    # Of longer rows the trip weighs little, and clusters leave some SMs out.
    short = CLUSTER * 512 <= packs <= CLUSTER * 512 * ITEMS * 4
    if device.capability >= 90 and problem.width > 1 and problem.rows >= knobs.cluster_rows and short:
        threads = _threads(-(-packs // CLUSTER), 512)
        kernel = f"split_cluster<{problem.c_type}, {problem.width}, {ITEMS}>"
        return Plan(problem, (Step(kernel, problem.rows * CLUSTER, threads, cluster=CLUSTER),))
    # One wave of blocks, each with a batch of loads at least.
    chunks = max(1, min(-(-packs // (THREADS * ITEMS)), blocks // min(blocks, problem.rows)))
    kernel = f"split<{problem.c_type}, {problem.width}, {ITEMS}>"
    arguments = ("partial", "counters", (ctypes.c_int32, chunks))
    step = Step(kernel, problem.rows * chunks, _threads(-(-packs // chunks), THREADS), arguments)
    return Plan(problem, (step,), problem.rows * chunks * 8, problem.rows * 4)


def _atomic_eager(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    chunks = _atomic_chunks(problem, device, knobs)
    tiles = -(-problem.rows // 8)
    return _atomic(problem, chunks, min(tiles, max(1, knobs.blocks_per_sm * device.sms // chunks)), "false")


def _atomic_batched(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    chunks = _atomic_chunks(problem, device, knobs)
    tiles = -(-problem.rows // 8)
    # Row groups that fill the device, of as many tiles as a block holds the minima of; a batch is of two tiles at
    # least, where that leaves every SM a block.
    groups = max(1, knobs.blocks_per_sm * device.sms // chunks)
    least = 2 if tiles * chunks >= 2 * device.sms else 1
    share = min(BATCH_TILES, max(least, -(-tiles // groups)))
    return _atomic(problem, chunks, min(-(-tiles // share), MAX_GRID_Y), "true")


def _atomic_chunks(problem: Problem, device: Device, knobs: Knobs) -> int:
    """Blocks along the reduced axis: one wave, each warp with a batch of loads per row at least."""
    return max(1, min(-(-_packs(problem) // (WARP * ITEMS)), knobs.blocks_per_sm * device.sms))


def _atomic(problem: Problem, chunks: int, grid_y: int, batched: str) -> Plan:
    c_type, narrow = problem.c_type, problem.itemsize < 4
    block_n = -(-_packs(problem) // chunks)
    main = Step(
        f"atomic<{c_type}, {problem.width}, {ITEMS}, {batched}>",
        chunks,
        256,
        ("partial", (ctypes.c_int64, block_n)),
        grid_y=grid_y,
    )
    over_rows = -(-problem.rows // 256)
    steps = [Step(f"fill<{c_type}>", over_rows, 256, ("partial",)), main]
    if narrow:
        steps.append(Step(f"narrow<{c_type}>", over_rows, 256, ("partial",)))
    return Plan(problem, tuple(steps), partial_bytes=problem.rows * 4 if narrow else 0)


def _is_flat(problem: Problem) -> bool:
    """Columns that fill one piece of memory, of so few rows that blocks of 512 threads go round them, at odd widths."""
    return (
        problem.column_width == 1
        and problem.aligned
        and problem.outer == 1
        and problem.x_inner == 1
        and problem.x_n == problem.inner <= 256
        and problem.n >= 1024
    )


def _column_lanes(problem: Problem) -> int:
    """Lanes along the rows: 128 bytes of neighbouring rows, or 32 single elements."""
    return min(8 if problem.column_width > 1 else WARP, _power_of_two(-(-problem.inner // problem.column_width)))


def _column_tiles(problem: Problem) -> int:
    return problem.outer * -(-problem.inner // (_column_lanes(problem) * problem.column_width))


def _packs(problem: Problem) -> int:
    """Packs of a row; one for a row too short to have any."""
    return max(1, problem.n // problem.width)


def _threads(packs: int, most: int) -> int:
    """Threads, in whole warps, that take a row in batches of ITEMS packs each."""
    return min(most, -(-packs // (ITEMS * WARP)) * WARP)


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << (number - 1).bit_length()
