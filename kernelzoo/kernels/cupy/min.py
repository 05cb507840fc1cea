"""The minimum in CUDA C++: the launch tables of min.cu.

Each function turns a problem into a plan. Sizes are in *packs*, 16 bytes of a contiguous row (one element of a strided
one), since that is what a thread loads at a time.
"""

import ctypes
import math
from dataclasses import dataclass

import torch

from kernelzoo.kernels.cupy.module import PACK_BYTES, Argument, Device, Plan, Problem, Step, bind
from kernelzoo.registry import Launch, register
from kernelzoo.tables import knob, launch_table

WARP = 32

# Loads of 16 bytes in flight per thread: 128 kB with 1024 threads an SM, three times what the memory's latency takes.
ITEMS = 8

THREADS = 256

CLUSTER = 4

SPLIT_LANES = 32  # across a tile whose columns are shared: 512 bytes

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
    # Two of 256 threads have enough loads on their way; four, which an SM has the registers for, are more to wait for.
    blocks_per_sm: int = knob(2, among=(2, 3, 4, 6, 8), unit="blocks", why="of split rows and of atomics, on each SM")
    column_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="on each SM, of columns that several share")
    # Their minima meet without a trip to memory, which is worth more than the SMs that so few rows leave out.
    cluster_rows: int = knob(
        12, among=(12, 24, 48, 96), unit="rows", why="from which four blocks each, as a cluster, pay off"
    )
    row_threads: int = knob(
        512, among=(256, 512, 1024), unit="threads", why="to a long row, where an SM has several rows at once"
    )
    group_rows: int = knob(
        2, among=(2, 4), unit="packs", why="in flight to a thread of short rows, where they are many waves of blocks"
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
        if _is_narrow(columns):
            return _split(problem, device, knobs)
        few = 100 * _whole_tile(columns, device).count < knobs.columns_percent * device.sms and problem.n > 64
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
        return _columns(columns, _whole_tile(columns, device), 1)
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
        # With two packs in flight, and 64 registers a thread, an SM has 32 kB on its way.
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
    if columns is not None and _is_narrow(columns):
        blocks = min(knobs.column_blocks * device.sms, max(1, columns.n * columns.inner // (512 * ITEMS)))
        step = Step(f"columns_flat<{columns.c_type}, {ITEMS}>", blocks, 512, ("partial", "counters"))
        return Plan(columns, (step,), blocks * columns.inner * 8, 4)
    if columns is not None:
        tile = _column_tile(columns, SPLIT_LANES, THREADS)
        most = max(1, knobs.column_blocks * device.sms // tile.count)
        return _columns(columns, tile, min(-(-columns.n // (tile.depths * ITEMS)), most))
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
    arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, chunks))
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


def _is_narrow(problem: Problem) -> bool:
    """Long columns that fill one piece of memory, of so few rows that a word holds a whole line of them, or more."""
    return (
        problem.aligned
        and problem.outer == 1
        and problem.x_inner == 1
        and problem.x_n == problem.inner < PACK_BYTES // problem.itemsize
        and problem.n >= 1024
    )


@dataclass(frozen=True)
class _Tile:
    """Neighbouring rows that one block takes; see ``struct Tile`` of min.cu."""

    width: int
    lanes: int
    depths: int
    step: int
    """Rows from a tile to the next."""
    across: int
    """Tiles side by side."""
    count: int

    @property
    def threads(self) -> int:
        return -(-self.lanes * self.depths // WARP) * WARP


def _column_tile(problem: Problem, lanes: int, threads: int) -> _Tile:
    """A tile of at most so many words across, in a block of at most so many threads."""
    inner, width = problem.inner, PACK_BYTES // problem.itemsize
    if problem.x_inner != 1 or min(inner, problem.x_n) < width:  # single elements
        width, around, threads = 1, 1, min(threads, THREADS)
        step = lanes = min(WARP, inner)
    else:
        # Lines that begin within a word touch one more. Others' tiles keep to 64 bytes, what memory gives at once.
        spare, piece = (0, 4 * width) if problem.column_width == width else (width - 1, width)
        around = width // math.gcd(width, problem.x_n)
        lanes = min(lanes, threads // around)
        step = inner
        if inner + spare > lanes * width:
            tiles = -(-inner // ((lanes - (spare > 0)) * width))
            step = -(-inner // (tiles * piece)) * piece
        lanes = -(-(step + spare) // width)
    depths = min(threads // lanes // around, -(-problem.n // (ITEMS * around))) * around
    across = -(-inner // step)
    return _Tile(width, lanes, min(depths, problem.n), step, across, problem.outer * across)


def _whole_tile(problem: Problem, device: Device) -> _Tile:
    """Columns that no blocks share: 128 bytes across, or more where that leaves 1.5 to 3 blocks an SM; a larger block
    where an SM has no second one."""
    words = problem.outer * -(-problem.inner * problem.itemsize // PACK_BYTES)
    lanes = max(8, min(64, _power_of_two(words // (3 * device.sms))))
    tile = _column_tile(problem, lanes, THREADS)
    return tile if tile.count > device.sms else _column_tile(problem, lanes, 2 * THREADS)


def _columns(problem: Problem, tile: _Tile, chunks: int) -> Plan:
    workspace: tuple[Argument, ...] = ("partial", "counters") if chunks > 1 else ((ctypes.c_int64, 0),) * 2
    arguments = (
        *workspace,
        (ctypes.c_int32, chunks),
        (ctypes.c_int64, -(-problem.n // chunks)),
        (ctypes.c_int64, tile.across),
        *((ctypes.c_int32, size) for size in (tile.step, tile.lanes, tile.depths)),
    )
    kernel = f"columns<{problem.c_type}, {tile.width}, {ITEMS}, {'true' if chunks > 1 else 'false'}>"
    step = Step(kernel, tile.count * chunks, tile.threads, arguments)
    if chunks == 1:
        return Plan(problem, (step,))
    return Plan(problem, (step,), tile.count * chunks * tile.lanes * PACK_BYTES, tile.count * 4)


def _packs(problem: Problem) -> int:
    """Packs of a row; one for a row too short to have any."""
    return max(1, problem.n // problem.width)


def _threads(packs: int, most: int) -> int:
    """Threads, in whole warps, that take a row in batches of ITEMS packs each."""
    return min(most, -(-packs // (ITEMS * WARP)) * WARP)


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << (number - 1).bit_length()
