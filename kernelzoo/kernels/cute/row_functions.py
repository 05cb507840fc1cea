"""Device functions of forms that go through rows block by block: elements and their places, and what rows have one of.

TILE says how rows lie on threads, see :mod:`kernelzoo.kernels.cute.device_functions`.
"""

import cutlass
from cutlass import Boolean, Float32, Float64, Int64, cute, range_constexpr

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute.device_functions import Rows


def load(x, start, element, at, rows, here, TILE, TENSOR=0, instead=0.0):
    """A thread's elements of a block, as they are computed. Past the end of the row what is said instead."""
    source = dev.make_thread_tensor(x, start, element, at, TILE, TENSOR)
    return dev.load_tile(source, here, element, rows.n, instead, TILE)


def hold(TILE, load, *arguments):
    """What is loaded of rows that have one block, to be read once; None if they have more."""
    return load(*arguments) if TILE.single else None


def held_or(held, load, *arguments):
    """What is held of a row's only block, or what is loaded of one of several."""
    return load(*arguments) if held is None else held


def load_scaled(x, weight, start, element, at, weight_at, rows, here, TILE, TENSOR, WEIGHT):
    """A thread's elements of a block, each times its weight."""
    weights = load(weight, Int64(0), element, weight_at, rows, here, TILE, WEIGHT)
    return map_tiles(dev.multiply, (load(x, start, element, at, rows, here, TILE, TENSOR), weights), TILE)


def load_left(room, row, here, TILE):
    """What another launch has left of each of a thread's rows in a workspace."""
    return dev.registers(dev.load_rows(room, Int64(row), Int64(1), here, TILE))


def row_offsets(row, rows, strides, TILE):
    """Elements from each tensor's first to a row's first."""
    return [dev.row_offset(row, rows, at, TILE) for at in strides]


def store(values, out, start, element, at, rows, here, TILE, TENSOR):
    """Such elements to a tensor."""
    target = dev.make_thread_tensor(out, start, element, at, TILE, TENSOR)
    dev.store_tile(values, target, here, element, rows.n, TILE)


def places(element, TILE):
    """Where in its row each of a thread's elements is."""
    beside = [0] * TILE.vector if TILE.across else range(TILE.vector)
    return [[element + (i * TILE.stride + v) for v in beside] for i in range(TILE.each)]


def inside(element, rows, TILE):
    """Whether each of a thread's elements is one of its row's."""
    if TILE.whole:
        return [[Boolean(True)] * TILE.vector] * TILE.each
    return [[(place >= 0) & (place < rows.n) for place in vector] for vector in places(element, TILE)]


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
def add_parts(left: cute.Pointer, row, many, parts, rows: Rows, here: Boolean, TILE: cutlass.Constexpr):
    """The sums of what so many of the parts of a thread's rows have left, in one order for all, in registers."""
    every = dev.make_accumulator(0, TILE, left.dtype)
    for other in cutlass.range(dev.thread_coords(TILE)[1], many, TILE.lanes):
        one = dev.load_rows(left, *dev.partial_offset(row, other, parts, rows, TILE), here, TILE)
        dev.accumulate(every, dev.registers(one), dev.add)
    return dev.make_fragment(dev.block_reduce(dev.registers(every), dev.add, TILE), left.dtype)


def square(x):
    """The square."""
    return x * x


def mean(total, n):
    """A sum of n elements, divided by n."""
    return total / n.to(type(total))


def inverse_root(square, EPS):
    """1 / sqrt(square + EPS)."""
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


def load_numbers(x, at, row, rows, here, TILE):
    """What there is one of to each of a thread's rows, of its own dtype."""
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
def sum_over_rows(total, out: cute.Pointer, at: Int64, exists: Boolean, TILE: cutlass.Constexpr):
    """What threads side by side across rows have of one element each, added up in one order, and written by one."""
    place, along = dev.thread_coords(TILE)
    room = cute.make_tensor(
        cute.arch.alloc_smem(type(total), TILE.threads), cute.make_layout((TILE.places, TILE.lanes))
    )
    room[place, along] = total
    cute.arch.sync_threads()
    if exists and place == 0:
        found = room[0, along]
        for i in range_constexpr(1, TILE.places):
            found = found + room[i, along]
        cute.make_tensor(out + at, cute.make_layout((1,)))[0] = found.to(out.dtype)
