"""Device functions of several operations. Which rows and elements a thread has, where they lie, and how the threads of
a row meet.

A kernel is Python that is run once, while it is compiled: lists of scalars are registers, and a loop over them leaves
no loop. TILE says how rows lie on threads, see :mod:`kernelzoo.kernels.cute.tiles`.
"""

from typing import Any

import cutlass
from cutlass import Float32, Float64, Int32, Int64, cute, range_constexpr

from kernelzoo.layout import VECTOR_BYTES


def block_index(EARLY):
    """This block's number; first in every kernel, as it waits for the launch before where one is prepared early."""
    if EARLY:
        cute.arch.griddepcontrol_wait()
    return cute.arch.block_idx()[0]


# --- Where things are ------------------------------------------------------------------------------------------------


def index(value, TILE):
    """A number of rows or elements."""
    return Int64(value) if TILE.far else Int32(value)


def thread_coords(TILE):
    """This thread's place across rows, and along them."""
    thread, _, _ = cute.arch.thread_idx()
    if TILE.across:
        return thread % TILE.places, thread // TILE.places
    return thread // TILE.lanes, thread % TILE.lanes


def first_row(number, TILE):
    """The first row of a thread in the tile of that number."""
    place, _ = thread_coords(TILE)
    return index(number, TILE) * TILE.rows + index(place * TILE.rows_each, TILE)


def num_blocks(rows, TILE):
    """Blocks of a row, the last of which may have fewer elements."""
    if TILE.single:
        return index(1, TILE)
    longest = rows.n + TILE.vector - 1 if TILE.shifted else rows.n
    return (longest + TILE.block - 1) // TILE.block


def all_blocks(rows, TILE):
    """The first block of a row, and the first past it."""
    return index(0, TILE), num_blocks(rows, TILE)


def tile_and_part(number, parts):
    """Of the block of that number, its tile and which of so many parts of its rows it has."""
    tile = number // parts
    return tile, number - tile * parts


def part_range(part, span, rows, TILE):
    """A part's first block of its rows, and the first past it. A part has span of them."""
    begin = index(part, TILE) * span
    return begin, cutlass.min(begin + span, num_blocks(rows, TILE))


def partial_offset(row, part, parts, rows, TILE):
    """(offset, stride) in a workspace of what a part leaves of a row, and of the next one. The parts of a row lie side
    by side, or of neighbouring columns what one part leaves."""
    if TILE.across:
        return Int64(part) * Int64(rows.total) + Int64(row), Int64(1)
    return Int64(row) * Int64(parts) + Int64(part), Int64(parts)


def row_offset(row, rows, strides, TILE):
    """Elements from a tensor's first to a row's first."""
    if not TILE.grouped:
        return Int64(row) * strides.row
    group = row // rows.inner
    return Int64(group) * strides.group + Int64(row - group * rows.inner) * strides.row


def exists(row, rows, TILE):
    """Whether a row is one of the problem's."""
    return cutlass.Boolean(True) if TILE.full else row < rows.total


def make_matrix(x, at, shape, TILE):
    """A tensor as a matrix: its rows, and their elements."""
    row, n = at.row, 1 if at.dense else at.n
    if at.moves and TILE.across:
        row, n = 1, cute.assume(n, divby=TILE.vector)
    elif at.moves and not TILE.shifted:
        row = cute.assume(row, divby=TILE.vector)
    return cute.make_tensor(x, cute.make_layout(shape, stride=(row, n)))


def readdress(tXgX, tXcX, rows, at, TILE):
    """A thread's elements of a matrix, and their coordinates, from where no stride leads: to other groups of rows, and
    to the vectors in which rows start. The address is a number, which is not computed again for each vector."""
    row, bytes, align = tXcX[0][0], tXgX.element_type.width // 8, tXgX.iterator.alignment
    start = row_offset(row, rows, at, TILE)
    address = tXgX.iterator.toint() + (start - Int64(row) * at.row) * bytes
    if TILE.shifted:
        past, align = (start & (TILE.vector - 1)).to(Int32), VECTOR_BYTES
        address, tXcX = address - Int64(past) * bytes, cute.domain_offset(((-past, 0), 0, 0, 0), tXcX)
    pointer = cute.make_ptr(tXgX.element_type, address, tXgX.memspace, assumed_align=align)
    return cute.make_tensor(pointer, tXgX.layout), tXcX


def partition(tile, rows, TILE, *tensors):
    """A thread's elements of the rows of the tile of that number: of each tensor and its strides, and before them their
    coordinates (row, element). Tensors of CuTe: (vector, 1, vectors, blocks)."""
    tile, (thread, _, _) = index(tile, TILE), cute.arch.thread_idx()
    threads = cute.make_layout((TILE.places, TILE.lanes), stride=(1, TILE.places) if TILE.across else (TILE.lanes, 1))
    values = cute.make_layout((TILE.rows_each, TILE.step))
    shape = rows.total, rows.n + TILE.vector - 1 if TILE.shifted else rows.n
    parts: list[Any] = []
    for x, at in tensors:
        copied = min(TILE.vector, 8 * VECTOR_BYTES // x.dtype.width) if at.moves else 1
        thr_copy = cute.make_tiled_copy_tv(copy_atom(x.dtype, copied), threads, values).get_slice(thread)
        mX, idX = make_matrix(x, at, shape, TILE), cute.make_identity_tensor(shape)
        gX, cX = (cute.local_tile(m, TILE.tiler, (tile, None)) for m in (mX, idX))
        tXgX, tXcX = thr_copy.partition_S(gX), thr_copy.partition_S(cX)
        tXgX, tXcX = readdress(tXgX, tXcX, rows, at, TILE)
        parts.append(tXgX)
    return [tXcX, *parts]  # the same for all of them


# --- In and out ------------------------------------------------------------------------------------------------------


def copy_atom(dtype, elements):
    """What copies so many elements at once."""
    return cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=elements * dtype.width)


def predicate(tXcX, copies, rows, TILE):
    """Of a block, whether each of a thread's vectors, of so many copies, lies in its row; None where all do."""
    if TILE.whole and TILE.full:
        return None
    inside = cute.make_rmem_tensor((TILE.each,), cutlass.Boolean)
    for i in range(TILE.each):
        row, element = tXcX[0, 0, i]
        inside[i] = exists(row, rows, TILE) & (element < rows.n)
    return cute.make_tensor(inside.iterator, cute.make_layout((copies, 1, TILE.each), stride=(0, 0, 1)))


def copy(source, target, tXcX, rows, TILE):
    """A thread's elements of a block that lie in rows, from one tensor to another."""
    copied, copies = source.shape[0] if source.memspace == cute.AddressSpace.gmem else target.shape[0]
    atom = copy_atom(source.element_type, copied)
    if TILE.shifted:
        copy_shifted(atom, source, target, tXcX, rows, TILE)
    else:
        cute.copy(atom, source, target, pred=predicate(tXcX, copies, rows, TILE))


@cute.jit
def copy_shifted(atom, source, target, tXcX, rows, TILE: cutlass.Constexpr):
    """The same where rows start and end anywhere in a vector: no predicate copies a part of one."""
    for i in range_constexpr(TILE.each):
        row, element = tXcX[0, 0, i]
        here = exists(row, rows, TILE)
        if here and element >= 0 and element + TILE.vector <= rows.n:
            cute.copy(atom, source[None, 0, i], target[None, 0, i])
        elif here and element < rows.n:
            for v in range_constexpr(TILE.vector):
                if element + v >= 0 and element + v < rows.n:
                    target[v, 0, i] = source[v, 0, i]


def acc_type(TILE):
    """What elements are computed in: half precision in float32, short integers in 32 bits."""
    if TILE.dtype == "float64":
        return Float64
    if "float" in TILE.dtype:
        return Float32
    return Int64 if TILE.dtype == "int64" else Int32


def to_acc(value, TILE):
    """An element as it is computed. CuTe's memory has no signs: a byte of uint8 is read as one of int8."""
    wide = value.to(acc_type(TILE))
    return wide & 255 if TILE.dtype == "uint8" else wide


def block_number(i, TILE):
    """The number of a block of a row, which is a constant where there is one: CuTe compiles no 64-bit 0."""
    return 0 if TILE.single else index(i, TILE)


def load(tXgX, tXcX, i, rows, TILE, instead=0.0):
    """A thread's elements of a block as they are computed, of each vector a list. Past the end of the row what is said
    instead."""
    tXrX = cute.make_rmem_tensor(tXgX.shape[:3], tXgX.element_type)
    if not (TILE.whole and TILE.full):
        tXrX.fill(instead)
    i = block_number(i, TILE)
    copy(tXgX[None, None, None, i], tXrX, tXcX[None, None, None, i], rows, TILE)
    return [[to_acc(tXrX[v, 0, j], TILE) for v in range(TILE.vector)] for j in range(TILE.each)]


def store(values, tXgO, tXcX, i, rows, TILE):
    """Such lists to a block of a tensor, up to the end of the row. Converted together, half precision takes two at
    once."""
    wide = cute.make_rmem_tensor(tXgO.shape[:3], type(values[0][0]))
    for j, vector in enumerate(values):
        for v, value in enumerate(vector):
            wide[v, 0, j] = value
    tXrO = cute.make_rmem_tensor(tXgO.shape[:3], tXgO.element_type)
    tXrO.store(wide.load().to(tXgO.element_type))
    i = block_number(i, TILE)
    copy(tXrO, tXgO[None, None, None, i], tXcX[None, None, None, i], rows, TILE)


# --- Together --------------------------------------------------------------------------------------------------------


def tree_reduce(values, join):
    """All of a list joined, two by two."""
    values = list(values)
    while len(values) > 1:
        values = [join(*values[i : i + 2]) if i + 1 < len(values) else values[i] for i in range(0, len(values), 2)]
    return values[0]


def split_rows(values, TILE):
    """A thread's values of each of its rows."""
    if TILE.across:
        return [[vector[v] for vector in values] for v in range(TILE.vector)]
    return [[value for vector in values for value in vector]]


def broadcast_rows(mine, TILE):
    """One value of each of a thread's rows, for every element of a vector."""
    return mine if TILE.across else mine * TILE.vector


def map_rows(function, values, TILE, *of_rows):
    """A function of each of a thread's elements, and of what there is one of to its row."""
    rows = [broadcast_rows(one, TILE) for one in of_rows]
    return [[function(*element) for element in zip(vector, *rows, strict=True)] for vector in values]


def thread_reduce(mine, join, TILE):
    """One value of each of a thread's rows, of its own elements."""
    return [tree_reduce(row, join) for row in split_rows(mine, TILE)]


def shared(kind, layout, TILE):
    """Shared memory of a block, at whole vectors: no vector that is read has another's elements in it. Of rows side by
    side elements are read one by one: vectors take more registers than there are."""
    align = kind.width // 8 if TILE.across else VECTOR_BYTES
    return cute.make_tensor(cute.arch.alloc_smem(kind, cute.size(layout), align), layout)


def block_reduce(mine, join, TILE):
    """Values of each row of a thread, joined over all threads that share the rows. In a warp by shuffles, then through
    shared memory. In one order for all, so that all agree to the bit."""
    for mask in TILE.masks:
        mine = [join(value, cute.arch.shuffle_sync_bfly(value, offset=mask)) for value in mine]
    if TILE.meeting == 1:
        return mine
    place, along = thread_coords(TILE)
    room = shared(type(mine[0]), cute.make_layout((TILE.rows_each, TILE.places, TILE.meeting)), TILE)
    left = cute.make_rmem_tensor((TILE.rows_each,), type(mine[0]))
    for r, value in enumerate(mine):
        left[r] = value
    store_if(left, room[None, place, along // TILE.together], along % TILE.together == 0)
    cute.arch.sync_threads()
    return [tree_reduce([room[r, place, party] for party in range(TILE.meeting)], join) for r in range(TILE.rows_each)]


def row_reduce(values, join, TILE):
    """One value of each of a thread's rows, joined over all elements: every thread that shares a row gets it."""
    return block_reduce(thread_reduce(values, join, TILE), join, TILE)


@cute.jit
def store_if(held: cute.Tensor, room: cute.Tensor, leaves: cutlass.Boolean):
    """One thread of a party leaves its values."""
    if leaves:
        cute.autovec_copy(held, room)


def select(condition, a, b):
    """One or the other, both of one type."""
    return type(a)(cutlass.select_(condition, a, b))


def add(a, b):
    return a + b


def multiply(a, b):
    return a * b


def maximum(a, b):
    """The maximum, which may drop a NaN."""
    if isinstance(a, Float32):
        return cute.arch.fmax(a, b)
    return select(a > b, a, b)


def minimum(a, b):
    """The minimum; NaN if either is."""
    if isinstance(a, Float32):
        return cute.arch.fmin(a, b, nan=True)
    if isinstance(a, Float64):
        return select((a < b) | (a != a), a, b)
    return cutlass.min(a, b)


# --- What a thread keeps ---------------------------------------------------------------------------------------------


def make_accumulator(value, TILE, kind=None):
    """Registers for one value of each of a thread's rows, which a loop may change."""
    kind = kind or acc_type(TILE)
    kept = cute.make_rmem_tensor((TILE.rows_each,), kind)
    for r in range(TILE.rows_each):
        kept[r] = kind(value)
    return kept


def accumulate(kept, values, join):
    """Such registers, joined with another value each."""
    for r, value in enumerate(values):
        kept[r] = join(kept[r], value)


def registers(kept):
    """What such registers hold now."""
    return [kept[r] for r in range(cute.size(kept))]


@cute.jit
def store_rows(mine, out, start: Int64, stride: Int64, leaves: cutlass.Boolean, TILE: cutlass.Constexpr):
    """One value of each of a thread's rows, written by one of the threads that have got it."""
    if leaves:
        cute.autovec_copy(mine, cute.make_tensor(out + start, cute.make_layout((TILE.rows_each,), stride=(stride,))))


def store_partial(mine, room, row, part, parts, rows, TILE):
    """What a part has of each of a thread's rows, to its place in a workspace, see ``partial_offset``."""
    leaves = exists(row, rows, TILE) & (thread_coords(TILE)[1] == 0)
    store_rows(make_fragment(mine, room.dtype), room, *partial_offset(row, part, parts, rows, TILE), leaves, TILE)


def make_fragment(mine, dtype):
    """A value of each row, in registers, as a dtype."""
    kept = cute.make_rmem_tensor((len(mine),), dtype)
    for r, value in enumerate(mine):
        kept[r] = value.to(dtype)
    return kept


@cute.jit
def load_rows(x: cute.Pointer, start: Int64, stride: Int64, here: cutlass.Boolean, TILE: cutlass.Constexpr):
    """What there is one of to each of a thread's rows, in registers. 0 where a row is none of the problem's."""
    held = cute.make_rmem_tensor((TILE.rows_each,), x.dtype)
    held.fill(0)
    if here:
        cute.autovec_copy(cute.make_tensor(x + start, cute.make_layout((TILE.rows_each,), stride=(stride,))), held)
    return held
