"""Softmax in CUDA C++: the launch tables of softmax.cu.

Each function turns a problem into a plan. Sizes are in *packs*, 16 bytes of a contiguous row (one element of a strided
one), since that is what a thread loads at a time.
"""

import ctypes
import math

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.module import PACK_BYTES, Argument, Device, Plan, Problem, Step, bind
from kernelzoo.registry import Launch, register
from kernelzoo.tables import knob, launch_table

WARP = 32

# A thread holds 8 packs at most: 32 registers of elements and as many for the rest, which 1024 threads an SM can have.
FUSED_ITEMS = (1, 2, 4, 8)

# Elements of a row that a tile takes: 40 to a thread, at most eight threads.
TILE_ELEMENTS = 264

# Blocks of 512 threads, of which an SM runs two with 64 registers a thread: one computes while the other loads.
CLUSTER_THREADS = 512
CLUSTERS = (2, 4, 8, 16)
LARGE_CLUSTERS = (9, 10)  # compute capabilities, major, that have them of 16 blocks, with leave: 12 has 8

# Threads of an SM with 64 registers each.
SM_THREADS = 1024

# Of a block of columns in a cluster at most: where an SM would have one of larger ones, reading twice is as fast.
CLUSTER_BYTES = 114 * 1024

# Of the shortest column of an odd width that a block, or a cluster, takes through shared memory.
RAGGED_ELEMENTS = 96

# Of the longest column at an even width that isn't taken as a part of one piece of memory.
FLAT_ELEMENTS = 8192

# Shared memory that a block takes beside what it asks for: the system's, and a barrier.
BLOCK_BYTES = 1024 + 16

# The ring: threads that compute, and packs of a tile, two of each thread. 13 tiles of 16 kB are all of shared memory.
RING_LANES = 512
RING_TILE = 2 * RING_LANES

# The pipeline's shared memory: its tiles, and what the pairs of columns take beside them.
PIPELINE_BYTES, PIPELINE_PAIR_BYTES = 192 * 1024, 35 * 1024
PIPELINE_PARTS = 24  # of a column, whose pairs a lane receives twelve at a time


@launch_table("cupy", "softmax")
class Knobs:
    """What depends on the card. Shipped values are an H200's."""

    warp_packs: int = knob(
        7 * WARP, among=(128, 192, 224, 256), unit="packs", why="of the longest row that one warp takes"
    )
    resident_percent: int = knob(
        150,
        among=(100, 150, 300),
        unit="% of the rows that run at once",
        why="up to which a thread of fused has four packs, not eight",
    )
    half_threads: int = knob(
        256, among=(128, 256, 512), unit="threads", why="to a row of half precision by fours, below which it stays so"
    )
    # The 256 threads of which an SM runs several: a cluster of such blocks is faster than a larger one.
    fused_packs: int = knob(
        256 * FUSED_ITEMS[-1], among=(1024, 2048, 4096, 8192), unit="packs", why="of the longest row that has one block"
    )
    alone_packs: int = knob(
        2048,
        among=(512, 1024, 2048),
        unit="packs",
        why="of the longest row that has one block where rows are too few for all SMs",
    )
    fused_percent: int = knob(
        100, among=(50, 100, 200), unit="% of the SMs", why="with a row each, from which rows aren't too few"
    )
    cluster_threads: int = knob(
        288,
        among=(160, 224, 288, 384, 512),
        unit="threads",
        why="of a cluster's blocks, above which there are twice as many: smaller ones, of which an SM has several",
    )
    cluster_blocks: int = knob(
        3,
        among=(1, 2, 3, 4),
        unit="blocks",
        why="that clusters give each SM, up to which a thread has four packs of half precision, not eight",
    )
    # Half of what the L2 cache keeps: what is read again is still there, and groups of blocks that read and write in
    # turns keep the memory busier than one that does each at a time.
    ring_megabytes: int = knob(
        42, among=(21, 42, 63, 84), unit="MB", why="of rows that a ring's blocks have in hand at a time"
    )
    columns_blocks: int = knob(
        2, among=(1, 2, 4), unit="blocks", why="of long columns to each SM, below which several share a column"
    )
    columns_long: int = knob(
        1024, among=(512, 1024, 2048), unit="elements", why="of a column, above which that pays off"
    )
    columns_short: int = knob(
        64, among=(64, 128, 256, 512), unit="elements", why="of the longest column that no cluster takes"
    )
    column_blocks: int = knob(
        3, among=(2, 3, 4), unit="blocks", why="of a cluster of columns whose elements an SM's shared memory holds"
    )
    ragged_blocks: int = knob(4, among=(2, 3, 4, 6), unit="blocks", why="of such a cluster at odd widths, likewise")


@register("cupy", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The fastest of the others for the problem: by row length first, then by the number of rows."""
    return bind("softmax", _auto, Knobs, x, out)


@register("cupy", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One block per row, which stays in registers: one read and one write of the matrix."""
    return bind("softmax", _fused, Knobs, x, out)


@register("cupy", "softmax", "persistent")
def persistent(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A grid as large as the device runs at once; each block loops over rows and loads the next one ahead."""
    return bind("softmax", _persistent, Knobs, x, out)


@register("cupy", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Many short rows per block: a warp, a part of a warp, or one thread takes a row."""
    return bind("softmax", _multi_row, Knobs, x, out)


@register("cupy", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A running (max, sum) pair over a row of any length, then a second pass that writes.

    After M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018.
    """
    return bind("softmax", _online, Knobs, x, out)


@register("cupy", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row and merge their (max, sum) pairs: a cluster, or the whole grid for longer rows.

    The cluster form follows Quack (github.com/Dao-AILab/quack): the row in the registers of a thread-block cluster,
    pairs exchanged through distributed shared memory.
    """
    return bind("softmax", _split, Knobs, x, out)


def _auto(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        if _is_flat(columns):
            return _split(problem, device, knobs)
        split = _columns_pipeline(columns, device, knobs) or _columns_ragged(columns, device, knobs)
        if split or (columns.n > knobs.columns_short and _columns_cluster(columns, device, knobs) is not None):
            return _split(problem, device, knobs)
        # Held in registers if it fits; split where the tiles alone don't give each SM two blocks.
        few = _column_tiles(columns, _column_threads(columns)) < knobs.columns_blocks * device.sms
        if few and problem.n > knobs.columns_long:
            return _split(problem, device, knobs)
        held = problem.n <= _column_capacity(columns)
        return _multi_row(problem, device, knobs) if held else _online(problem, device, knobs)
    packs = _packs(problem)
    if _in_tiles(problem) or packs <= knobs.warp_packs:
        return _multi_row(problem, device, knobs)
    if problem.width == 1:
        return _fused(problem, device, knobs) if packs <= 1024 * FUSED_ITEMS[-1] else _online(problem, device, knobs)
    # A block of its own per row, up to the threads of which an SM runs several, unless so few rows leave SMs idle.
    many = 100 * problem.rows >= knobs.fused_percent * device.sms
    clusters = device.capability >= 90 and problem.itemsize < 8  # of double, two such blocks fill an SM as one does
    longest = knobs.fused_packs if clusters else max(knobs.fused_packs, 512 * FUSED_ITEMS[-1])
    if packs <= longest and (many or packs <= knobs.alone_packs):
        return _fused(problem, device, knobs)
    return _split(problem, device, knobs)


def _fused(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    packs = _packs(problem)
    if packs > 1024 * FUSED_ITEMS[-1]:
        raise UnsupportedProblemError(
            "cupy/softmax/fused",
            f"a row of {problem.n} elements doesn't fit in the registers of one block, which hold "
            f"{1024 * FUSED_ITEMS[-1] * problem.width}",
        )
    items = _fused_items(problem, device, knobs)
    kernel = f"fused<{problem.c_type}, {problem.width}, {items}>"
    return Plan(problem, (Step(kernel, problem.rows, _threads(packs, items)),))


def _fused_items(problem: Problem, device: Device, knobs: Knobs) -> int:
    """Packs a thread: 8, or 4 where rows are hardly more than run at once, or are short ones of half precision.

    On an H200 in us, with 8 and with 4: float32 (8192, 8192) 126.7 and 131.3, (1000, 4096) 9.5 and 10.1, bfloat16
    (2048, 16384) 35.1 and 36.6; but bfloat16 (4096, 4096) 18.8 and 18.2, (264, 12288) 6.8 and 5.7.
    """
    packs = _packs(problem)
    if packs <= 240:  # two warps at least
        return 1 if packs <= 128 else 2
    threads = _threads(packs, 4)
    if threads > SM_THREADS // 2:
        return 8
    few = 100 * problem.rows <= knobs.resident_percent * (SM_THREADS // threads) * device.sms
    return 4 if few or (problem.itemsize == 2 and threads < knobs.half_threads) else 8


def _persistent(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    packs = _packs(problem)
    if packs > 512 * FUSED_ITEMS[-1]:  # two rows in registers: 128 a thread, so 512 threads
        raise UnsupportedProblemError(
            "cupy/softmax/persistent",
            f"two rows of {problem.n} elements don't fit in the registers of one block, which hold two of "
            f"{512 * FUSED_ITEMS[-1] * problem.width}",
        )
    # 4 packs a thread keep enough loads in flight; fewer only where a block would have less than four warps.
    items = 1 if packs <= 128 else 2 if packs <= 256 else 4 if packs <= 512 * 4 else 8
    kernel = f"persistent<{problem.c_type}, {problem.width}, {items}>"
    return Plan(problem, (Step(kernel, problem.rows, _threads(packs, items), resident=True),))


def _multi_row(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        if problem.n > _column_capacity(columns):
            raise UnsupportedProblemError(
                "cupy/softmax/multi_row",
                f"a column of {problem.n} elements doesn't fit in a block's registers: {_column_capacity(columns)} do",
            )
        return _columns(columns)
    n, width, c_type = problem.n, problem.width, problem.c_type
    if _in_tiles(problem):
        return _tile(problem)
    packs = _packs(problem)
    if packs > WARP * FUSED_ITEMS[-1]:
        raise UnsupportedProblemError(
            "cupy/softmax/multi_row",
            f"a row of {n} elements doesn't fit in one warp's registers, which hold {WARP * FUSED_ITEMS[-1] * width}",
        )
    has_edges = width > 1 and not problem.packed
    # On an H200 in us, float64 (1048576, 64) with a pack to each of 32 lanes 326, with four to each of eight 264.
    lanes = min(WARP, _power_of_two(-(-packs // 4) if problem.itemsize == 8 else packs))
    if has_edges:  # one edge element a lane: a row has 2 * (width - 1) of them at most
        lanes = max(lanes, _power_of_two(2 * (width - 1)))
    items = -(-packs // lanes)
    # Two rows a group of lanes, unless one each is all that the device runs at once or a row is work enough.
    rows = 2 if items == 1 and problem.rows * lanes > device.sms * 2048 else 1
    blocks = -(-problem.rows // (128 // lanes * rows))
    return Plan(
        problem, (Step(f"multi_row<{c_type}, {width}, {lanes}, {items}, {rows}, {int(has_edges)}>", blocks, 128),)
    )


def _in_tiles(problem: Problem) -> bool:
    """Short rows that don't keep to 16-byte words, all of them one piece of memory."""
    limit = 16 if problem.dtype == "float64" else TILE_ELEMENTS  # double's exp leaves fewer registers
    return problem.one_piece and not problem.packed and problem.n <= limit


def _tile(problem: Problem) -> Plan:
    n = problem.n
    words = n // 2 + 1 if problem.itemsize == 2 else n  # half precisions come in twos, wherever they begin
    lanes = 1 if problem.itemsize == 8 else next(c for c in (1, 2, 4, 8, 16, 32) if n <= 40 * c)
    each = -(-words // WARP) * WARP // lanes if lanes > 1 else words
    each += each % 2  # a kernel for every second length
    rows = 128 // lanes
    kernel = f"multi_row_tile<{problem.c_type}, {lanes}, {each}>"
    return Plan(problem, (Step(kernel, -(-problem.rows // rows), 128, (), rows * n * problem.itemsize + 16),))


def _online(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        return _columns(columns)
    items = 2 if problem.dtype == "float64" else 4  # double's exp takes the registers of the other two
    threads = min(512, _threads(_packs(problem), items))
    return Plan(problem, (Step(f"online<{problem.c_type}, {problem.width}, {items}>", problem.rows, threads),))


def _split(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        if _is_flat(columns):
            return _columns_flat(columns, device)
        return (
            _columns_pipeline(columns, device, knobs)
            or _columns_cluster(columns, device, knobs)
            or _columns_ragged(columns, device, knobs)
            or _columns_split(columns, device)
        )
    packs = _packs(problem)
    # The registers that the ring leaves a thread on compute capability 12.0 don't hold the double exponential's.
    if device.capability < 90 or problem.width == 1 or (problem.dtype == "float64" and device.capability >= 120):
        return _split_grid(problem, device)
    cluster, items = _cluster_of(problem, device, knobs)
    threads = _threads(-(-packs // cluster), items)
    # A cluster of blocks so large that an SM has but one or two hardly finds room; half precisions do for arithmetic.
    if threads > CLUSTER_THREADS or (
        2 * problem.rows <= device.sms and problem.itemsize >= 4 and threads > knobs.cluster_threads
    ):
        return _split_ring(problem, device, knobs)
    kernel = f"split_cluster<{problem.c_type}, {problem.width}, {items}, {cluster}>"
    return Plan(problem, (Step(kernel, problem.rows * cluster, threads, cluster=cluster),))


def _cluster_of(problem: Problem, device: Device, knobs: Knobs) -> tuple[int, int]:
    """Blocks of a cluster, and packs that a thread of them has: 8, in as few blocks of moderate size as hold a row.

    Of half precision 4, in twice the blocks, where they are few: then the exponentials stay in registers. On an H200 in
    us: (67, 40009) 5.7 for 6.7, (24, 65536) 4.6 for 5.2; but (127, 65537) 12.2 for 12.1, (2048, 65536) 152 for 128.
    """
    packs, clusters = _packs(problem), _clusters(device)
    cluster = next((c for c in clusters if packs <= c * knobs.cluster_threads * FUSED_ITEMS[-1]), clusters[-1])
    few = cluster * problem.rows <= knobs.cluster_blocks * device.sms
    if few and problem.itemsize == 2 and cluster < clusters[-1]:
        return 2 * cluster, 4
    return cluster, 8


def _clusters(device: Device) -> tuple[int, ...]:
    return CLUSTERS if device.capability // 10 in LARGE_CLUSTERS else CLUSTERS[:-1]


def _split_ring(problem: Problem, device: Device, knobs: Knobs) -> Plan:
    """All SMs on as many rows at a time as the knob lets; of more rows than SMs, each on as many blocks as hold it."""
    packs, tiles = _packs(problem), _ring_tiles(device)
    if problem.rows > device.sms:  # as few parts as hold a row
        parts = -(-packs // (tiles * RING_TILE))
    else:
        rows = max(1, min(problem.rows, knobs.ring_megabytes * 10**6 // (packs * PACK_BYTES)))
        rows = -(-problem.rows // -(-problem.rows // rows))  # turns of one size
        parts = device.sms // rows
    parts = max(1, min(parts, device.sms, 256, packs // RING_LANES))
    groups = min(problem.rows, device.sms // parts)
    step = Step(
        f"split_ring<{problem.c_type}, {RING_LANES}>",
        groups * parts,
        RING_LANES + WARP,
        ("counters", (ctypes.c_int32, parts), (ctypes.c_int32, tiles)),
        tiles * RING_TILE * 16,
        cooperative=True,
    )
    return Plan(problem, (step,), counter_bytes=problem.rows * parts * 2 * _pair_bytes(problem))


def _ring_tiles(device: Device) -> int:
    """As many tiles as shared memory holds beside 12 kB for all else."""
    return min(13, (device.shared_bytes - 12 * 1024) // (RING_TILE * 16))


def _split_grid(problem: Problem, device: Device) -> Plan:
    """One block of 512 threads on each SM, holding 12 packs a thread in registers and up to 28 in shared memory."""
    packs, threads = _packs(problem), 512
    items = 4 if problem.dtype == "float64" else 12  # of 128 registers 48; double's exp takes the others
    most_shared = (device.shared_bytes - 2048) // (threads * 16) // 4 * 4  # a multiple of the kernel's batches
    # All SMs on the rows there are; more rows than that in turn, each on as many blocks as hold it.
    chunks = max(1, device.sms // problem.rows, min(device.sms, -(-packs // (threads * (items + most_shared)))))
    chunks = min(chunks, max(1, packs // threads))
    groups = min(problem.rows, device.sms // chunks)
    share = -(-packs // chunks)
    beyond = -(-share // threads) - items
    shared_items = min(most_shared, max(0, -(-beyond // 4) * 4))
    kernel = f"split_grid<{problem.c_type}, {problem.width}, {items}>"
    return Plan(
        problem,
        (
            Step(
                kernel,
                groups * chunks,
                threads,
                ("partial", "counters", (ctypes.c_int32, chunks), (ctypes.c_int32, shared_items)),
                shared_items * threads * 16,
                cooperative=True,
            ),
        ),
        partial_bytes=problem.rows * chunks * _pair_bytes(problem),
        counter_bytes=problem.rows * 8,
    )


def _columns(problem: Problem) -> Plan:
    lanes, threads = _column_block(problem, _column_threads(problem))
    kernel = f"columns<{problem.c_type}, {problem.column_width}, {_column_items(problem)}, false>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, 1), (ctypes.c_int32, lanes))
    return Plan(problem, (Step(kernel, _column_tiles(problem, _column_threads(problem)), threads, arguments),))


def _columns_split(problem: Problem, device: Device) -> Plan:
    # Two blocks of 256 threads always fit on an SM: the kernel is bound to 128 registers.
    lanes, threads = _column_block(problem, 256)
    tiles, resident = _column_tiles(problem, 256), 2 * device.sms
    items = min(8, _column_items(problem))
    share = threads // lanes * items  # elements of one column that a block holds
    chunks = max(1, min(-(-problem.n // share), resident // min(tiles, resident)))
    groups = min(tiles, resident // chunks)
    kernel = f"columns<{problem.c_type}, {problem.column_width}, {items}, true>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, chunks), (ctypes.c_int32, lanes))
    return Plan(
        problem,
        (Step(kernel, groups * chunks, threads, arguments, cooperative=True),),
        partial_bytes=tiles * chunks * lanes * problem.column_width * _pair_bytes(problem),
        counter_bytes=tiles * 8,
    )


def _columns_cluster(problem: Problem, device: Device, knobs: Knobs) -> Plan | None:
    """Every element in shared memory, of which an SM has several blocks; None if it doesn't fit.

    Of float64 at odd widths too, an element at a time; for the smaller ones that is done better (_columns_ragged).
    """
    width, n, double = problem.column_width, problem.n, problem.dtype == "float64"
    one_by_one = double and problem.x_inner == problem.out_inner == 1
    if device.capability < 90 or (width == 1 and not one_by_one):
        return None
    # 128 bytes of neighbouring rows, or 64; of packs of double, whose exponential takes longer than reading, 64.
    widths = (16, 8) if width == 1 else (4,) if double else (8, 4)
    few = knobs.column_blocks * (2 if double and width > 1 else 1)
    cell, pair = (PACK_BYTES if width > 1 else problem.itemsize), _pair_bytes(problem)
    for blocks in (few, 3, 2, 1):  # on an SM
        most_threads = (128 if blocks > 4 else 256) if double or blocks > 2 else 512
        fits = None
        for lanes in widths:
            lanes = min(lanes, _power_of_two(-(-problem.inner // width)))
            wide, tiles = lanes * width, problem.outer * -(-problem.inner // (lanes * width))
            for parts in (1, *_clusters(device)):
                share = -(-n // parts)
                # 16 packs a thread, in half as many of 8 bytes twice as many.
                threads = min(most_threads, max(128, _power_of_two(-(-share * lanes * cell // 256))))
                items = -(-share // (threads // lanes))
                shared = items * threads * cell + (threads // max(lanes, WARP) + parts + 1) * wide * pair
                if blocks * (shared + BLOCK_BYTES) > device.shared_bytes + 1024 or shared > CLUSTER_BYTES:
                    continue
                arguments: tuple[Argument, ...] = ((ctypes.c_int32, lanes), (ctypes.c_int32, items))
                kernel = f"columns_cluster<{problem.c_type}, {width}>"
                fits = Plan(problem, (Step(kernel, tiles * parts, threads, arguments, shared, cluster=parts),))
                if tiles * parts >= device.sms or share <= 64:
                    break
            if fits is not None:
                return fits
    return None


def _columns_ragged(problem: Problem, device: Device, knobs: Knobs) -> Plan | None:
    """The same at odd widths, 32 rows to a block; None if it doesn't fit, or columns are short or few."""
    n, side_by_side = problem.n, problem.x_inner == problem.out_inner == 1
    if device.capability < 90 or problem.itemsize > 4 or problem.column_width > 1 or not side_by_side:
        return None
    across = -(-problem.inner // WARP)
    if n < RAGGED_ELEMENTS or 4 * problem.inner < 3 * across * WARP:  # too many idle lanes
        return None
    tiles, pitch = problem.outer * across, WARP * problem.itemsize + PACK_BYTES
    for blocks in (knobs.ragged_blocks, 4, 3, 2):  # on an SM
        fits = None
        for parts in (1, *_clusters(device)):
            share = -(-n // parts)
            warps = min(12, max(2, -(-share * pitch // (84 * WARP))))  # 84 bytes a thread
            items = -(-share // warps)
            shared = warps * items * pitch + (warps + parts + 1) * WARP * _pair_bytes(problem)
            if blocks * (shared + BLOCK_BYTES) > device.shared_bytes + 1024:
                continue
            kernel = f"columns_ragged<{problem.c_type}>"
            step = Step(kernel, tiles * parts, warps * WARP, ((ctypes.c_int32, items),), shared, cluster=parts)
            fits = Plan(problem, (step,))
            if tiles * parts >= device.sms or share <= 64:
                break
        if fits is not None:
            return fits
    return None


def _is_flat(problem: Problem) -> bool:
    """Columns that fill one piece of memory, and are best taken as such: blocks of 512 threads go round their rows.

    At odd widths all of few rows; at others only columns that are too long for the strips of a cluster.
    """
    one_piece = problem.outer == 1 and problem.x_inner == problem.out_inner == 1
    one_piece = one_piece and problem.x_n == problem.out_n == problem.inner
    if not (one_piece and problem.aligned and problem.itemsize <= 4):
        return False
    if problem.column_width == 1:
        return problem.inner <= 256 and problem.n >= 1024
    return problem.n > FLAT_ELEMENTS and _flat_threads(problem) >= 384


def _flat_threads(problem: Problem) -> int:
    """Of 512, as many as have packs that hold each row equally often."""
    around = problem.inner // math.gcd(problem.inner, PACK_BYTES // problem.itemsize)
    return 512 // around * around


def _columns_flat(problem: Problem, device: Device) -> Plan:
    width, threads, active = PACK_BYTES // problem.itemsize, 512, _flat_threads(problem)
    packs = problem.n * problem.inner // width
    items = {2: 4, 4: 8}[problem.itemsize]
    blocks = min(device.sms, max(1, packs // (threads * items)))
    places = threads * width * _pair_bytes(problem)
    most = (device.shared_bytes - places - 10 * 1024) // (threads * 16)  # beside 8 kB for pairs
    held = max(0, min(most, -(-packs // (blocks * active))))
    step = Step(
        f"columns_flat<{problem.c_type}, {items}>",
        blocks,
        threads,
        ("partial", "counters", (ctypes.c_int32, held), (ctypes.c_int32, active)),
        held * threads * 16 + places,
        cooperative=True,
    )
    return Plan(problem, (step,), blocks * problem.inner * _pair_bytes(problem), 16)


def _columns_pipeline(problem: Problem, device: Device, knobs: Knobs) -> Plan | None:
    """Strips of 128 bytes of neighbouring rows; None where it doesn't fit, or columns are too short.

    None too where a cluster is faster: for float32, while an SM has three of its blocks, 64 bytes wide or more.
    """
    warps, items, n, wide = 12, 4, problem.n, 8 * problem.column_width
    if problem.itemsize > 4 or problem.column_width == 1 or problem.inner < wide or n < knobs.columns_long:
        return None
    small = device.shared_bytes < PIPELINE_BYTES + PIPELINE_PAIR_BYTES
    if device.capability < 90 or small or (problem.itemsize == 4 and n <= 1024 * _clusters(device)[-1]):
        return None
    strips, slots = problem.outer * -(-problem.inner // wide), PIPELINE_BYTES // (warps * items * WARP * 16)
    # Half of the ring to a strip, or more where that makes it one block's and strips are many.
    parts = -(-n // (1024 if strips >= 4 * device.sms else 768))
    if parts > min(device.sms, PIPELINE_PARTS) or strips * parts < device.sms:
        return None
    share = -(-n // (parts * warps))
    groups = min(strips, device.sms // parts)
    kernel = f"columns_pipeline<{problem.c_type}, {warps}, {items}>"
    counters: Argument = "counters" if parts > 1 else (ctypes.c_int64, 0)
    arguments = (counters, (ctypes.c_int32, parts), (ctypes.c_int32, share), (ctypes.c_int32, slots))
    threads, shared = (warps + 1) * WARP + wide, warps * slots * items * WARP * 16
    step = Step(kernel, groups * parts, threads, arguments, shared, cooperative=parts > 1)
    packets = groups * parts * 6 * wide if parts > 1 else 0
    return Plan(problem, (step,), counter_bytes=packets * 2 * _pair_bytes(problem))


def _column_threads(problem: Problem) -> int:
    """Threads of a block at most: four blocks of 256 run on an SM where a thread reads single elements."""
    return 512 if problem.column_width > 1 else 256


def _column_items(problem: Problem) -> int:
    return 4 if problem.dtype == "float64" else 8 if problem.column_width > 1 else 16


def _column_block(problem: Problem, most_threads: int) -> tuple[int, int]:
    """Lanes along the rows, and threads: 128 bytes of neighbouring rows, down to 32 (a sector) for longer columns."""
    width, items = problem.column_width, _column_items(problem)
    most, least = (8, 2) if width > 1 else (32, 8)
    lanes = min(most, _power_of_two(-(-problem.inner // width)))
    while lanes > least and most_threads // lanes * items < problem.n:
        lanes //= 2
    threads = lanes * _power_of_two(-(-problem.n // items))
    return lanes, min(most_threads, max(threads, WARP, lanes * width))


def _column_capacity(problem: Problem) -> int:
    """Elements of a column that the largest block holds in registers."""
    threads = _column_threads(problem)
    lanes, _ = _column_block(problem, threads)
    return threads // lanes * _column_items(problem)


def _column_tiles(problem: Problem, most_threads: int) -> int:
    lanes, _ = _column_block(problem, most_threads)
    return problem.outer * -(-problem.inner // (lanes * problem.column_width))


def _packs(problem: Problem) -> int:
    """Packs of a row; one for a row too short to have any."""
    return max(1, problem.n // problem.width)


def _threads(packs: int, items: int) -> int:
    """Threads, in whole warps, that take ``items`` packs each."""
    return -(-packs // (items * WARP)) * WARP


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << (number - 1).bit_length()


def _pair_bytes(problem: Problem) -> int:
    return 16 if problem.dtype == "float64" else 8
