"""Device functions of several operations. Which rows and elements a thread has, where they lie, and how the threads of
a row meet.

A kernel is Python that is run once, while it is compiled: lists of scalars are registers, and a loop over them leaves
no loop. TILE says how rows lie on threads, see :mod:`kernelzoo.kernels.cute.tiles`.
"""

from typing import Any, NamedTuple

import cutlass
from cutlass import Float32, Float64, Int32, Int64, const_expr, cute, range_constexpr


class Rows(NamedTuple):
    """Elements of a row, rows in all, and rows of a group."""

    n: Any
    total: Any
    inner: Any


class Strides(NamedTuple):
    """Of a tensor, in elements: from group to group of rows, along a row, from a row to its neighbour."""

    group: Int64
    n: Int64
    row: Int64


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


def first_element(start, TILE):
    """The first element of a thread in the first block of a row that starts there. Where vectors are shifted it may lie
    before the row: by so many elements as the row starts past a vector."""
    _, along = thread_coords(TILE)
    element = index(along * TILE.step, TILE)
    return element - index(start & (TILE.vector - 1), TILE) if TILE.shifted else element


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
    """A part's first block of its rows, and the first past it."""
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


def make_thread_tensor(x, start, element, strides, TILE, TENSOR=0):
    """A thread's elements of a tensor as a tensor of CuTe: (elements of a vector, vectors)."""
    moves, dense = TILE.moves[TENSOR], TILE.dense[TENSOR]
    down = TILE.stride if dense else strides.n * TILE.stride
    beside = 1 if moves or (dense and not TILE.across) else strides.row if TILE.across else strides.n
    at = start + (Int64(element) if dense else Int64(element) * strides.n)
    if moves:
        at = cute.assume(at, divby=TILE.vector)
        down = down if dense else cute.assume(down, divby=TILE.vector)
    return cute.make_tensor(x + at, cute.make_layout((TILE.vector, TILE.each), stride=(beside, down)))


def exists(row, rows, TILE):
    """Whether a row is one of the problem's."""
    return cutlass.Boolean(True) if TILE.full else row < rows.total


def row_coords(number, rows, strides, TILE):
    """(row, element, exists) of a thread in the tile of that number: its first row and element there."""
    row = first_row(number, TILE)
    return row, first_element(row_offset(row, rows, strides, TILE), TILE), exists(row, rows, TILE)


# --- In and out ------------------------------------------------------------------------------------------------------


@cute.jit
def load_fragment(
    source: cute.Tensor, exists: cutlass.Boolean, element, end, instead: cutlass.Constexpr, TILE: cutlass.Constexpr
):
    """A thread's elements, in registers. Past the end of the row they are what is said instead."""
    held = cute.make_rmem_tensor((TILE.vector, TILE.each), source.element_type)
    if const_expr(not (TILE.whole and TILE.full)):
        held.fill(instead)
    for i in range_constexpr(TILE.each):
        at = element + i * TILE.stride
        if const_expr(TILE.whole and TILE.full):
            cute.autovec_copy(source[None, i], held[None, i])
        elif const_expr(TILE.shifted):
            if exists and at >= 0 and at + TILE.vector <= end:
                cute.autovec_copy(source[None, i], held[None, i])
            elif exists and at < end:
                for v in range_constexpr(TILE.vector):  # a vector over an end of the row
                    if at + v >= 0 and at + v < end:
                        held[v, i] = source[v, i]
        else:
            if exists and at < end:
                cute.autovec_copy(source[None, i], held[None, i])
    return held


@cute.jit
def store_fragment(
    held: cute.Tensor, target: cute.Tensor, exists: cutlass.Boolean, element, end, TILE: cutlass.Constexpr
):
    """A thread's elements, out of registers, up to the end of the row."""
    for i in range_constexpr(TILE.each):
        at = element + i * TILE.stride
        if const_expr(TILE.whole and TILE.full):
            cute.autovec_copy(held[None, i], target[None, i])
        elif const_expr(TILE.shifted):
            if exists and at >= 0 and at + TILE.vector <= end:
                cute.autovec_copy(held[None, i], target[None, i])
            elif exists and at < end:
                for v in range_constexpr(TILE.vector):
                    if at + v >= 0 and at + v < end:
                        target[v, i] = held[v, i]
        else:
            if exists and at < end:
                cute.autovec_copy(held[None, i], target[None, i])


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


def load_tile(source, here, element, end, instead, TILE):
    """A thread's elements as they are computed, of each vector a list. Past the end of the row what is said instead."""
    held = load_fragment(source, here, element, end, instead, TILE)
    return [[to_acc(held[v, i], TILE) for v in range(TILE.vector)] for i in range(TILE.each)]


def store_tile(values, target, here, element, end, TILE):
    """Such lists to a tensor, up to the end of the row. Converted together, half precision takes two at once."""
    wide = cute.make_rmem_tensor((TILE.vector, TILE.each), type(values[0][0]))
    for i, vector in enumerate(values):
        for v, value in enumerate(vector):
            wide[v, i] = value
    held = cute.make_rmem_tensor((TILE.vector, TILE.each), target.element_type)
    held.store(wide.load().to(target.element_type))
    store_fragment(held, target, here, element, end, TILE)


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


def block_reduce(mine, join, TILE):
    """Values of each row of a thread, joined over all threads that share the rows. In a warp by shuffles, then through
    shared memory. In one order for all, so that all agree to the bit."""
    for mask in TILE.masks:
        mine = [join(value, cute.arch.shuffle_sync_bfly(value, offset=mask)) for value in mine]
    if TILE.meeting == 1:
        return mine
    place, along = thread_coords(TILE)
    room = cute.make_tensor(
        cute.arch.alloc_smem(type(mine[0]), TILE.meeting * TILE.rows),
        cute.make_layout((TILE.rows_each, TILE.places, TILE.meeting)),
    )
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
    """The sum."""
    return a + b


def multiply(a, b):
    """The product."""
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
def store_rows(
    mine: cute.Tensor, out: cute.Pointer, start: Int64, stride: Int64, leaves: cutlass.Boolean, TILE: cutlass.Constexpr
):
    """One value of each of a thread's rows, written by one of the threads that have got it."""
    if leaves:
        cute.autovec_copy(mine, cute.make_tensor(out + start, cute.make_layout((TILE.rows_each,), stride=(stride,))))


def store_partial(mine, room, row, part, parts, rows, here, TILE):
    """What a part has of each of a thread's rows, to its place in a workspace, see ``partial_offset``."""
    place, apart = partial_offset(row, part, parts, rows, TILE)
    store_rows(make_fragment(mine, room.dtype), room, place, apart, here & (thread_coords(TILE)[1] == 0), TILE)


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
