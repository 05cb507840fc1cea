"""Device functions of forms that go through rows block by block: elements and their places, and what rows have one of.

TILE says how rows lie on threads, see :mod:`kernelzoo.kernels.cute.device_functions`.
"""

import cutlass
from cutlass import Boolean, Float32, Float64, Int64, cute, range_constexpr

from kernelzoo.kernels.cute import device_functions as dev


def read_once(TILE, load):
    """What loads a block, or of rows that have one block gives what is loaded here."""
    if not TILE.single:
        return load
    held = load(0)
    return lambda i: held


def load_scaled(tXgX, tXgW, tXcX, i, rows, TILE):
    """A thread's elements of a block, each times its weight."""
    weights = dev.load(tXgW, tXcX, i, rows, TILE)
    return map_tiles(dev.multiply, (dev.load(tXgX, tXcX, i, rows, TILE), weights), TILE)


def load_left(room, row, rows, TILE):
    """What another launch has left of each of a thread's rows in a workspace."""
    return dev.registers(dev.load_rows(room, Int64(row), Int64(1), dev.exists(row, rows, TILE), TILE))


def places(tXcX, i, TILE):
    """Where in its row each of a thread's elements of a block is."""
    return [[tXcX[v, 0, j, i][1] for v in range(TILE.vector)] for j in range(TILE.each)]


def inside(tXcX, i, rows, TILE):
    """Whether each of a thread's elements of a block is one of its row's."""
    if TILE.whole:
        return [[Boolean(True)] * TILE.vector] * TILE.each
    return [[(place >= 0) & (place < rows.n) for place in vector] for vector in places(tXcX, i, TILE)]


def map_tiles(function, tiles, TILE, *of_rows):
    """A function of the elements of several tensors at each place, and of what there is one of to its row."""
    rows = [dev.broadcast_rows(one, TILE) for one in of_rows]
    return [
        [function(*elements) for elements in zip(*vectors, *rows, strict=True)] for vectors in zip(*tiles, strict=True)
    ]


def make_sums(TILE):
    """Running sums of each of a thread's rows, and what they have rounded off."""
    return dev.make_accumulator(0, TILE), dev.make_accumulator(0, TILE)


def accumulate_sums(sums, values, TILE):
    """Such sums, with more elements."""
    totals, lost = sums
    add_exactly(totals, lost, dev.thread_reduce(values, dev.add, TILE))


def thread_sums(totals, lost):
    """What a thread has added up."""
    return [whole(*pair) for pair in zip(dev.registers(totals), dev.registers(lost), strict=True)]


def row_sums(sums, TILE):
    """What all threads of each row have added up."""
    return dev.block_reduce(thread_sums(*sums), dev.add, TILE)


@cute.jit
def add_parts(left: cute.Pointer, row, many, parts, rows, TILE: cutlass.Constexpr):
    """The sums of what so many of the parts of a thread's rows have left, in one order for all, in registers."""
    every = dev.make_accumulator(0, TILE, left.dtype)
    for other in cutlass.range(dev.thread_coords(TILE)[1], many, TILE.lanes):
        place, apart = dev.partial_offset(row, other, parts, rows, TILE)
        one = dev.load_rows(left, place, apart, dev.exists(row, rows, TILE), TILE)
        dev.accumulate(every, dev.registers(one), dev.add)
    return dev.make_fragment(dev.block_reduce(dev.registers(every), dev.add, TILE), left.dtype)


def means(sums, rows, TILE):
    return [total / rows.n.to(type(total)) for total in row_sums(sums, TILE)]


def square(x):
    return x * x


def inverse_root(square, EPS):
    kind = type(square)
    return kind(1.0) / cute.math.sqrt(square + kind(EPS))


def add_exactly(totals, lost, values):
    """Running sums with more elements, and what adding them rounded off, after Knuth (TAOCP 2, 4.2.2). Integers lose
    nothing."""
    for r, value in enumerate(values):
        total = totals[r]
        new = total + value
        if isinstance(new, (Float32, Float64)):
            back = new - total
            lost[r] = lost[r] + ((total - (new - back)) + (value - back))
        totals[r] = new


def whole(total, lost):
    """A sum with what it rounded off, which is NaN where the sum is infinite."""
    return dev.select(lost == lost, total + lost, total)


def load_numbers(x, row, rows, TILE):
    """What there is one of to each of a thread's rows, of its own dtype."""
    x, at = x
    here = dev.exists(row, rows, TILE)
    return dev.registers(dev.load_rows(x, dev.row_offset(row, rows, at, TILE), at.row, here, TILE))


@cute.jit
def load_element(x: cute.Pointer, place: Int64, exists: Boolean):
    """One element, NaN where it doesn't exist."""
    held = cute.make_rmem_tensor((1,), x.dtype)
    held.fill(float("nan"))
    if exists:
        cute.autovec_copy(cute.make_tensor(x + place, cute.make_layout((1,))), held)
    return held


@cute.jit
def sum_over_rows(function: cutlass.Constexpr, tensors, rooms, outs, block, rows, TILE: cutlass.Constexpr):
    """Sums over all rows, of a block of elements: one to each output, of what a function makes of elements of tensors,
    and of what another launch has left of their rows."""
    sums = [make_sums(TILE) for _ in outs]
    for i in cutlass.range((rows.total + TILE.rows - 1) // TILE.rows):
        tXcX, *parts = dev.partition(i, rows, TILE, *tensors)
        values = [dev.load(part, tXcX, block, rows, TILE) for part in parts]
        left = [load_left(room, dev.first_row(i, TILE), rows, TILE) for room in rooms]
        terms = map_tiles(function, values, TILE, *left)
        for k, one in enumerate(sums):
            accumulate_sums(one, [[term[k] for term in vector] for vector in terms], TILE)
    element = dev.index(block, TILE) * TILE.block + dev.thread_coords(TILE)[1]
    for one, (out, at) in zip(sums, outs, strict=True):
        store_sum(thread_sums(*one)[0], out, Int64(element) * at.n, element < rows.n, TILE)


@cute.jit
def store_sum(total, out: cute.Pointer, at: Int64, exists: Boolean, TILE: cutlass.Constexpr):
    """What threads side by side across rows have of one element each, added up in one order, and written by one."""
    place, along = dev.thread_coords(TILE)
    room = dev.shared(type(total), cute.make_layout((TILE.places, TILE.lanes)), TILE)
    room[place, along] = total
    cute.arch.sync_threads()
    if exists and place == 0:
        found = room[0, along]
        for i in range_constexpr(1, TILE.places):
            found = found + room[i, along]
        cute.make_tensor(out + at, cute.make_layout((1,)))[0] = found.to(out.dtype)
