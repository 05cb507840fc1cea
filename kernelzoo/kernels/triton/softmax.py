"""Softmax in Triton: a row on chip, rows side by side, a resident grid, a running pair, several programs to a row.

All kernels subtract the maximum first and scale by log2(e) after (``exponential`` does), since the other order loses
bits on rows with a large offset. ``tl.max`` drops a NaN, and the sum brings it back: exp(NaN - max) is NaN.

Where rows start and end inside a 16-byte vector, EDGES is the length of one: a row is then its whole vectors, and at
either end an edge of fewer elements than that. Else EDGES is 0.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.triton.occupancy import Device, current_device, occupancy
from kernelzoo.kernels.triton.program import (
    Columns,
    Rows,
    await_last_launch,
    bound,
    columns_of_rows,
    compiled,
    edge_columns,
    edges_of,
    launch_of,
    note,
    ragged_tile,
    row_start,
    rows_of,
    whole_vectors,
    wide_dtype,
    wide_type,
)
from kernelzoo.registry import Launch, register
from kernelzoo.tables import knob, launch_table, of

# ---------------------------------------------------------------------------------------------------------------------
# Launch table: docs/performance-triton.md has the measurements
# ---------------------------------------------------------------------------------------------------------------------

ON_CHIP_BYTES = 32768 * 4
"""The widest tile one program holds in registers: 1024 threads (the most a program may have) times 32 elements of
float32, or 16 of float64, which leaves half of the 64 registers a thread has then for everything else."""

ONLINE_ROWS = 6
"""Rows of float64 per multiprocessor from which online takes those that no program holds. On an H200 (2048, 32768)
takes 397 us so and 494 by split, (777, 50257) 261 and 256, (300, 65537) 159 and 133."""

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Rows across which memory is contiguous are taken by the cache line, at the least by the sector of a line."""

ACROSS_ELEMENTS, ACROSS_THREADS, ACROSS_PROGRAMS = 8192, 256, 2
"""A tile of split across rows, its threads, and how many such programs share an SM."""

MANY_STRIP_PARTS = 64
"""Programs to a strip of columns above which it is made narrower: each awaits a pair of all columns from all others. Of
more than twice as many, columns are read twice."""

FLAT_BLOCK, FLAT_THREADS, FLAT_PROGRAMS, FLAT_COLUMNS = 4096, 512, 2, 128
"""Elements of a block of few columns, its threads, how many such programs share an SM, and how many columns are few:
each program merges the pairs of all."""

FEW_PARTS, MANY_PARTS = 32, 512
"""Programs to one tile of rows side by side: that always make sense, and at the most."""


READ: tl.constexpr = tl.constexpr("evict_last")
"""How long the L2 cache keeps the elements of rows that a program holds: longer than the results.

Read lines that stay make the written ones leave for memory steadily. On an H200 float32 (8192, 8192) takes 127 us, 131
without a policy and 138 with evict_first; kernels before and after it are no slower for it (docs/performance.md).
"""


@launch_table("triton", "softmax")
class Knobs:
    """What depends on the card. Shipped values are an H200's."""

    thread_bytes: int = knob(
        64,
        among=(32, 64, 128),
        unit="bytes",
        why="of a tile to a thread, as computed: four 16-byte loads in flight in float32, two in half precision",
    )
    row_elements: int = knob(
        16, among=(8, 16, 32), unit="elements", why="to a thread of a program that holds one row of wide elements"
    )
    double_elements: int = knob(
        8, among=(4, 8, 16), unit="elements", why="to a thread of a program that holds one row of float64, at the most"
    )
    half_elements: int = knob(
        32, among=(16, 32, 64), unit="elements", why="to a thread of a program that holds one row of half precision"
    )
    packed_elements: int = knob(48, among=(32, 48, 64), unit="elements", why="the same, of two numbers to a register")
    # On an H200 with 8192 instead, rows of 8192 to 16383 elements: float32 (396, 8192) takes 9.6 us for 8.2,
    # (128, 8192) 5.2 for 5.0, (8192, 8192) 136 for 137.
    full_row: int = knob(
        16384,
        among=(4096, 8192, 16384),
        unit="elements",
        why="rows of wide elements from here on, without edges, take the most threads that a program may have",
    )
    # On an H200 14 % faster at (4096, 12672), 7 % at (2048, 16384); 8 % slower at (3001, 5003), 5 % for few rows.
    packed_row: int = knob(
        8192,
        among=(2048, 4096, 8192),
        unit="elements",
        why="a longer row of half precision is held as it is read, two numbers to a register, if rows are many",
    )
    packed_rows: int = knob(2, among=(1, 2, 4, 8), unit="rows per multiprocessor", why="above which they are many")
    # 32 words to each of 256 threads. Longer ones are read ahead into shared memory by `persistent`, 0.90 of what the
    # device allows at (4096, 32768), where a program per row reached 0.73.
    packed_limit: int = knob(
        16384, among=(8192, 16384, 32768), unit="elements", why="of the longest such row; longer ones go to persistent"
    )
    ahead_rows: int = knob(
        2, among=(1, 2, 4, 8), unit="rows per multiprocessor", why="from which on persistent takes those longer ones"
    )
    stages: int = knob(
        0,
        among=(0, 2, 3, 4),
        unit="rows",
        why="that persistent has under way; 0: four where an SM has more than 200 kB of shared memory, else two",
    )
    # No program waits for a second warp.
    warp_elements: int = knob(
        1024, among=(512, 1024, 2048), unit="elements", why="of a tile of short rows, all of which one warp holds"
    )
    # With 8 instead: bfloat16 (20011, 33) takes 4.4 us for 3.4, float32 (4096, 256) 4.1 for 4.0.
    tiles_per_sm: int = knob(
        16, among=(4, 8, 16, 32), unit="tiles", why="such tiles are made no larger than leaves each SM so many"
    )
    # 16 elements to each of 256 threads in float32; about four such programs share an SM.
    tile_bytes: int = knob(16384, among=(8192, 16384, 32768), unit="bytes", why="of a tile across rows")
    # Enough to spread the cost of starting a program, few enough for an even last wave.
    rows_per_program: int = knob(4, among=(2, 4, 8), unit="rows", why="of multi_row's guarded loop over long rows")
    # 16 float32 elements to each of 256 threads, with a maximum and a sum for each.
    online_bytes: int = knob(16384, among=(8192, 16384, 32768), unit="bytes", why="of a block of the running pair")
    online_percent: int = knob(
        90,
        among=(45, 90, 180),
        unit="% of the SMs",
        why="with a tile of long columns each, from which on online takes them, and not split",
    )
    # At (16, 262144) 0.55 of what the device allows, where words reached 0.51.
    wide_elements: int = knob(
        32768,
        among=(16384, 32768, 65536),
        unit="elements per multiprocessor",
        why="up to which split holds halves as their exponentials, computed once, not as the words that were read",
    )
    bytes_per_us: int = knob(
        4200000,
        among=(300000, 600000, 1000000, 2000000, 3000000, 4200000, 6500000),
        unit="bytes per us",
        why="the speed of the memory by which split weighs the number of programs to a row",
    )
    exchange_us: int = knob(
        10, among=(5, 10, 20), unit="us", why="that programs of one row wait for each other, if no other row hides it"
    )


def row_columns(n: int, dtype: torch.dtype, implementation: str, edges: int) -> int:
    """Columns of a tile that holds a whole row, its edges aside. Raises UnsupportedProblemError if none can."""
    capacity = ON_CHIP_BYTES // wide_dtype(dtype).itemsize
    if n > capacity:
        raise UnsupportedProblemError(implementation, f"a row must fit on chip, {capacity} of {dtype}; got {n}")
    return tile_columns(n, edges)


def tile_columns(n: int, edges: int) -> int:
    """The power of two that holds the whole vectors of a row of n elements, or all of it if it has no edges."""
    columns: int = triton.next_power_of_2(n // edges * edges if edges else n)
    return columns


def tile_warps(knobs: Knobs, device: Device, dtype: torch.dtype, elements: int) -> int:
    """Warps for a tile of so many elements."""
    return device.warps(elements * wide_dtype(dtype).itemsize // knobs.thread_bytes)


def row_warps(knobs: Knobs, device: Device, dtype: torch.dtype, n: int, edges: int, packed: bool = False) -> int:
    """Warps for one row of n elements: no more than the row itself can feed, however wide its tile is."""
    if dtype.itemsize == 2 and n <= knobs.packed_limit:
        threads = max(32, min(256, n // (knobs.packed_elements if packed else knobs.half_elements)))
    elif dtype.itemsize == 8:  # at least so many: of its exponentials' registers, too, each thread has a part
        threads = max(32, min(1024, triton.next_power_of_2(triton.cdiv(n, knobs.double_elements))))
    else:
        threads = 1024 if n >= knobs.full_row and not edges else max(32, n // knobs.row_elements)
    return device.warps(triton.next_power_of_2(threads + 1) // 2)


def fused_warps(
    knobs: Knobs, device: Device, dtype: torch.dtype, n: int, edges: int, packed: bool
) -> tuple[int, dict[str, int]]:
    """Warps for one row of n elements, and what the compiler is told of their registers."""
    if dtype == torch.float64 and edges and tile_columns(n, edges) == 8192 and device.arch in ("80", "90"):
        # With its edges such a row takes 44 registers of 1024 threads, one program to a multiprocessor; so it has two,
        # where no register is spilled for that. On an H200 (3001, 5003) takes 79 us for 126.
        return device.warps(512), {"maxnreg": 64}
    return row_warps(knobs, device, dtype, n, edges, packed), {}


def row_tile(knobs: Knobs, rows: Rows, dtype: torch.dtype, edges: int) -> tuple[int, int] | None:
    """(ROWS, COLS) of a tile of whole rows, or None if rows are too long to be taken side by side."""
    columns = tile_columns(rows.n, edges)
    wide = wide_dtype(dtype).itemsize
    if not rows.across:
        # On an H200 float32 (1048576, 64) takes 128.4 us by 512 elements to a warp, 129.8 by 1024; float64 250 by 256,
        # 278 by 512.
        elements = knobs.warp_elements // max(1, dtype.itemsize // 2)
        even = triton.next_power_of_2(1 + rows.total // (knobs.tiles_per_sm * current_device().multiprocessors))
        if 2 * columns > elements:
            return None
        if edge_vectors(columns, dtype, edges) and dtype.itemsize == 2 and columns == 64:
            elements //= 2  # the edges of eight rows take as many registers as their middle
        return max(1, min(elements // columns, even)), columns
    # A line of memory at a time while the tile is small, then what fits on chip (a quarter of it: each element of
    # such a tile may need an address, two registers more), down to a sector.
    side = max(LINE_BYTES // dtype.itemsize, knobs.tile_bytes // wide // columns)
    side = min(side, ON_CHIP_BYTES // 4 // wide // columns)
    return (side, columns) if side >= SECTOR_BYTES // dtype.itemsize else None


def edge_vectors(columns: int, dtype: torch.dtype, edges: int) -> bool:
    """Whether the edges of rows side by side are read by whole vectors: it pays from 128 bytes to a row on.

    On an H200 in us, and with edges of single elements: float32 (1000003, 33) 69.2 (84.3), (499979, 61) 60.0 (74.6),
    (100003, 127) 26.3 (29.2); bfloat16 (499979, 61) 45.7 (48.8), (100003, 127) 16.0 (19.0), and of rows of 66 bytes,
    (1000003, 33), 89.3 (64.0).
    """
    return edges > 0 and dtype.itemsize <= 4 and columns * dtype.itemsize >= 128


def column_tile(rows: Rows, dtype: torch.dtype, tile_bytes: int) -> tuple[int, int]:
    """(ROWS, BLOCK) of a tile of part of a row, or of part of a line's worth of rows where memory runs across."""
    elements = tile_bytes // wide_dtype(dtype).itemsize
    if rows.across:
        side = LINE_BYTES // dtype.itemsize
        return side, elements // side
    return 1, min(elements, triton.next_power_of_2(rows.n))


class SplitTiling(NamedTuple):
    """A program of split: its threads, how many such programs share an SM, registers of a thread, packs of 16 bytes
    that a thread holds, and packs in a block of what it can't hold and reads twice."""

    threads: int
    programs: int
    registers: int
    held: int
    block: int


def split_tilings(dtype: torch.dtype, packed: bool, device: Device) -> tuple[SplitTiling, ...]:
    """64 registers of a row to a thread, in programs of four warps, or of more where a row has more programs than those
    have threads.

    Few warps wait for each other for less time, each with many loads in flight. The registers that suffice on an H200
    spill a few on some other architectures, which get more.
    """
    held, block = (16, 8) if packed else (16, 4) if dtype.itemsize == 4 else (8, 2)
    if device.arch in ("90", "100"):
        # On an H200 float64 (64, 99991) takes 46 us so, and 59 where a thread holds all that its registers can.
        block = 4 if dtype.itemsize == 8 else block
        return tuple(SplitTiling(128 * k, 4 // k, 128, held, block) for k in (1, 2, 4))
    return SplitTiling(128, 3, 168, held, block), SplitTiling(512, 1, 128, held // 2, block)


def split_parts(
    knobs: Knobs, rows: int, n: int, itemsize: int, tilings: tuple[SplitTiling, ...], multiprocessors: int
) -> tuple[SplitTiling, int]:
    """The tiling and programs to one row, by an estimate of the microseconds that each choice takes.

    Rows are taken in rounds. A round takes the time to move its bytes, at the speed of a chip of which a fifth of the
    programs may be idle; longer if it doesn't fit on chip, and part of it is read twice; a time for its end; and that
    for which programs wait for each other, which is hidden if there are others. Programs of more warps took 5 % longer
    on an H200.
    """
    elements_per_us = knobs.bytes_per_us / (2 * itemsize)
    # Of float64 by what 42 choices took for nine problems on an H200: a round ends with its long exponentials.
    end, reread = (4, 1.0) if itemsize == 8 else (1, 0.9)

    def time(choice: tuple[SplitTiling, int]) -> float:
        tiling, parts = choice
        resident = tiling.programs * multiprocessors
        groups = min(rows, resident // parts)
        rounds = triton.cdiv(rows, groups)
        share = triton.cdiv(n, parts)
        again = 1 + reread * max(0.0, 1 - tiling.held * tiling.threads * (16 // itemsize) / share)
        move = max(groups * parts, 0.8 * resident) * share / elements_per_us
        slower = 1 if tiling.threads == 128 else 1.05
        return float(slower * rounds * (again * move + end + knobs.exchange_us / groups))

    # Each of a program's threads awaits one pair.
    choices = (
        (tiling, parts)
        for tiling in tilings
        for parts in range(1, min(tiling.threads, tiling.programs * multiprocessors, triton.cdiv(n, 64)) + 1)
    )
    return min(choices, key=time)


def across_parts(knobs: Knobs, tiles: int, n: int, itemsize: int, columns: int, resident: int) -> int:
    """Programs to one tile of rows side by side, of which each takes so many columns at once; as ``split_parts``."""
    elements_per_us = knobs.bytes_per_us / (2 * itemsize)
    held = triton.cdiv(n, columns)

    def time(parts: int) -> float:
        groups = min(tiles, resident // parts)
        again = 1.2 + 0.6 * (1 - parts / held) if parts < held else 1.0
        move = max(groups * parts, 0.8 * resident) * triton.cdiv(n, parts) / elements_per_us
        return float(triton.cdiv(tiles, groups) * (again * move + 1 + knobs.exchange_us / groups))

    most = min(resident, MANY_PARTS, triton.cdiv(n, 64))
    return min((parts for parts in range(1, most + 1) if parts <= FEW_PARTS or parts < held), key=time)


class Strips(NamedTuple):
    """A program that holds a strip of columns: how many, up to how many elements of each, its threads, how many such
    programs share an SM, registers of a thread or 0, and whether two halves share one of those."""

    columns: int
    elements: int
    threads: int
    programs: int
    registers: int
    packed: bool


def strips_of(columns: Columns, x: torch.Tensor, device: Device) -> Strips | None:
    """Strips that programs hold in registers, whole columns if elements are n or more, else parts; None where the
    columns are too few to fill them or too long, or there is no measurement that speaks for them.

    On an H200 128 bytes of each row are best, of which two programs of 256 threads share an SM: float32 (8192, 8192)
    170 us, and 220 with half of that width, 284 with a quarter. Rows at odd addresses want twice as much.
    """
    n, itemsize = columns.n, x.element_size()
    if device.vendor == "hip" or itemsize == 8 or n <= 64:
        return None
    vectors = columns.multiple * itemsize == 16
    packed = itemsize == 2 and vectors and columns.x_inner == 1 and x.data_ptr() % 16 == 0
    whole = triton.next_power_of_2(n)
    packed = packed and (whole <= 1024 or device.arch not in ("100", "103"))  # where it spills a few registers
    each = 2 if packed else 1
    if not vectors and 128 < n <= 1024:  # whole columns in so few registers would spill
        return None
    if whole <= 1024:
        # 64 registers to a thread, of few threads where many rows would be masked, or a strip would be too wide.
        few = packed or whole <= 256 or (whole == 512 and n <= 320)
        threads, programs, elements = (128, 4, whole) if few else (256, 2, whole)
    else:
        threads, programs, elements = (256, 2, (512 if vectors else 256))
    # What suffices there spills a few registers on other architectures, which get more: 0 are as many as it takes.
    registers = 128
    if device.arch not in ("", "90"):
        threads, programs, registers = 128, 3, 0 if whole <= 1024 else 168
        elements = whole if whole <= 1024 else elements // 2
    wide = 64 * each * threads // elements
    if whole > 1024 and triton.cdiv(n, elements) > MANY_STRIP_PARTS:
        wide, elements = wide // 2, elements * 2
    while columns.inner < 0.75 * triton.cdiv(columns.inner, wide) * wide:
        if wide * itemsize <= SECTOR_BYTES or (whole <= 1024 and threads == 32):
            return None
        wide //= 2
        if whole <= 1024:
            threads //= 2
        else:
            elements *= 2
    if triton.cdiv(n, elements) > 2 * MANY_STRIP_PARTS:
        return None
    if whole == 128 and threads == 128 and not packed and registers == 128:
        threads, registers = 256, 64  # half as many to a thread: 18.0 us at float32 (100, 65537), not 18.7
    strips = Strips(wide, elements, threads, programs, registers, packed)
    return strips if strip_parts(columns, strips, device) <= programs * device.multiprocessors else None


def strip_parts(columns: Columns, strips: Strips, device: Device) -> int:
    """Programs to a strip of columns: one if it can hold them, else as few as can, and more where there is room."""
    least = triton.cdiv(columns.n, strips.elements)
    if least == 1:
        return 1
    room = strips.programs * device.multiprocessors // columns.strips(strips.columns)
    most = max(least, min(room, MANY_STRIP_PARTS, triton.cdiv(columns.n, 64)))
    parts: int = triton.cdiv(columns.n, triton.cdiv(columns.n, most))
    return parts


def flat_period(columns: Columns, dtype: torch.dtype, device: Device) -> int | None:
    """Elements of a block of few columns without gaps, whole rows of them and whole vectors; None if it doesn't pay.

    On an H200 in us, by blocks and as before: (1000003, 33) float32 116 (346), bfloat16 69 (289); (1000000, 64) float32
    200 (240).
    """
    if not columns.dense or columns.inner > FLAT_COLUMNS or dtype.itemsize == 8:
        return None
    least = math.lcm(columns.inner, 16 // dtype.itemsize)
    period = FLAT_BLOCK // least * least
    much = columns.n * columns.inner >= 4 * FLAT_BLOCK * FLAT_PROGRAMS * device.multiprocessors
    return period if 10 * period >= 9 * FLAT_BLOCK and much else None


# ---------------------------------------------------------------------------------------------------------------------
# Kernels
# ---------------------------------------------------------------------------------------------------------------------


@triton.jit
def exponential(x):
    """e^x; in float32 by the device's power of two, results below the smallest normal number flushed to zero."""
    return tl.exp(x) if x.dtype == tl.float64 else tl.exp2(x * 1.4426950408889634)


@triton.jit
def empty_words(DTYPE: tl.constexpr):
    """Two half-precision -inf, as the int32 that holds them."""
    return -0x7F0080 if tl.bfloat16 == DTYPE else -0x3FF0400


@triton.jit
def halves(words, DTYPE: tl.constexpr):
    """The two half-precision numbers in each int32, in float32."""
    if tl.bfloat16 == DTYPE:  # the upper half of a float32
        low = (words << 16).to(tl.float32, bitcast=True)
        high = (words & -65536).to(tl.float32, bitcast=True)
    else:
        low = words.to(tl.int16).to(DTYPE, bitcast=True).to(tl.float32)
        high = (words >> 16).to(tl.int16).to(DTYPE, bitcast=True).to(tl.float32)
    return low, high


@triton.jit
def not_before(words, value, never, BOTH: tl.constexpr):
    """words, which the compiler can't unpack before it has value: it would keep them unpacked, in twice the registers.

    never is False, but not for all that the compiler knows. BOTH: neither half; else it sees that the upper half stays
    the same, and keeps what it has computed of that.
    """
    flipped = ((value < 0) & never).to(tl.int32)
    return words ^ (-flipped if BOTH else flipped)


@triton.jit
def zero_if_empty(top):
    """What to subtract: of a row of -inf alone 0, so that 0 / 0 makes its NaN, and no lane computes -inf - -inf."""
    return tl.where(top == float("-inf"), 0.0, top)


@triton.jit
def softmax_of(x, AXIS: tl.constexpr):
    """Softmax of a whole tile along an axis, in the tile's own precision."""
    top = zero_if_empty(tl.max(x, AXIS, keep_dims=True))
    exponentials = exponential(x - top)
    return exponentials * (1.0 / tl.sum(exponentials, AXIS, keep_dims=True))


@triton.jit
def softmax_with_edges(x, edges, AXIS: tl.constexpr):
    """Softmax of a whole tile and its rows' edges along an axis, in the tile's own precision."""
    top = zero_if_empty(tl.maximum(tl.max(x, AXIS, keep_dims=True), tl.max(edges, AXIS, keep_dims=True)))
    exponentials = exponential(x - top)
    edges = exponential(edges - top)
    inverse = 1.0 / (tl.sum(exponentials, AXIS, keep_dims=True) + tl.sum(edges, AXIS, keep_dims=True))
    return exponentials * inverse, edges * inverse


@triton.jit
def softmax_row(
    x, x_start, x_n, out, out_start, out_n, n, cols, WIDE: tl.constexpr, EDGES: tl.constexpr
):  # fmt: skip
    """Softmax of one row that is held on chip."""
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        x_body = x + (x_start + EDGES - 1) // EDGES * EDGES + cols
        out_body = out + (out_start + EDGES - 1) // EDGES * EDGES + cols
        mask = cols < inside
        edge, known = edge_columns(tl.arange(0, 2 * EDGES), before, inside, n, EDGES)
        edges = tl.load(x + x_start + edge, known, other=float("-inf"))
        tile = tl.load(x_body, mask, other=float("-inf"), eviction_policy=READ)
        result, edges = softmax_with_edges(tile.to(WIDE), edges.to(WIDE), 0)
        tl.store(out_body, result.to(out.dtype.element_ty), mask)
        tl.store(out + out_start + edge, edges.to(out.dtype.element_ty), known)
    else:
        mask = cols < n
        here = cols.to(tl.int64)
        tile = tl.load(x + x_start + here * x_n, mask, other=float("-inf"), eviction_policy=READ)
        tl.store(out + out_start + here * out_n, softmax_of(tile.to(WIDE), 0).to(out.dtype.element_ty), mask)


@triton.jit
def fused_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    softmax_row(x, x_start, x_n, out, out_start, out_n, n, tl.arange(0, COLS), WIDE, EDGES)


@triton.jit
def fused_packed_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Half precision, two numbers to a register until they are computed with."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64)
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    cols = tl.arange(0, COLS)
    words = tl.arange(0, COLS // 2)
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        x_body = x + (x_start + EDGES - 1) // EDGES * EDGES
        out_body = out + (out_start + EDGES - 1) // EDGES * EDGES
        edge, known = edge_columns(tl.arange(0, 2 * EDGES), before, inside, n, EDGES)
        edges = tl.load(x + x_start + edge, known, other=float("-inf")).to(WIDE)
    else:
        inside = n
        x_body = x + x_start
        out_body = out + out_start
    here = x_body.to(tl.pointer_type(tl.int32), bitcast=True) + words
    tile = tl.load(here, words < inside // 8 * 4, other=empty_words(DTYPE))
    low, high = halves(tile, DTYPE)
    top = tl.max(tl.maximum(low, high), 0, keep_dims=True)
    if EDGES:
        top = tl.maximum(top, tl.max(edges, 0, keep_dims=True))
    top = zero_if_empty(top)
    tile = not_before(tile, top, rows < 0, False)
    low, high = halves(tile, DTYPE)
    total = tl.sum(exponential(low - top) + exponential(high - top), 0, keep_dims=True)
    if EDGES:
        edges = exponential(edges - top)
        total += tl.sum(edges, 0, keep_dims=True)
    inverse = 1.0 / total
    tile = not_before(tile, inverse, rows < 0, False)
    low, high = halves(tile, DTYPE)
    result = tl.join((exponential(low - top) * inverse).to(DTYPE), (exponential(high - top) * inverse).to(DTYPE))
    tl.store(out_body + cols, tl.reshape(result, [COLS]), cols < inside // 8 * 8)
    if EDGES:
        tl.store(out + out_start + edge, (edges * inverse).to(DTYPE), known)


@triton.jit
def row_loop_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr,
    COLS: tl.constexpr, ROWS_PER_PROGRAM: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    first = tl.program_id(0).to(tl.int64) * ROWS_PER_PROGRAM
    cols = tl.arange(0, COLS)
    for i in range(ROWS_PER_PROGRAM):
        row = first + i
        if row < rows:
            x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
            out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
            softmax_row(x, x_start, x_n, out, out_start, out_n, n, cols, WIDE, EDGES)


@triton.jit
def row_tile_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, COLS)[None, :]
    in_rows = (row < rows)[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None]
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        before, inside = before.to(tl.int32), inside.to(tl.int32)
        mask = in_rows & (cols < inside)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows
        edges = tl.load(x + (x_start + edge), known, other=float("-inf"))
        here = (x_start + EDGES - 1) // EDGES * EDGES + cols
        tile = tl.load(x + here, mask, other=float("-inf"), eviction_policy=READ)
        result, edges = softmax_with_edges(tile.to(WIDE), edges.to(WIDE), 1)
        here = (out_start + EDGES - 1) // EDGES * EDGES + cols
        tl.store(out + here, result.to(out.dtype.element_ty), mask)
        tl.store(out + (out_start + edge), edges.to(out.dtype.element_ty), known)
    else:
        mask = in_rows & (cols < n)
        here = cols.to(tl.int64)
        tile = tl.load(x + x_start + here * x_n, mask, other=float("-inf"), eviction_policy=READ)
        tl.store(out + out_start + here * out_n, softmax_of(tile.to(WIDE), 1).to(out.dtype.element_ty), mask)


@triton.jit
def ragged_tile_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr, safe,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, PACKS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Short rows with edges that LANES threads share, the edges read by whole vectors as well."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n *= MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    before, inside = whole_vectors(x_start, n, EDGES)
    before, inside = before.to(tl.int32), inside.to(tl.int32)
    x_body = (x_start + EDGES - 1) // EDGES * EDGES
    out_body = (out_start + EDGES - 1) // EDGES * EDGES
    after = n - before - inside
    tile, mask, edges, own, at = ragged_tile(
        x, x_body, row, row < rows, safe, before, inside, after, WIDE, float("-inf"), EDGES, LANES, PACKS, READ
    )
    top = tl.maximum(tl.max(tl.max(tile, 2), 1), tl.max(tl.max(edges, 2), 1))
    top = zero_if_empty(top)[:, None, None]
    tile = exponential(tile - top)
    edges = exponential(edges - top)
    inverse = (1.0 / (tl.sum(tl.sum(tile, 2), 1) + tl.sum(tl.sum(edges, 2), 1)))[:, None, None]
    here = tl.arange(0, LANES * EDGES)[None, None, :] + tl.arange(0, PACKS)[None, :, None] * (LANES * EDGES)
    tl.store(out + out_body + here, (tile * inverse).to(DTYPE), mask)
    tl.store(out + out_body + at, (edges * inverse).to(DTYPE), own)


@triton.jit
def persistent_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    cols = tl.arange(0, COLS)
    for i in tl.range(tl.program_id(0).to(tl.int64), rows, tl.num_programs(0), num_stages=STAGES):
        row = tl.cast(i, tl.int64)
        x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        softmax_row(x, x_start, x_n, out, out_start, out_n, n, cols, WIDE, EDGES)


@triton.jit
def online_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)[:, None]
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None]
    in_rows = (row < rows)[:, None]
    # Every lane keeps a pair of its own, and lanes meet once, after the loop. A maximum starts at the lowest finite
    # number, so that no difference of two is -inf - -inf.
    top = tl.full([ROWS, BLOCK], LOWEST, WIDE)
    total = tl.zeros_like(top)
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows
        edges = tl.load(x + (x_start + edge), known, other=float("-inf")).to(WIDE)
        x_body = (x_start + EDGES - 1) // EDGES * EDGES
        out_body = (out_start + EDGES - 1) // EDGES * EDGES
        longest = tl.max(inside)
    else:
        inside = n
        x_body = x_start
        out_body = out_start
        longest = n
    for start in range(0, longest, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_body + here * x_n), in_rows & (here < inside), other=float("-inf")).to(WIDE)
        rise = tile - top
        # Of exp(top - new top) and exp(tile - new top) one is 1, and this is the other.
        scale = exponential(-tl.abs(rise))
        total = tl.where(rise > 0, total * scale + 1, total + scale)
        top = tl.maximum(top, tile)
    row_top = tl.max(top, 1, keep_dims=True)
    if EDGES:
        row_top = tl.maximum(row_top, tl.max(edges, 1, keep_dims=True))
    row_total = tl.sum(total * exponential(top - row_top), 1, keep_dims=True)
    if EDGES:
        edges = exponential(edges - row_top)
        row_total += tl.sum(edges, 1, keep_dims=True)
    inverse = 1.0 / row_total
    if EDGES:
        tl.store(out + (out_start + edge), (edges * inverse).to(out.dtype.element_ty), known)
    blocks = tl.cdiv(longest, BLOCK)
    for i in range(blocks):
        here = (blocks - 1 - i) * BLOCK + cols  # backwards: what was read last is likeliest to be in a cache still
        mask = in_rows & (here < inside)
        tile = tl.load(x + (x_body + here * x_n), mask, other=float("-inf"))
        result = exponential(tile.to(WIDE) - row_top) * inverse
        tl.store(out + (out_body + here * out_n), result.to(out.dtype.element_ty), mask)


# A program of split holds its share of a row as [THREADS, PACKS, VECTOR]: each thread has packs of 16 bytes, neighbours
# in memory go to neighbouring threads, and what is reduced along the last two axes asks no other thread. It is loaded
# and stored as one line of memory, from which the compiler can make no other layout.


@triton.jit
def load_share(
    x, start, x_n, length, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr, PACKED: tl.constexpr
):
    """The first length elements from start: numbers, or words of two halves."""
    if PACKED:
        DTYPE: tl.constexpr = x.dtype.element_ty
        words = tl.arange(0, THREADS * PACKS * VECTOR // 2)
        here = (x + start).to(tl.pointer_type(tl.int32), bitcast=True) + words
        line = tl.load(here, words < length // 8 * 4, other=empty_words(DTYPE))
        share = tl.permute(tl.reshape(line, [PACKS, THREADS, VECTOR // 2]), (1, 0, 2))
    else:
        cols = tl.arange(0, THREADS * PACKS * VECTOR)
        line = tl.load(x + start + cols.to(tl.int64) * x_n, cols < length, other=float("-inf"))
        share = tl.permute(tl.reshape(line, [PACKS, THREADS, VECTOR]), (1, 0, 2))
    return share


@triton.jit
def in_two(share, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr):
    """The first and the second half of each thread's packs."""
    return tl.split(tl.permute(tl.reshape(share, [THREADS, 2, PACKS // 2, VECTOR]), (0, 2, 3, 1)))


@triton.jit
def sum_of_words(words, top, DTYPE: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr):
    """Each thread's sum of exponentials below top, two packs at a time: their numbers take no more registers."""
    if PACKS > 2:
        one, two = in_two(words, THREADS, PACKS, VECTOR)
        result = sum_of_words(one, top, DTYPE, THREADS, PACKS // 2, VECTOR)
        result += sum_of_words(two, top, DTYPE, THREADS, PACKS // 2, VECTOR)
    else:
        low, high = halves(words, DTYPE)
        below = top[:, None, None]
        result = tl.sum(tl.sum(exponential(low - below) + exponential(high - below), 2), 1)
    return result


@triton.jit
def store_words(
    out, length, words, top, inverse, FIRST: tl.constexpr,
    DTYPE: tl.constexpr, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Write words' exponentials below top, times inverse, two packs at a time; FIRST says how many are written."""
    if PACKS > 2:
        one, two = in_two(words, THREADS, PACKS, VECTOR // 2)
        store_words(out, length, one, top, inverse, FIRST, DTYPE, THREADS, PACKS // 2, VECTOR)
        store_words(out, length, two, top, inverse, FIRST + PACKS // 2, DTYPE, THREADS, PACKS // 2, VECTOR)
    else:
        low, high = halves(words, DTYPE)
        result = tl.join((exponential(low - top) * inverse).to(DTYPE), (exponential(high - top) * inverse).to(DTYPE))
        line = tl.reshape(tl.permute(result, (1, 0, 2, 3)), [PACKS * THREADS * VECTOR])
        cols = tl.arange(0, PACKS * THREADS * VECTOR)
        first: tl.constexpr = FIRST * THREADS * VECTOR
        tl.store(out + first + cols, line, cols < length - first)


@triton.jit
def store_share(
    out, out_n, length, share, top, inverse, DTYPE: tl.constexpr, WIDE: tl.constexpr,
    THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Write the exponentials of a share as it was loaded, below top, times inverse."""
    if share.dtype == tl.int32:
        store_words(out, length // 8 * 8, share, top, inverse, 0, DTYPE, THREADS, PACKS, VECTOR)
    else:
        store_numbers(out, out_n, length, exponential(share.to(WIDE) - top) * inverse, THREADS, PACKS, VECTOR)


@triton.jit
def store_numbers(
    out, out_n, length, share, THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """Write the first length of a share's numbers."""
    line = tl.reshape(tl.permute(share.to(out.dtype.element_ty), (1, 0, 2)), [PACKS * THREADS * VECTOR])
    cols = tl.arange(0, PACKS * THREADS * VECTOR)
    tl.store(out + cols.to(tl.int64) * out_n, line, cols < length)


@triton.jit
def larger_bfloat16(a, b):
    return tl.inline_asm_elementwise("max.bf16x2 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, is_pure=True, pack=1)


@triton.jit
def larger_float16(a, b):
    return tl.inline_asm_elementwise("max.f16x2 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, is_pure=True, pack=1)


@triton.jit
def taken_in(
    top, total, share, never, DTYPE: tl.constexpr, WIDE: tl.constexpr, PAIRS: tl.constexpr,
    THREADS: tl.constexpr, PACKS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Each thread's running pair with a share taken in, and what is kept of it: words as they are, and of numbers
    their exponentials below the thread's maximum.

    PAIRS: the device finds the larger of two halves, and the larger of the other two, in one instruction.
    """
    if share.dtype == tl.int32:
        if PAIRS:
            if tl.bfloat16 == DTYPE:
                largest = tl.reduce(tl.reduce(share, 2, larger_bfloat16), 1, larger_bfloat16)
            else:
                largest = tl.reduce(tl.reduce(share, 2, larger_float16), 1, larger_float16)
            low, high = halves(largest, DTYPE)
            new = tl.maximum(top, tl.maximum(low, high))
        else:
            low, high = halves(share, DTYPE)
            new = tl.maximum(top, tl.max(tl.max(tl.maximum(low, high), 2), 1))
            share = not_before(share, new[:, None, None], never, True)
        terms = sum_of_words(share, new, DTYPE, THREADS, PACKS, VECTOR // 2)
    else:
        share = share.to(WIDE)
        new = tl.maximum(top, tl.max(tl.max(share, 2), 1))
        share = exponential(share - new[:, None, None])
        terms = tl.sum(tl.sum(share, 2), 1)
    return new, total * exponential(top - new) + terms, share


@triton.jit
def columns_left(inside, start, COLS: tl.constexpr):
    """How many of COLS columns from start lie inside a row, as int32."""
    return tl.maximum(tl.minimum(inside - start, COLS), 0).to(tl.int32)


@triton.jit
def awaited(words, there):
    """The 64-bit words in memory, each as soon as not all of its bits are set any more; 0 where there is none."""
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred missing, none;
            mov.b64 $0, 0;
            setp.eq.s32 none, $2, 0;
            @none bra DONE;
        AGAIN:
            ld.relaxed.gpu.global.b64 $0, [$1];
            setp.eq.s64 missing, $0, -1;
            @missing bra AGAIN;
        DONE:
        }
        """,
        "=l,l,r",
        [words, there.to(tl.int32)],
        tl.int64,
        is_pure=False,
        pack=1,
    )


@triton.jit
def awaited_four(words, there):
    """``awaited`` of four words at a time, whose looks are under way together."""
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred missing, one, two, three, four;
            mov.b64 $0, 0;
            mov.b64 $1, 0;
            mov.b64 $2, 0;
            mov.b64 $3, 0;
            setp.ne.s32 one, $8, 0;
            setp.ne.s32 two, $9, 0;
            setp.ne.s32 three, $10, 0;
            setp.ne.s32 four, $11, 0;
        AGAIN:
            @one ld.relaxed.gpu.global.b64 $0, [$4];
            @two ld.relaxed.gpu.global.b64 $1, [$5];
            @three ld.relaxed.gpu.global.b64 $2, [$6];
            @four ld.relaxed.gpu.global.b64 $3, [$7];
            setp.eq.s64 missing, $0, -1;
            setp.eq.or.s64 missing, $1, -1, missing;
            setp.eq.or.s64 missing, $2, -1, missing;
            setp.eq.or.s64 missing, $3, -1, missing;
            @missing bra AGAIN;
        }
        """,
        "=&l,=&l,=&l,=&l,l,l,l,l,r,r,r,r",
        [words, there.to(tl.int32)],
        tl.int64,
        is_pure=False,
        pack=4,
    )


@triton.jit
def as_word(top, total):
    """A pair in float32 as one word of 64 bits, which never are all set: top is no NaN."""
    low = top.to(tl.uint32, bitcast=True).to(tl.uint64)
    return (total.to(tl.uint32, bitcast=True).to(tl.uint64) << 32 | low).to(tl.int64, bitcast=True)


@triton.jit
def as_pair(word):
    """The pair in float32 that ``as_word`` made a word of."""
    return word.to(tl.int32).to(tl.float32, bitcast=True), (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)


EXCHANGE = tl.constexpr(0)
"""What a launch of split does: programs of a row run at once, exchange their pairs, and write; or only..."""
LEAVE = tl.constexpr(1)
"""...leave their pairs for another launch, or..."""
WRITE = tl.constexpr(2)
"""...read them and write."""


@triton.jit(do_not_specialize=["parts", "span", "blocks"])
def split_kernel(
    x, out, pairs, arrivals, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, blocks,
    WIDE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr,
    PACKED: tl.constexpr, PAIRS: tl.constexpr, PHASE: tl.constexpr, VECTOR: tl.constexpr,
    THREADS: tl.constexpr, HELD: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A share is blocks of BLOCK packs to a thread, which are read twice, and HELD packs, which stay in registers."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    WORDS: tl.constexpr = 2 if tl.float64 == WIDE else 1  # of 64 bits to a pair
    n = tl.cast(n, tl.int64) * MULTIPLE
    never = parts < 0
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    part = program % parts
    groups = programs // parts
    thread = tl.arange(0, THREADS)
    lanes = tl.arange(0, PARTS)  # a thread each, so that none waits for what another has seen
    there = lanes < parts
    begin = part.to(tl.int64) * span * VECTOR
    end = begin + tl.cast(span, tl.int64) * VECTOR
    kept = begin + tl.cast(blocks, tl.int64) * (BLOCK * THREADS * VECTOR)
    # Launches alternate between two sets of pairs: each clears the next one's.
    mine = tl.load(arrivals) // programs % 2 if PHASE == EXCHANGE else tl.cast(0, tl.int64)
    for i in range(program // parts, rows, groups):
        row = tl.cast(i, tl.int64)
        x_body = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_body = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        inside = n
        if EDGES:
            before, inside = whole_vectors(x_body, n, EDGES)
            edge, known = edge_columns(thread, before, inside, n, EDGES)
            known = known & (thread < 2 * EDGES) & (part == 0)
            edges = tl.load(x + x_body + edge, known, other=float("-inf"))
            out_edges = out + out_body + edge
            x_body = (x_body + EDGES - 1) // EDGES * EDGES
            out_body = (out_body + EDGES - 1) // EDGES * EDGES
        inside = tl.minimum(inside, end)
        length = columns_left(inside, kept, HELD * THREADS * VECTOR)
        words = pairs + (mine * rows + row) * (WORDS * parts)
        if PHASE == WRITE or not BLOCK:
            held = load_share(x, x_body + kept * x_n, x_n, length, THREADS, HELD, VECTOR, PACKED)
        if PHASE != WRITE:
            top = tl.full([THREADS], LOWEST, WIDE)  # finite: see online_kernel
            total = tl.zeros_like(top)
            if BLOCK:
                for k in range(blocks):
                    start = begin + tl.cast(k, tl.int64) * (BLOCK * THREADS * VECTOR)
                    left = columns_left(inside, start, BLOCK * THREADS * VECTOR)
                    block = load_share(x, x_body + start * x_n, x_n, left, THREADS, BLOCK, VECTOR, PACKED)
                    top, total, block = taken_in(top, total, block, never, DTYPE, WIDE, PAIRS, THREADS, BLOCK, VECTOR)
                held = load_share(x, x_body + kept * x_n, x_n, length, THREADS, HELD, VECTOR, PACKED)
            top, total, held = taken_in(top, total, held, never, DTYPE, WIDE, PAIRS, THREADS, HELD, VECTOR)
            all_top, all_total = top, total
            if EDGES:
                all_top = tl.maximum(top, edges.to(WIDE))
                all_total = total * exponential(top - all_top) + exponential(edges.to(WIDE) - all_top)
            part_top = tl.max(all_top, 0)
            part_total = tl.sum(all_total * exponential(all_top - part_top), 0)
            # All bits set is what no number is, nor any NaN from here: a pair that isn't there yet.
            if WORDS == 2:
                one = part_top.to(tl.int64, bitcast=True)
                two = tl.where(part_total == part_total, part_total, float("nan")).to(tl.int64, bitcast=True)
            else:
                one = as_word(part_top, part_total)
            if PHASE == EXCHANGE:
                other = words + (1 - 2 * mine) * rows * (WORDS * parts) + part
                tl.atomic_xchg(words + part, one, sem="relaxed")
                tl.store(other, tl.full([], -1, tl.int64))
                if WORDS == 2:
                    tl.atomic_xchg(words + parts + part, two, sem="relaxed")
                    tl.store(other + parts, tl.full([], -1, tl.int64))
            else:
                tl.store(words + part, one)
                if WORDS == 2:
                    tl.store(words + parts + part, two)
        if PHASE != LEAVE:
            found = awaited(words + lanes, there) if PHASE == EXCHANGE else tl.load(words + lanes, there, other=0)
            if WORDS == 2:
                tops = found.to(tl.float64, bitcast=True)
                if PHASE == EXCHANGE:
                    totals = awaited(words + parts + lanes, there).to(tl.float64, bitcast=True)
                else:
                    totals = tl.load(words + parts + lanes, there, other=0).to(tl.float64, bitcast=True)
            else:
                tops, totals = as_pair(found)
            # Every program merges all pairs of its rows in the same order, so that all agree to the bit.
            tops = tl.where(there, tops, LOWEST)
            row_top = tl.max(tops, 0)
            inverse = 1.0 / tl.sum(tl.where(there, totals * exponential(tops - row_top), 0.0), 0)
            here = out + out_body + kept * out_n
            if PACKED:
                held = not_before(held, inverse, never, True)
            if PACKED or PHASE == WRITE:
                store_share(here, out_n, length, held, row_top, inverse, DTYPE, WIDE, THREADS, HELD, VECTOR)
            else:
                factor = exponential(top - row_top) * inverse
                store_numbers(here, out_n, length, held * factor[:, None, None], THREADS, HELD, VECTOR)
            if EDGES:
                tl.store(out_edges, (exponential(edges.to(WIDE) - row_top) * inverse).to(DTYPE), known)
            if BLOCK:
                for k in range(blocks):
                    # Backwards: what was read last is likeliest to be in L2 still.
                    start = begin + tl.cast(blocks - 1 - k, tl.int64) * (BLOCK * THREADS * VECTOR)
                    left = columns_left(inside, start, BLOCK * THREADS * VECTOR)
                    block = load_share(x, x_body + start * x_n, x_n, left, THREADS, BLOCK, VECTOR, PACKED)
                    out_block = out + out_body + start * out_n
                    store_share(out_block, out_n, left, block, row_top, inverse, DTYPE, WIDE, THREADS, BLOCK, VECTOR)
    if PHASE == EXCHANGE:
        tl.atomic_add(arrivals, 1, sem="relaxed")


@triton.jit
def found_pairs(words, there, parts, PHASE: tl.constexpr, FOUR: tl.constexpr):
    """(maxima, sums) in the words in memory, each as soon as it is there."""
    if PHASE == EXCHANGE:
        found = tl.full(words.shape, 0, tl.int64)
        # Once. The compiler would wait anew in each layout that it wants the words in, but for a loop: that it leaves.
        again = parts > 0
        while again:
            found = awaited_four(words, there) if FOUR else awaited(words, there)
            again = parts < 0
    else:
        found = tl.load(words, there, other=0)
    return as_pair(found)


@triton.jit
def side_by_side(low, high, COLUMNS: tl.constexpr):
    """What belongs to the lower and to the upper halves of words, as that of their columns."""
    return tl.reshape(tl.join(low, high), [low.shape[0], COLUMNS])


@triton.jit
def of_halves(columns, COLUMNS: tl.constexpr):
    """``side_by_side``, undone."""
    return tl.split(tl.reshape(columns, [columns.shape[0], COLUMNS // 2, 2]))


@triton.jit(do_not_specialize=["parts", "span"])
def columns_kernel(
    x, out, pairs, arrivals, outer, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span,
    WIDE: tl.constexpr, LOWEST: tl.constexpr, PACKED: tl.constexpr, PAIRS: tl.constexpr, PHASE: tl.constexpr,
    FAR: tl.constexpr, EVEN: tl.constexpr, FOUR: tl.constexpr,
    ELEMENTS: tl.constexpr, COLUMNS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Columns side by side, in strips of COLUMNS: a program holds span elements of each, and writes what it read.

    PACKED: two columns of half precision to a word.
    """
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    inner = tl.cast(inner, tl.int64) * MULTIPLE
    strips = (inner + COLUMNS - 1) // COLUMNS
    tiles = outer * strips
    program = tl.program_id(0)
    part = program % parts
    groups = tl.num_programs(0) // parts
    lane = tl.arange(0, COLUMNS)[None, :]
    depth = tl.arange(0, ELEMENTS)[:, None]
    begin = part.to(tl.int64) * span
    length = tl.maximum(tl.minimum(n - begin, span), 0).to(tl.int32)
    peer = tl.arange(0, PARTS)[:, None]
    # Launches alternate between two sets of pairs: each clears the next one's.
    mine = tl.load(arrivals) // tl.num_programs(0) % 2 if PHASE == EXCHANGE else tl.cast(0, tl.int64)
    for i in range((program // parts).to(tl.int64), tiles, groups):
        tile = tl.cast(i, tl.int64)
        # 0, but not for all that the compiler knows: it would keep in registers what is the same for all tiles.
        nothing = tile >> 62
        nothing = nothing if FAR else nothing.to(tl.int32)
        first = tile % strips * COLUMNS
        there = first + lane < inner
        x_step = (x_n + nothing) * MULTIPLE
        x_start = x + tile // strips * x_outer * MULTIPLE + begin * x_step
        in_rows = depth < length + nothing
        if PACKED:
            word = tl.arange(0, COLUMNS // 2)[None, :]
            x_start = (x_start + first).to(tl.pointer_type(tl.int32), bitcast=True) + word
            here = x_start + depth * ((x_n + nothing) * (MULTIPLE // 2))
            held = tl.load(here) if EVEN else tl.load(here, in_rows & (first + 2 * word < inner), empty_words(DTYPE))
        else:
            here = x_start + (first + lane) * x_inner + depth * x_step
            held = tl.load(here) if EVEN else tl.load(here, in_rows & there, float("-inf"))
            held = held.to(WIDE)
        if PHASE != WRITE or PARTS == 1:
            # Maxima are finite: see online_kernel.
            if PACKED:
                if PAIRS:
                    if tl.bfloat16 == DTYPE:
                        largest = tl.reduce(held, 0, larger_bfloat16, keep_dims=True)
                    else:
                        largest = tl.reduce(held, 0, larger_float16, keep_dims=True)
                    low_top, high_top = halves(largest, DTYPE)
                else:
                    low, high = halves(held, DTYPE)
                    low_top, high_top = tl.max(low, 0, keep_dims=True), tl.max(high, 0, keep_dims=True)
                low_top, high_top = tl.maximum(low_top, LOWEST), tl.maximum(high_top, LOWEST)
                low, high = halves(held, DTYPE)
                low_total = tl.sum(exponential(low - low_top), 0, keep_dims=True)
                high_total = tl.sum(exponential(high - high_top), 0, keep_dims=True)
                top = side_by_side(low_top, high_top, COLUMNS)
                total = side_by_side(low_total, high_total, COLUMNS)
            else:
                top = tl.maximum(tl.max(held, 0, keep_dims=True), LOWEST)
                held = exponential(held - top)
                total = tl.sum(held, 0, keep_dims=True)
        if PARTS == 1:
            all_top = top
            inverse = 1.0 / total
            factor = inverse
        else:
            words = pairs + (mine * tiles + tile) * (COLUMNS * parts) + lane
            own = words + part * COLUMNS
            if PHASE == EXCHANGE:
                # All bits set is what no pair is: one that isn't there yet.
                tl.atomic_xchg(own, as_word(top, total), there, sem="relaxed")
                tl.store(own + (1 - 2 * mine) * tiles * (COLUMNS * parts), tl.full([1, COLUMNS], -1, tl.int64), there)
            elif PHASE == LEAVE:
                tl.store(own, as_word(top, total), there)
            if PHASE != LEAVE:
                known = (peer < parts) & there
                tops, totals = found_pairs(words + peer * COLUMNS, known, parts, PHASE, FOUR)
                # Every program merges all pairs of its columns in the same order, so that all agree to the bit.
                tops = tl.where(known, tops, LOWEST)
                all_top = tl.max(tops, 0, keep_dims=True)
                terms = tl.where(known, totals * exponential(tops - all_top), 0.0)
                inverse = 1.0 / tl.sum(terms, 0, keep_dims=True)
                if not PACKED:
                    if PHASE == WRITE:
                        held = exponential(held - all_top)
                        factor = inverse
                    else:
                        factor = exponential(top - all_top) * inverse
        if PHASE != LEAVE:
            if PACKED:
                low_top, high_top = of_halves(all_top, COLUMNS)
                low_inverse, high_inverse = of_halves(inverse, COLUMNS)
                low, high = halves(not_before(held, low_inverse, parts < 0, True), DTYPE)
                low = (exponential(low - low_top) * low_inverse).to(DTYPE)
                result = side_by_side(low, (exponential(high - high_top) * high_inverse).to(DTYPE), COLUMNS)
            else:
                result = (held * factor).to(DTYPE)
                if MULTIPLE == 1:  # no factor is negative, but the compiler would keep what it knows of each element
                    in_rows = depth < length + (factor < 0).to(tl.int32)
            out_step = (out_n + nothing) * MULTIPLE
            out_start = out + tile // strips * out_outer * MULTIPLE + begin * out_step
            here = out_start + (first + lane) * out_inner + depth * out_step
            if EVEN:
                tl.store(here, result)
            else:
                tl.store(here, result, in_rows & there)
    if PHASE == EXCHANGE:
        tl.atomic_add(arrivals, 1, sem="relaxed")


@triton.jit
def lanes_with(top, total, block):
    """The running pair of each lane with one more element taken in."""
    rise = block - top
    scale = exponential(-tl.abs(rise))  # see online_kernel
    return tl.maximum(top, block), tl.where(rise > 0, total * scale + 1, total + scale)


@triton.jit(do_not_specialize=["parts", "blocks"])
def flat_columns_kernel(
    x, out, pairs, length, inner, period, parts, blocks, VECTOR: tl.constexpr,
    WIDE: tl.constexpr, LOWEST: tl.constexpr, PHASE: tl.constexpr,
    BLOCK: tl.constexpr, FOLDS: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """A launch that leaves pairs, or one that reads them and writes: few columns without gaps, as one piece of memory.

    A block of it is whole vectors and whole rows of the columns, so that a lane always meets the same column.
    """
    await_last_launch()
    part = tl.program_id(0)
    here = tl.arange(0, BLOCK)
    column = tl.arange(0, COLUMNS)
    period = period * VECTOR
    rest = tl.cast(blocks, tl.int64) * period  # where the last block begins, which isn't whole: the last program's
    left = tl.where(part == parts - 1, length - rest, 0).to(tl.int32)
    if PHASE == LEAVE:
        top = tl.full([BLOCK], LOWEST, WIDE)  # finite: see online_kernel
        total = tl.zeros_like(top)
        for i in tl.range(part, blocks, parts, num_stages=AHEAD):
            block = tl.load(x + tl.cast(i, tl.int64) * period + here, here < period, other=float("-inf"))
            top, total = lanes_with(top, total, block.to(WIDE))
        top, total = lanes_with(top, total, tl.load(x + rest + here, here < left, other=float("-inf")).to(WIDE))
        at = tl.arange(0, FOLDS * COLUMNS)
        lane = at // COLUMNS * inner + at % COLUMNS
        known = (lane < period) & (at % COLUMNS < inner)
        lane = tl.minimum(lane, BLOCK - 1)
        tops = tl.reshape(tl.where(known, tl.gather(top, lane, 0), LOWEST), [FOLDS, COLUMNS])
        totals = tl.reshape(tl.where(known, tl.gather(total, lane, 0), 0.0), [FOLDS, COLUMNS])
        column_top = tl.max(tops, 0)
        column_total = tl.sum(totals * exponential(tops - column_top[None, :]), 0)
        place = pairs + part * (2 * COLUMNS) + column
        tl.store(place, column_top)
        tl.store(place + COLUMNS, column_total)
    else:
        tops = tl.full([CHUNK, COLUMNS], LOWEST, WIDE)
        totals = tl.zeros_like(tops)
        for first in range(0, parts, CHUNK):
            peer = first + tl.arange(0, CHUNK)[:, None]
            place = pairs + peer * (2 * COLUMNS) + column[None, :]
            new_tops = tl.load(place, peer < parts, other=LOWEST)
            new_totals = tl.load(place + COLUMNS, peer < parts, other=0.0)
            both = tl.maximum(tops, new_tops)
            totals = totals * exponential(tops - both) + new_totals * exponential(new_tops - both)
            tops = both
        # Every program merges all pairs in the same order, so that all agree to the bit.
        column_top = tl.max(tops, 0)
        inverse = 1.0 / tl.sum(totals * exponential(tops - column_top[None, :]), 0)
        top = tl.gather(column_top, here % inner, 0)
        factor = tl.gather(inverse, here % inner, 0)
        last = tl.load(x + rest + here, here < left, other=float("-inf")).to(WIDE)
        tl.store(out + rest + here, (exponential(last - top) * factor).to(out.dtype.element_ty), here < left)
        for i in tl.range(part, blocks, parts, num_stages=AHEAD):
            # Backwards: what was read last is likeliest to be in L2 still.
            start = tl.cast(blocks - 1 - i, tl.int64) * period
            block = tl.load(x + start + here, here < period, other=float("-inf"))
            result = (exponential(block.to(WIDE) - top) * factor).to(out.dtype.element_ty)
            tl.store(out + start + here, result, here < period)


@triton.jit
def load_tile(x, start, x_n, length, COLS: tl.constexpr):
    """The first length of COLS columns of rows from start."""
    cols = tl.arange(0, COLS)[None, :]
    return tl.load(x + start + cols.to(tl.int64) * x_n, cols < length, other=float("-inf"))


@triton.jit
def tile_left(in_rows, inside, start, COLS: tl.constexpr):
    """How many of COLS columns from start lie inside rows, as int32."""
    return tl.where(in_rows, tl.minimum(inside - start, COLS), 0).to(tl.int32)


@triton.jit
def store_tile(out, start, out_n, length, tile, top, inverse, WIDE: tl.constexpr, COLS: tl.constexpr):
    """Write a tile's exponentials below top, times inverse, to the first length of COLS columns of rows from start."""
    cols = tl.arange(0, COLS)[None, :]
    result = (exponential(tile.to(WIDE) - top) * inverse).to(out.dtype.element_ty)
    tl.store(out + start + cols.to(tl.int64) * out_n, result, cols < length)


@triton.jit(do_not_specialize=["parts", "span", "blocks"])
def split_across_kernel(
    x, out, pairs, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, parts, span, blocks, WIDE: tl.constexpr, LOWEST: tl.constexpr, PHASE: tl.constexpr,
    MORE: tl.constexpr, VECTOR: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A launch that leaves pairs, or one that reads them and writes: rows side by side, in tiles of ROWS."""
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    part = program % parts
    groups = programs // parts
    lanes = tl.arange(0, PARTS)[None, :]
    begin = part.to(tl.int64) * span * VECTOR
    end = begin + tl.cast(span, tl.int64) * VECTOR
    for i in range(program // parts, (rows - 1) // ROWS + 1, groups):  # rows + ROWS may be past 2^31
        row = tl.cast(i, tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        in_rows = row < rows
        x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        inside = tl.minimum(n, end)
        length = tile_left(in_rows, inside, begin, COLS)
        held = load_tile(x, x_start + begin * x_n, x_n, length, COLS)
        tops = pairs + row * (2 * parts)
        totals = tops + parts
        there = in_rows & (lanes < parts)
        if PHASE == LEAVE:
            values = held.to(WIDE)
            top = tl.maximum(tl.max(values, 1, keep_dims=True), LOWEST)  # finite: see online_kernel
            total = tl.sum(exponential(values - top), 1, keep_dims=True)
            for k in range(1, blocks if MORE else 1):
                start = begin + k * COLS
                left = tile_left(in_rows, inside, start, COLS)
                values = load_tile(x, x_start + start * x_n, x_n, left, COLS).to(WIDE)
                new_top = tl.maximum(top, tl.max(values, 1, keep_dims=True))
                terms = tl.sum(exponential(values - new_top), 1, keep_dims=True)
                total = total * exponential(top - new_top) + terms
                top = new_top
            tl.store(tops + part, top, in_rows)
            tl.store(totals + part, total, in_rows)
        else:
            row_tops = tl.load(tops + lanes, there, other=LOWEST, volatile=True)
            row_totals = tl.load(totals + lanes, there, other=0.0, volatile=True)
            row_top = tl.max(row_tops, 1, keep_dims=True)
            inverse = 1.0 / tl.sum(row_totals * exponential(row_tops - row_top), 1, keep_dims=True)
            store_tile(out, out_start + begin * out_n, out_n, length, held, row_top, inverse, WIDE, COLS)
            for k in range(1, blocks if MORE else 1):
                # Backwards: what was read last is likeliest to be in L2 still.
                start = begin + (blocks - k) * COLS
                left = tile_left(in_rows, inside, start, COLS)
                tile = load_tile(x, x_start + start * x_n, x_n, left, COLS)
                store_tile(out, out_start + start * out_n, out_n, left, tile, row_top, inverse, WIDE, COLS)


# ---------------------------------------------------------------------------------------------------------------------
# Variants
# ---------------------------------------------------------------------------------------------------------------------


@register("triton", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Tiles of short rows, a program per row that fits on chip, and several programs to each row that is longer.

    Longer rows of float64 are for online if they are many, since its exponentials take longer than memory does. Across
    rows, tiles of short columns, and for longer ones online if many, split if few.
    """
    rows = rows_of(x, out)
    device = current_device()
    knobs, multiprocessors = of(Knobs, device.index), device.multiprocessors
    if row_tile(knobs, rows, x.dtype, edges_of(rows, x, out)) is not None:
        return multi_row(x, out)
    if rows.across:
        columns = columns_of_rows(rows, x.dtype)
        strips = strips_of(columns, x, device)
        if strips is not None or flat_period(columns, x.dtype, device) is not None:
            return (multi_row if strips is not None and strips.elements >= rows.n else split)(x, out)
        side, _ = column_tile(rows, x.dtype, knobs.online_bytes)
        many = rows.total >= knobs.online_percent / 100 * multiprocessors * side
        return (online if many else split)(x, out)
    if rows.n > ON_CHIP_BYTES // wide_dtype(x.dtype).itemsize:
        many = x.dtype == torch.float64 and rows.total >= ONLINE_ROWS * multiprocessors
        return (online if many else split)(x, out)
    ahead = x.element_size() == 2 and rows.n > knobs.packed_limit and rows.total >= knobs.ahead_rows * multiprocessors
    return (persistent if ahead else fused)(x, out)


@register("triton", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, which it holds on chip: one read, one write.

    After Triton's tutorial (python/tutorials/02-fused-softmax.py) in its first form.
    """
    rows = rows_of(x, out)
    edges = edges_of(rows, x, out)
    columns = row_columns(rows.n, x.dtype, "triton/softmax/fused", edges)
    args = (x, out, *rows.layout, wide_type(x.dtype), edges, columns)
    device = current_device()
    knobs = of(Knobs, device.index)
    many = rows.total > knobs.packed_rows * device.multiprocessors
    packed = many and knobs.packed_row < rows.n <= knobs.packed_limit and rows.packed(x, out)
    warps, options = fused_warps(knobs, device, x.dtype, rows.n, edges, packed)
    kernel = fused_packed_kernel if packed else fused_kernel
    return bound("triton/softmax/fused", x, kernel, rows.total, args, warps, **options)


@register("triton", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several consecutive rows to a program: a tile of them where rows are short, a guarded loop where they are not.

    Where memory is contiguous across rows (a reduction over dim 0), the tile also makes the loads contiguous.
    """
    rows = rows_of(x, out)
    device = current_device()
    knobs = of(Knobs, device.index)
    edges = edges_of(rows, x, out)
    tile = row_tile(knobs, rows, x.dtype, edges)
    if rows.across:
        columns_across = columns_of_rows(rows, x.dtype)
        strips = strips_of(columns_across, x, device)
        if strips is not None and strips.elements >= rows.n:
            return _strips(columns_across, x, out, strips)
    if tile is not None:
        side, columns = tile
        if edge_vectors(columns, x.dtype, edges):
            lanes = max(8, columns // (8 if x.element_size() == 4 else 16))
            sizes = (rows.safe, wide_type(x.dtype), edges, side, columns // (lanes * edges), lanes)
            args = (x, out, *rows.layout, *sizes)
            return bound("triton/softmax/multi_row", x, ragged_tile_kernel, triton.cdiv(rows.total, side), args, 1)
        kernel, constants = row_tile_kernel, (side, columns)
        warps = tile_warps(knobs, device, x.dtype, side * columns) if rows.across else 1
    else:
        side, columns = knobs.rows_per_program, row_columns(rows.n, x.dtype, "triton/softmax/multi_row", edges)
        kernel, constants = row_loop_kernel, (columns, side)
        warps = row_warps(knobs, device, x.dtype, rows.n, edges)
    args = (x, out, *rows.layout, wide_type(x.dtype), edges, *constants)
    return bound("triton/softmax/multi_row", x, kernel, triton.cdiv(rows.total, side), args, warps)


@register("triton", "softmax", "persistent")
def persistent(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A grid that fills the device once and strides over the rows, the next rows' loads in flight.

    After Triton's tutorial (python/tutorials/02-fused-softmax.py) in its last form.
    """
    rows = rows_of(x, out)
    edges = edges_of(rows, x, out)
    columns = row_columns(rows.n, x.dtype, "triton/softmax/persistent", edges)
    device = current_device()
    knobs = of(Knobs, device.index)
    warps = tile_warps(knobs, device, x.dtype, columns)
    # Four rows under way where an SM has the shared memory for it, two otherwise. All but the one in registers lie in
    # shared memory, beside 4 kB for reductions: the longest rows are fewer.
    stages = knobs.stages or (4 if device.shared_memory > 200 * 1024 else 2)
    stages = min(stages, 1 + (device.shared_memory - 4096) // (columns * x.element_size()))
    args = (x, out, *rows.layout, wide_type(x.dtype), edges, columns, stages)
    note(persistent_kernel, rows.total, args, warps, stages)
    program = compiled(x, persistent_kernel, args, warps, stages)
    resident = 1 if program is None else occupancy(device, program.n_regs, warps, program.metadata.shared)
    programs = min(rows.total, device.multiprocessors * resident)
    return launch_of("triton/softmax/persistent", persistent_kernel, program, programs, args)


@register("triton", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over column blocks that keeps a running (max, sum) pair in each lane, then a pass that writes.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    rows = rows_of(x, out)
    edges = edges_of(rows, x, out)
    device = current_device()
    knobs = of(Knobs, device.index)
    side, block = column_tile(rows, x.dtype, knobs.online_bytes)
    args = (x, out, *rows.layout, wide_type(x.dtype), torch.finfo(wide_dtype(x.dtype)).min, edges, side, block)
    warps = tile_warps(knobs, device, x.dtype, side * block)
    if x.dtype == torch.float64 and not rows.across:
        warps *= 2  # on an H200 (1024, 128256) takes 812 us so, and 850 otherwise
    return bound("triton/softmax/online", x, online_kernel, triton.cdiv(rows.total, side), args, warps)


@register("triton", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, which they hold on chip while they exchange (max, sum) pairs: one launch.

    All programs run at once (a co-operative launch), so that they may wait for each other. Where that can't be had (on
    AMD devices and in the interpreter), or rows lie across and are too long, one launch leaves the pairs and a second
    merges them and writes.
    """
    rows = rows_of(x, out)
    if not rows.across:
        return _split_along(rows, x, out)
    columns, device = columns_of_rows(rows, x.dtype), current_device()
    strips = strips_of(columns, x, device)
    period = flat_period(columns, x.dtype, device)
    if period is not None and (strips is None or columns.multiple * x.element_size() < 16):
        return _flat(columns, x, out, period)
    if strips is not None and strips.elements < rows.n:
        return _strips(columns, x, out, strips)
    return _split_across(rows, x, out)


def _split_along(rows: Rows, x: torch.Tensor, out: torch.Tensor) -> Launch:
    device = current_device()
    knobs = of(Knobs, device.index)
    edges = edges_of(rows, x, out)
    itemsize, vector = x.element_size(), 16 // x.element_size()
    inside = rows.n // edges * edges if edges else rows.n
    packed = rows.packed(x, out) and rows.total * inside > knobs.wide_elements * device.multiprocessors
    tilings = split_tilings(x.dtype, packed, device)
    tiling, parts = split_parts(knobs, rows.total, inside, itemsize, tilings, device.multiprocessors)
    span = triton.cdiv(inside, parts * vector) * vector
    parts = triton.cdiv(inside, span)
    groups = min(rows.total, tiling.programs * device.multiprocessors // parts)
    beyond = max(0, span - tiling.held * tiling.threads * vector)
    blocks = triton.cdiv(beyond, tiling.block * tiling.threads * vector)
    wide = wide_dtype(x.dtype)
    pairs = x.new_full((2, rows.total, wide.itemsize // 4, parts), -1, dtype=torch.int64)
    arrivals = x.new_zeros(1, dtype=torch.int64)
    waits = device.vendor == "cuda"
    pairwise = packed and waits and int(device.arch) >= 80
    place = (x, out, pairs, arrivals, *rows.layout, parts, span // vector, blocks)
    kinds = (wide_type(x.dtype), torch.finfo(wide).min, edges, packed, pairwise)
    sizes = (vector, tiling.threads, tiling.held, tiling.block if blocks else 0, tiling.threads)
    programs, warps = groups * parts, device.warps(tiling.threads)
    if waits:
        options = {"maxnreg": tiling.registers, "launch_cooperative_grid": True}
        args = (*place, *kinds, EXCHANGE, *sizes)
        return bound("triton/softmax/split", x, split_kernel, programs, args, warps, **options)
    leave = bound("triton/softmax/split", x, split_kernel, programs, (*place, *kinds, LEAVE, *sizes), warps)
    write = bound("triton/softmax/split", x, split_kernel, programs, (*place, *kinds, WRITE, *sizes), warps)

    def launch() -> None:
        leave()
        write()

    return launch


def _strips(columns: Columns, x: torch.Tensor, out: torch.Tensor, strips: Strips) -> Launch:
    """Strips of columns: whole ones, a program each, or parts, of which as many strips are taken at once as fit."""
    device = current_device()
    wide = wide_dtype(x.dtype)
    waits = device.vendor == "cuda"
    tiles = columns.strips(strips.columns)
    parts = strip_parts(columns, strips, device)
    span = triton.cdiv(columns.n, parts)
    lanes = triton.next_power_of_2(parts)
    pairs: torch.Tensor | int = 0  # whole columns leave none, and a launch of x and out alone can be moved to others
    arrivals: torch.Tensor | int = 0
    if parts > 1:
        pairs = x.new_full((2, tiles, parts, strips.columns), -1, dtype=torch.int64)
        arrivals = x.new_zeros(1, dtype=torch.int64)
    far = strips.elements * max(columns.x_n, columns.out_n) >= 2**31
    even = columns.n == strips.elements * parts and columns.inner % strips.columns == 0
    pairwise = strips.packed and waits and int(device.arch) >= 80
    place = (x, out, pairs, arrivals, *columns.layout, parts, span)
    kinds = (wide_type(x.dtype), torch.finfo(wide).min, strips.packed, pairwise)
    sizes = (far, even, lanes * strips.columns >= 4 * strips.threads, strips.elements, strips.columns, lanes)
    warps = device.warps(strips.threads)
    options: dict[str, Any] = {"maxnreg": strips.registers} if waits and strips.registers else {}
    if parts == 1:
        args = (*place, *kinds, WRITE, *sizes)
        return bound("triton/softmax/multi_row", x, columns_kernel, tiles, args, warps, **options)
    programs = min(tiles, strips.programs * device.multiprocessors // parts) * parts
    if waits:
        args = (*place, *kinds, EXCHANGE, *sizes)
        options["launch_cooperative_grid"] = True
        return bound("triton/softmax/split", x, columns_kernel, programs, args, warps, **options)
    leave = bound("triton/softmax/split", x, columns_kernel, programs, (*place, *kinds, LEAVE, *sizes), warps)
    write = bound("triton/softmax/split", x, columns_kernel, programs, (*place, *kinds, WRITE, *sizes), warps)

    def launch() -> None:
        leave()
        write()

    return launch


def _flat(columns: Columns, x: torch.Tensor, out: torch.Tensor, period: int) -> Launch:
    """Few columns without gaps, by blocks of their memory: a launch that leaves pairs, and one that merges them."""
    device = current_device()
    wide, vector = wide_dtype(x.dtype), 16 // x.element_size()
    width = triton.next_power_of_2(columns.inner)
    block = triton.next_power_of_2(period)
    blocks = columns.n * columns.inner // period
    parts = min(max(1, blocks // 4), FLAT_PROGRAMS * device.multiprocessors)
    pairs = x.new_empty((parts, 2, width), dtype=wide)
    place = (x, out, pairs, columns.n * columns.inner, columns.inner, period // vector, parts, blocks, vector)
    kinds = (wide_type(x.dtype), torch.finfo(wide).min)
    sizes = (block, triton.next_power_of_2(period // columns.inner), width, max(1, block // width))
    # Blocks read ahead into shared memory help the launch that only reads, and both if they are of half precision.
    halves = x.element_size() == 2
    warps = device.warps(FLAT_THREADS)
    args = (*place, *kinds, LEAVE, *sizes, 4 if halves else 3)
    leave = bound("triton/softmax/split", x, flat_columns_kernel, parts, args, warps)
    args = (*place, *kinds, WRITE, *sizes, 4 if halves else 1)
    write = bound("triton/softmax/split", x, flat_columns_kernel, parts, args, warps)

    def launch() -> None:
        leave()
        write()

    return launch


def _split_across(rows: Rows, x: torch.Tensor, out: torch.Tensor) -> Launch:
    device = current_device()
    knobs = of(Knobs, device.index)
    wide = wide_dtype(x.dtype)
    vector = 16 // x.element_size()
    side = LINE_BYTES // x.element_size()
    tiles = triton.cdiv(rows.total, side)
    columns = ACROSS_ELEMENTS * 4 // wide.itemsize // side
    resident = ACROSS_PROGRAMS * device.multiprocessors
    parts = across_parts(knobs, tiles, rows.n, x.element_size() * side, columns, resident)
    span = triton.cdiv(rows.n, parts * vector) * vector
    parts = triton.cdiv(rows.n, span)
    groups = min(tiles, resident // parts)
    pairs = x.new_empty((rows.total, 2, parts), dtype=wide)
    blocks = triton.cdiv(span, columns)
    place = (x, out, pairs, *rows.layout, parts, span // vector, blocks)
    kinds = (wide_type(x.dtype), torch.finfo(wide).min)
    sizes = (blocks > 1, vector, side, columns, triton.next_power_of_2(parts))
    programs, warps = groups * parts, device.warps(ACROSS_THREADS)
    leave = bound("triton/softmax/split", x, split_across_kernel, programs, (*place, *kinds, LEAVE, *sizes), warps)
    write = bound("triton/softmax/split", x, split_across_kernel, programs, (*place, *kinds, WRITE, *sizes), warps)

    def launch() -> None:
        leave()
        write()

    return launch
