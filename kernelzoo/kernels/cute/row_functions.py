"""Device functions of forms that read rows block by block: elements, their indices, and values per row.

TILE says how threads share rows, see :mod:`kernelzoo.kernels.cute.device_functions`."""

import cutlass
from cutlass import Boolean, Float32, Float64, Int64, cute, range_constexpr

from kernelzoo.kernels.cute import device_functions as dev


def make_block_loader(TILE, load):
    """Return a function that loads block i. If rows have one block, load it now. The function then returns it."""
    if not TILE.single:
        return load
    values = load(0)
    return lambda i: values


def load_scaled(tXgX, tXgW, tXcX, i, rows, TILE):
    """Return a thread's elements of block i, multiplied by their weights."""
    weights = dev.load(tXgW, tXcX, i, rows, TILE)
    return map_tiles(dev.multiply, (dev.load(tXgX, tXcX, i, rows, TILE), weights), TILE)


def load_workspace(workspace, row, rows, TILE):
    """Load values, one per row of a thread, that another launch stored in the workspace ``workspace``."""
    return dev.list_values(dev.load_rows(workspace, Int64(row), Int64(1), dev.row_exists(row, rows, TILE), TILE))


def element_indices(tXcX, i, TILE):
    """Return the indices in their rows of a thread's elements of block i."""
    return [[tXcX[v, 0, j, i][1] for v in range(TILE.vector)] for j in range(TILE.each)]


def are_inside_row(tXcX, i, rows, TILE):
    """Return whether each of a thread's elements of block i is inside its row."""
    if TILE.whole:
        return [[Boolean(True)] * TILE.vector] * TILE.each
    return [[(place >= 0) & (place < rows.n) for place in vector] for vector in element_indices(tXcX, i, TILE)]


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
    """Add a thread's elements ``values`` to its running sums."""
    totals, lost = sums
    add_compensated(totals, lost, dev.thread_reduce(values, dev.add, TILE))


def thread_sums(totals, lost):
    """Return a thread's sums, corrected by their rounding errors."""
    return [corrected_sum(*pair) for pair in zip(dev.list_values(totals), dev.list_values(lost), strict=True)]


def row_sums(sums, TILE):
    """Add up the partial sums of all threads that share a row. Return one total per row of this thread."""
    return dev.block_reduce(thread_sums(*sums), dev.add, TILE)


@cute.jit
def sum_first_parts(partials: cute.Pointer, row, summed_parts, parts, rows, TILE: cutlass.Constexpr):
    """Return the sums of the first ``summed_parts`` parts' results for a thread's rows, added in a fixed order."""
    every = dev.make_accumulator(0, TILE, partials.dtype)
    for other in cutlass.range(dev.thread_coords(TILE)[1], summed_parts, TILE.lanes):
        place, apart = dev.partial_offset(row, other, parts, rows, TILE)
        one = dev.load_rows(partials, place, apart, dev.row_exists(row, rows, TILE), TILE)
        dev.accumulate(every, dev.list_values(one), dev.add)
    return dev.make_fragment(dev.block_reduce(dev.list_values(every), dev.add, TILE), partials.dtype)


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
    """Return a sum plus its rounding error. An infinite sum has the error NaN, which is ignored."""
    return dev.select(lost == lost, total + lost, total)


def load_row_values(tensor, row, rows, TILE):
    """Load one value per row of a thread, in the tensor's dtype."""
    tensor, at = tensor
    rows_exist = dev.row_exists(row, rows, TILE)
    return dev.list_values(dev.load_rows(tensor, dev.row_offset(row, rows, at, TILE), at.row, rows_exist, TILE))


@cute.jit
def load_element(x: cute.Pointer, offset: Int64, exists: Boolean):
    """Load one element, or return NaN unless the element exists."""
    held = cute.make_rmem_tensor((1,), x.dtype)
    held.fill(float("nan"))
    if exists:
        cute.autovec_copy(cute.make_tensor(x + offset, cute.make_layout((1,))), held)
    return held


@cute.jit
def sum_over_rows(function: cutlass.Constexpr, tensors, workspaces, outs, block, rows, TILE: cutlass.Constexpr):
    """Write sums over all rows, for one block of elements, to each output. ``function`` returns the terms, given an
    element of each tensor and the row's values in ``workspaces``, which another launch stored."""
    sums = [make_sums(TILE) for _ in outs]
    for i in cutlass.range((rows.total + TILE.rows - 1) // TILE.rows):
        tXcX, *parts = dev.partition(i, rows, TILE, *tensors)
        values = [dev.load(part, tXcX, block, rows, TILE) for part in parts]
        left = [load_workspace(room, dev.first_row(i, TILE), rows, TILE) for room in workspaces]
        terms = map_tiles(function, values, TILE, *left)
        for k, one in enumerate(sums):
            accumulate_sums(one, [[term[k] for term in vector] for vector in terms], TILE)
    element = dev.to_index(block, TILE) * TILE.block_length + dev.thread_coords(TILE)[1]
    for one, (out, at) in zip(sums, outs, strict=True):
        store_sum(thread_sums(*one)[0], out, Int64(element) * at.n, element < rows.n, TILE)


@cute.jit
def store_sum(total, out: cute.Pointer, offset: Int64, exists: Boolean, TILE: cutlass.Constexpr):
    """Add up the sums that several threads have for the same element, in a fixed order, and write the result."""
    across, along = dev.thread_coords(TILE)
    room = dev.allocate_shared(type(total), cute.make_layout((TILE.threads_across_rows, TILE.lanes)), TILE)
    room[across, along] = total
    cute.arch.sync_threads()
    if exists and across == 0:
        found = room[0, along]
        for i in range_constexpr(1, TILE.threads_across_rows):
            found = found + room[i, along]
        cute.make_tensor(out + offset, cute.make_layout((1,)))[0] = found.to(out.dtype)
