"""Softmax in CUDA C++: the launch tables of softmax.cu.

Each table turns a problem into a plan. Sizes are in *packs*, 16 bytes of a contiguous row (one element of a strided
one), since that is what a thread loads at a time.
"""

import ctypes

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.module import Argument, Device, Plan, Problem, Step, bind
from kernelzoo.registry import Launch, register

WARP = 32

# A thread holds 8 packs at most: 32 registers of elements and as many for the rest, which 1024 threads an SM can have.
FUSED_ITEMS = (1, 2, 4, 8)

# Rows of the tile's threads: a row sits in the registers of one thread, which is cheap up to 64 elements.
TILE_ROWS = 128
TILE_ITEMS = (8, 16, 32, 64)

# What a block may ask for without a special permission, less one pack for the tile's phase.
TILE_BYTES = 48 * 1024 - 16

# Blocks of 512 threads, of which an SM runs two with 64 registers a thread: one computes while the other loads.
CLUSTER_THREADS = 512
CLUSTERS = (2, 4, 8, 16)


@register("cupy", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The fastest of the others for the problem: by row length first, then by the number of rows."""
    return bind("softmax", _auto, x, out)


@register("cupy", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One block per row, which stays in registers: one read and one write of the matrix."""
    return bind("softmax", _fused, x, out)


@register("cupy", "softmax", "persistent")
def persistent(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A grid as large as the device runs at once; each block loops over rows and loads the next one ahead."""
    return bind("softmax", _persistent, x, out)


@register("cupy", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Many short rows per block: a warp, a part of a warp, or one thread takes a row."""
    return bind("softmax", _multi_row, x, out)


@register("cupy", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A running (max, sum) pair over a row of any length, then a second pass that writes.

    After M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018.
    """
    return bind("softmax", _online, x, out)


@register("cupy", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row and merge their (max, sum) pairs: a cluster, or the whole grid for longer rows.

    The cluster form follows Quack (github.com/Dao-AILab/quack): the row in the registers of a thread-block cluster,
    pairs exchanged through distributed shared memory.
    """
    return bind("softmax", _split, x, out)


def _auto(problem: Problem, device: Device) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        # Held in registers if it fits; split where the tiles alone don't give each SM two blocks.
        if _column_tiles(columns, 512) < 2 * device.sms and problem.n > 1024:
            return _split(problem, device)
        held = problem.n <= _column_capacity(columns)
        return _multi_row(problem, device) if held else _online(problem, device)
    packs = _packs(problem)
    if packs <= WARP * FUSED_ITEMS[-1]:
        return _multi_row(problem, device)
    if problem.width == 1:
        return _fused(problem, device) if packs <= 1024 * FUSED_ITEMS[-1] else _online(problem, device)
    # A block of its own per row, up to the 512 threads of which an SM runs several, unless so few rows leave SMs idle.
    if packs <= 512 * FUSED_ITEMS[-1] and (problem.rows >= device.sms or packs <= 1024):
        return _fused(problem, device)
    return _split(problem, device)


def _fused(problem: Problem, device: Device) -> Plan:
    packs = _packs(problem)
    if packs > 1024 * FUSED_ITEMS[-1]:
        raise UnsupportedProblemError(
            "cupy/softmax/fused",
            f"a row of {problem.n} elements doesn't fit in the registers of one block, which hold "
            f"{1024 * FUSED_ITEMS[-1] * problem.width}",
        )
    # 4 packs a thread keep enough loads in flight; fewer only where a block would have less than four warps.
    items = 1 if packs <= 128 else 2 if packs <= 256 else 4 if packs <= 512 * 4 else 8
    kernel = f"fused<{problem.c_type}, {problem.width}, {items}>"
    return Plan(problem, (Step(kernel, problem.rows, _threads(packs, items)),))


def _persistent(problem: Problem, device: Device) -> Plan:
    packs = _packs(problem)
    if packs > 512 * FUSED_ITEMS[-1]:  # two rows in registers: 128 a thread, so 512 threads
        raise UnsupportedProblemError(
            "cupy/softmax/persistent",
            f"two rows of {problem.n} elements don't fit in the registers of one block, which hold two of "
            f"{512 * FUSED_ITEMS[-1] * problem.width}",
        )
    items = 1 if packs <= 128 else 2 if packs <= 256 else 4 if packs <= 512 * 4 else 8
    kernel = f"persistent<{problem.c_type}, {problem.width}, {items}>"
    return Plan(problem, (Step(kernel, problem.rows, _threads(packs, items), resident=True),))


def _multi_row(problem: Problem, device: Device) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        if problem.n > _column_capacity(columns):
            raise UnsupportedProblemError(
                "cupy/softmax/multi_row",
                f"a column of {problem.n} elements doesn't fit in a block's registers: {_column_capacity(columns)} do",
            )
        return _columns(columns)
    n, width, c_type = problem.n, problem.width, problem.c_type
    limit = 16 if problem.dtype == "float64" else TILE_ITEMS[-1]  # double's exp leaves fewer registers
    if problem.one_piece and not problem.packed and n <= limit and TILE_ROWS * n * problem.itemsize <= TILE_BYTES:
        items = next(items for items in TILE_ITEMS if n <= items)
        shared = TILE_ROWS * n * problem.itemsize + 16
        return Plan(
            problem, (Step(f"multi_row_tile<{c_type}, {items}>", -(-problem.rows // TILE_ROWS), TILE_ROWS, (), shared),)
        )
    packs = _packs(problem)
    if packs > WARP * FUSED_ITEMS[-1]:
        raise UnsupportedProblemError(
            "cupy/softmax/multi_row",
            f"a row of {n} elements doesn't fit in one warp's registers, which hold {WARP * FUSED_ITEMS[-1] * width}",
        )
    has_edges = width > 1 and not problem.packed
    lanes = min(WARP, _power_of_two(packs))
    if has_edges:  # one edge element a lane: a row has 2 * (width - 1) of them at most
        lanes = max(lanes, _power_of_two(2 * (width - 1)))
    items = _power_of_two(-(-packs // lanes))
    rows = max(1, 4 // items)  # about four packs in flight per thread
    blocks = -(-problem.rows // (128 // lanes * rows))
    return Plan(
        problem, (Step(f"multi_row<{c_type}, {width}, {lanes}, {items}, {rows}, {int(has_edges)}>", blocks, 128),)
    )


def _online(problem: Problem, device: Device) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        return _columns(columns)
    items = 2 if problem.dtype == "float64" else 4  # double's exp takes the registers of the other two
    threads = min(512, _threads(_packs(problem), items))
    return Plan(problem, (Step(f"online<{problem.c_type}, {problem.width}, {items}>", problem.rows, threads),))


def _split(problem: Problem, device: Device) -> Plan:
    columns = problem.by_columns()
    if columns is not None:
        return _columns_split(columns, device)
    packs = _packs(problem)
    held = CLUSTER_THREADS * FUSED_ITEMS[-1]
    if device.capability >= 90 and packs <= CLUSTERS[-1] * held:
        # As few blocks as hold the row, or more until there are two for each SM.
        cluster = next(
            (
                c
                for c in CLUSTERS
                if packs <= c * held and (c * problem.rows >= 2 * device.sms or packs < c * held // 4)
            ),
            CLUSTERS[-1],
        )
        items = 4 if packs <= cluster * CLUSTER_THREADS * 4 else 8
        kernel = f"split_cluster<{problem.c_type}, {problem.width}, {items}, {cluster}>"
        threads = _threads(-(-packs // cluster), items)
        return Plan(problem, (Step(kernel, problem.rows * cluster, threads, cluster=cluster),))
    return _split_grid(problem, device)


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
    lanes, threads = _column_block(problem, 512)
    kernel = f"columns<{problem.c_type}, {problem.column_width}, {_column_items(problem)}, false>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, 1), (ctypes.c_int32, lanes))
    return Plan(problem, (Step(kernel, _column_tiles(problem, 512), threads, arguments),))


def _columns_split(problem: Problem, device: Device) -> Plan:
    # Two blocks of 256 threads always fit on an SM: the kernel is bound to 128 registers.
    lanes, threads = _column_block(problem, 256)
    tiles, resident = _column_tiles(problem, 256), 2 * device.sms
    share = threads // lanes * _column_items(problem)  # elements of one column that a block holds
    chunks = max(1, min(-(-problem.n // share), resident // min(tiles, resident)))
    groups = min(tiles, resident // chunks)
    kernel = f"columns<{problem.c_type}, {problem.column_width}, {_column_items(problem)}, true>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, chunks), (ctypes.c_int32, lanes))
    return Plan(
        problem,
        (Step(kernel, groups * chunks, threads, arguments, cooperative=True),),
        partial_bytes=tiles * chunks * lanes * problem.column_width * _pair_bytes(problem),
        counter_bytes=tiles * 8,
    )


def _column_items(problem: Problem) -> int:
    return 4 if problem.dtype == "float64" else 8


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
    """Elements of a column that a block of 512 threads holds in registers."""
    lanes, _ = _column_block(problem, 512)
    return 512 // lanes * _column_items(problem)


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
