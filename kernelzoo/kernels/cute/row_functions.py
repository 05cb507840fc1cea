"""Device functions of forms that read rows block by block: elements, their indices, and values per row.

TILE says how threads share rows, see :mod:`kernelzoo.kernels.cute.device_functions`."""

import cutlass
from cutlass import Boolean, Float32, Float64, Int64, cute, range_constexpr

from kernelzoo.kernels.cute import device_functions as dev


def load_block_once(TILE, load):
    """Return a function that loads block i. If rows have only one block, load it here, once."""
    if not TILE.single:
        return load
    values = load(0)
    return lambda i: values


def load_scaled(tXgX, tXgW, tXcX, i, rows, TILE):
    """Return a thread's elements of block i, multiplied by their weights."""
    weights = dev.load(tXgW, tXcX, i, rows, TILE)
    return map_tiles(dev.multiply, (dev.load(tXgX, tXcX, i, rows, TILE), weights), TILE)


def load_workspace(room, row, rows, TILE):
    """Load values, one per row of a thread, that another launch stored in the workspace ``room``."""
    return dev.list_values(dev.load_rows(room, Int64(row), Int64(1), dev.row_exists(row, rows, TILE), TILE))


def places(tXcX, i, TILE):
    """Return the index in its row of each of a thread's elements of block i."""
    return [[tXcX[v, 0, j, i][1] for v in range(TILE.vector)] for j in range(TILE.each)]


def are_inside_row(tXcX, i, rows, TILE):
    """Return whether each of a thread's elements of block i is inside its row."""
    if TILE.whole:
        return [[Boolean(True)] * TILE.vector] * TILE.each
    return [[(place >= 0) & (place < rows.n) for place in vector] for vector in places(tXcX, i, TILE)]


def map_tiles(function, tiles, TILE, *of_rows):
    """Apply a function to corresponding elements of several tensors, and to the values ``of_rows`` of their row."""
    rows = [dev.broadcast_rows(one, TILE) for one in of_rows]
    return [
        [function(*elements) for elements in zip(*vectors, *rows, strict=True)] for vectors in zip(*tiles, strict=True)
    ]


def make_sums(TILE):
    """Return (running sums, their rounding errors) for a thread's rows, all 0."""
    return dev.make_accumulator(0, TILE), dev.make_accumulator(0, TILE)


def accumulate_sums(sums, values, TILE):
    """Add more elements to running sums."""
    totals, lost = sums
    add_compensated(totals, lost, dev.thread_reduce(values, dev.add, TILE))


def thread_sums(totals, lost):
    """Return a thread's sums, corrected by their rounding errors."""
    return [corrected_sum(*pair) for pair in zip(dev.list_values(totals), dev.list_values(lost), strict=True)]


def row_sums(sums, TILE):
    """Add up the threads' partial sums; return one total per row of this thread."""
    return dev.block_reduce(thread_sums(*sums), dev.add, TILE)


@cute.jit
def add_parts(left: cute.Pointer, row, many, parts, rows, TILE: cutlass.Constexpr):
    """Return the sums over the first ``many`` parts' results for a thread's rows. All threads add in the same order."""
    every = dev.make_accumulator(0, TILE, left.dtype)
    for other in cutlass.range(dev.thread_coords(TILE)[1], many, TILE.lanes):
        place, apart = dev.partial_offset(row, other, parts, rows, TILE)
        one = dev.load_rows(left, place, apart, dev.row_exists(row, rows, TILE), TILE)
        dev.accumulate(every, dev.list_values(one), dev.add)
    return dev.make_fragment(dev.block_reduce(dev.list_values(every), dev.add, TILE), left.dtype)


def means(sums, rows, TILE):
    return [total / rows.n.to(type(total)) for total in row_sums(sums, TILE)]


def square(x):
    return x * x


def inverse_root(square, EPS):
    kind = type(square)
    return kind(1.0) / cute.math.sqrt(square + kind(EPS))


def add_compensated(totals, lost, values):
    """Add values to running sums, and rounding errors (none for integers) to ``lost``, after Knuth (TAOCP 2, 4.2.2)."""
    for r, value in enumerate(values):
        total = totals[r]
        new = total + value
        if isinstance(new, (Float32, Float64)):
            back = new - total
            lost[r] = lost[r] + ((total - (new - back)) + (value - back))
        totals[r] = new


def corrected_sum(total, lost):
    """Return a sum plus its rounding error. If the sum is infinite, the error is NaN, and is ignored."""
    return dev.select(lost == lost, total + lost, total)


def load_numbers(x, row, rows, TILE):
    """Load one value per row of a thread, in its own dtype."""
    x, at = x
    here = dev.row_exists(row, rows, TILE)
    return dev.list_values(dev.load_rows(x, dev.row_offset(row, rows, at, TILE), at.row, here, TILE))


@cute.jit
def load_element(x: cute.Pointer, place: Int64, exists: Boolean):
    """Load one element, or NaN if it doesn't exist."""
    held = cute.make_rmem_tensor((1,), x.dtype)
    held.fill(float("nan"))
    if exists:
        cute.autovec_copy(cute.make_tensor(x + place, cute.make_layout((1,))), held)
    return held


@cute.jit
def sum_over_rows(function: cutlass.Constexpr, tensors, rooms, outs, block, rows, TILE: cutlass.Constexpr):
    """Write sums over all rows, for one block of elements, to each output. ``function`` returns the terms, given an
    element of each tensor and the row's values in ``rooms``, which another launch stored."""
    sums = [make_sums(TILE) for _ in outs]
    for i in cutlass.range((rows.total + TILE.rows - 1) // TILE.rows):
        tXcX, *parts = dev.partition(i, rows, TILE, *tensors)
        values = [dev.load(part, tXcX, block, rows, TILE) for part in parts]
        left = [load_workspace(room, dev.first_row(i, TILE), rows, TILE) for room in rooms]
        terms = map_tiles(function, values, TILE, *left)
        for k, one in enumerate(sums):
            accumulate_sums(one, [[term[k] for term in vector] for vector in terms], TILE)
    element = dev.index(block, TILE) * TILE.block + dev.thread_coords(TILE)[1]
    for one, (out, at) in zip(sums, outs, strict=True):
        store_sum(thread_sums(*one)[0], out, Int64(element) * at.n, element < rows.n, TILE)


@cute.jit
def store_sum(total, out: cute.Pointer, at: Int64, exists: Boolean, TILE: cutlass.Constexpr):
    """Add up the sums that several threads have for the same element, in a fixed order, and write the result."""
    place, along = dev.thread_coords(TILE)
    room = dev.allocate_shared(type(total), cute.make_layout((TILE.places, TILE.lanes)), TILE)
    room[place, along] = total
    cute.arch.sync_threads()
    if exists and place == 0:
        found = room[0, along]
        for i in range_constexpr(1, TILE.places):
            found = found + room[i, along]
        cute.make_tensor(out + at, cute.make_layout((1,)))[0] = found.to(out.dtype)
