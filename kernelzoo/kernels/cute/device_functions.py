"""Device functions of several operations: coordinates of rows and elements, loads, stores, and reductions of rows.

A kernel is Python code that runs once, when it is compiled. A list of scalars becomes registers, and a loop over it is
unrolled. TILE says how threads share rows, see :mod:`kernelzoo.kernels.cute.tiles`. Here a *block* is a tile's range of
a row, and a *thread block* is CUDA's."""

from typing import Any

import cutlass
from cutlass import Float32, Float64, Int32, Int64, cute, range_constexpr

from kernelzoo.layout import VECTOR_BYTES


def block_index(WAIT_FOR_PREVIOUS):
    """Return this thread block's number. If WAIT_FOR_PREVIOUS, first wait until the previous launch has ended."""
    if WAIT_FOR_PREVIOUS:
        cute.arch.griddepcontrol_wait()
    return cute.arch.block_idx()[0]


# --- Coordinates and addresses ---------------------------------------------------------------------------------------


def to_index(value, TILE):
    """Convert a number of rows or elements to an integer: of 64 bits if there may be 2^30 or more, else of 32."""
    return Int64(value) if TILE.far else Int32(value)


def thread_coords(TILE):
    """Return this thread's coordinates: (across rows, along rows)."""
    thread, _, _ = cute.arch.thread_idx()
    if TILE.across:
        return thread % TILE.threads_across_rows, thread // TILE.threads_across_rows
    return thread // TILE.lanes, thread % TILE.lanes


def first_row(tile, TILE):
    """Return this thread's first row in tile ``tile``."""
    place, _ = thread_coords(TILE)
    return to_index(tile, TILE) * TILE.rows + to_index(place * TILE.rows_per_thread, TILE)


def blocks_per_row(rows, TILE):
    """Return the number of blocks per row. The last block may have fewer elements."""
    if TILE.single:
        return to_index(1, TILE)
    longest = rows.n + TILE.vector - 1 if TILE.has_partial_vectors else rows.n
    return (longest + TILE.block_length - 1) // TILE.block_length


def row_block_range(rows, TILE):
    """Return (first block, last block + 1) of a complete row."""
    return to_index(0, TILE), blocks_per_row(rows, TILE)


def tile_and_part(number, parts):
    """Return (tile, part) of thread block ``number``. The rows of a tile have ``parts`` parts."""
    tile = number // parts
    return tile, number - tile * parts


def part_range(part, span, rows, TILE):
    """Return (first block, last block + 1) of a part of a row. Parts have ``span`` blocks."""
    begin = to_index(part, TILE) * span
    return begin, cutlass.min(begin + span, blocks_per_row(rows, TILE))


def partial_offset(row, part, parts, rows, TILE):
    """Return (offset, stride) of one part's results for a thread's rows, in a workspace. Results of all parts of a row
    are adjacent there. But if rows are columns, results of adjacent columns are."""
    if TILE.across:
        return Int64(part) * Int64(rows.total) + Int64(row), Int64(1)
    return Int64(row) * Int64(parts) + Int64(part), Int64(parts)


def row_offset(row, rows, strides, TILE):
    """Return the offset of a row's first element in a tensor."""
    if not TILE.has_row_groups:
        return Int64(row) * strides.row
    group = row // rows.inner
    return Int64(group) * strides.group + Int64(row - group * rows.inner) * strides.row


def row_exists(row, rows, TILE):
    """Return whether the problem has row ``row``. The last tile may extend past the problem's rows."""
    return cutlass.Boolean(True) if TILE.full else row < rows.total


def make_matrix(x, strides, shape, TILE):
    """Return a tensor as a matrix: rows x elements."""
    row, n = strides.row, 1 if strides.dense else strides.n
    if strides.vectorized and TILE.across:
        row, n = 1, cute.assume(n, divby=TILE.vector)
    elif strides.vectorized and not TILE.has_partial_vectors:
        row = cute.assume(row, divby=TILE.vector)
    return cute.make_tensor(x, cute.make_layout(shape, stride=(row, n)))


def move_pointer_to_row(tXgX, tXcX, rows, strides, TILE):
    """Return a thread's elements of a matrix, and their coordinates, with the address of the thread's first row. The
    matrix's strides give a wrong address if rows are in groups or start inside a vector."""
    row, bytes, align = tXcX[0][0], tXgX.element_type.width // 8, tXgX.iterator.alignment
    start = row_offset(row, rows, strides, TILE)
    address = tXgX.iterator.toint() + (start - Int64(row) * strides.row) * bytes
    if TILE.has_partial_vectors:
        past, align = (start & (TILE.vector - 1)).to(Int32), VECTOR_BYTES
        address, tXcX = address - Int64(past) * bytes, cute.domain_offset(((-past, 0), 0, 0, 0), tXcX)
    pointer = cute.make_ptr(tXgX.element_type, address, tXgX.memspace, assumed_align=align)
    return cute.make_tensor(pointer, tXgX.layout), tXcX


def partition(tile, rows, TILE, *tensors):
    """Return the coordinates (row, element) of a thread's elements of a tile, then these elements in each tensor.
    Tensors are pairs (address, strides). All results are CuTe tensors of shape (vector, 1, vectors, blocks)."""
    tile, (thread, _, _) = to_index(tile, TILE), cute.arch.thread_idx()
    apart = (1, TILE.threads_across_rows) if TILE.across else (TILE.lanes, 1)
    threads = cute.make_layout((TILE.threads_across_rows, TILE.lanes), stride=apart)
    values = cute.make_layout((TILE.rows_per_thread, TILE.row_elements_per_vector))
    shape = rows.total, rows.n + TILE.vector - 1 if TILE.has_partial_vectors else rows.n
    parts: list[Any] = []
    for x, at in tensors:
        copied = min(TILE.vector, 8 * VECTOR_BYTES // x.dtype.width) if at.vectorized else 1
        thr_copy = cute.make_tiled_copy_tv(copy_atom(x.dtype, copied), threads, values).get_slice(thread)
        mX, idX = make_matrix(x, at, shape, TILE), cute.make_identity_tensor(shape)
        gX, cX = (cute.local_tile(m, TILE.tiler, (tile, None)) for m in (mX, idX))
        tXgX, tXcX = thr_copy.partition_S(gX), thr_copy.partition_S(cX)
        tXgX, tXcX = move_pointer_to_row(tXgX, tXcX, rows, at, TILE)
        parts.append(tXgX)
    return [tXcX, *parts]  # all tensors have the same coordinates


# --- Loads and stores ------------------------------------------------------------------------------------------------


def copy_atom(dtype, elements):
    """Return CuTe's operation that copies ``elements`` elements at once."""
    return cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=elements * dtype.width)


def vector_predicates(tXcX, copies, rows, TILE):
    """Return whether each vector begins in its row, for each of its ``copies`` copies. Return None if all do."""
    if TILE.whole and TILE.full:
        return None
    inside = cute.make_rmem_tensor((TILE.each,), cutlass.Boolean)
    for i in range(TILE.each):
        row, element = tXcX[0, 0, i]
        inside[i] = row_exists(row, rows, TILE) & (element < rows.n)
    return cute.make_tensor(inside.iterator, cute.make_layout((copies, 1, TILE.each), stride=(0, 0, 1)))


def copy(source, target, tXcX, rows, TILE):
    """Copy a thread's elements of a block from one tensor to another. Elements outside of rows are not copied."""
    copied, copies = source.shape[0] if source.memspace == cute.AddressSpace.gmem else target.shape[0]
    atom = copy_atom(source.element_type, copied)
    if TILE.has_partial_vectors:
        copy_with_partial_vectors(atom, source, target, tXcX, rows, TILE)
    else:
        cute.copy(atom, source, target, pred=vector_predicates(tXcX, copies, rows, TILE))


@cute.jit
def copy_with_partial_vectors(atom, source, target, tXcX, rows, TILE: cutlass.Constexpr):
    """Copy a block of rows that may start and end inside vectors. Incomplete vectors are copied by elements."""
    for i in range_constexpr(TILE.each):
        row, element = tXcX[0, 0, i]
        here = row_exists(row, rows, TILE)
        if here and element >= 0 and element + TILE.vector <= rows.n:
            cute.copy(atom, source[None, 0, i], target[None, 0, i])
        elif here and element < rows.n:
            for v in range_constexpr(TILE.vector):
                if element + v >= 0 and element + v < rows.n:
                    target[v, 0, i] = source[v, 0, i]


def acc_type(TILE):
    """Return the dtype of computation: float32 for half precision, 32 bits for shorter integers."""
    if TILE.dtype == "float64":
        return Float64
    if "float" in TILE.dtype:
        return Float32
    return Int64 if TILE.dtype == "int64" else Int32


def to_acc(value, TILE):
    """Convert an element to the dtype of computation. CuTe reads uint8 as int8, so the sign is removed."""
    wide = value.to(acc_type(TILE))
    return wide & 255 if TILE.dtype == "uint8" else wide


def block_number(i, TILE):
    """Return the number of block i, or the constant 0 if rows have one block: CuTe can't compile a 64-bit 0."""
    return 0 if TILE.single else to_index(i, TILE)


def load(tXgX, tXcX, i, rows, TILE, fill=0.0):
    """Load a thread's elements of block i, in lists per vector, as ``acc_type``. Past rows' ends, return ``fill``."""
    tXrX = cute.make_rmem_tensor(tXgX.shape[:3], tXgX.element_type)
    if not (TILE.whole and TILE.full):
        tXrX.fill(fill)
    i = block_number(i, TILE)
    copy(tXgX[None, None, None, i], tXrX, tXcX[None, None, None, i], rows, TILE)
    return [[to_acc(tXrX[v, 0, j], TILE) for v in range(TILE.vector)] for j in range(TILE.each)]


def store(values, tXgO, tXcX, i, rows, TILE):
    """Store values, in lists as ``load`` returns, to block i of a tensor, up to a row's end. All values are
    converted together, because the hardware converts half precision in pairs."""
    wide = cute.make_rmem_tensor(tXgO.shape[:3], type(values[0][0]))
    for j, vector in enumerate(values):
        for v, value in enumerate(vector):
            wide[v, 0, j] = value
    tXrO = cute.make_rmem_tensor(tXgO.shape[:3], tXgO.element_type)
    tXrO.store(wide.load().to(tXgO.element_type))
    i = block_number(i, TILE)
    copy(tXrO, tXgO[None, None, None, i], tXcX[None, None, None, i], rows, TILE)


# --- Reductions ------------------------------------------------------------------------------------------------------


def tree_reduce(values, join):
    """Reduce a list by the function ``join``, pairwise, as a tree."""
    values = list(values)
    while len(values) > 1:
        values = [join(*values[i : i + 2]) if i + 1 < len(values) else values[i] for i in range(0, len(values), 2)]
    return values[0]


def group_by_row(values, TILE):
    """Split a thread's values into one list per row."""
    if TILE.across:
        return [[vector[v] for vector in values] for v in range(TILE.vector)]
    return [[value for vector in values for value in vector]]


def broadcast_rows(row_values, TILE):
    """Return a thread's values per row, repeated for every element of a vector."""
    return row_values if TILE.across else row_values * TILE.vector


def map_rows(function, values, TILE, *of_rows):
    """Apply a function to each of a thread's elements, and to the values ``of_rows`` of its row."""
    rows = [broadcast_rows(one, TILE) for one in of_rows]
    return [[function(*element) for element in zip(vector, *rows, strict=True)] for vector in values]


def thread_reduce(values, join, TILE):
    """Reduce a thread's elements to one value per row."""
    return [tree_reduce(row, join) for row in group_by_row(values, TILE)]


def allocate_shared(kind, layout, TILE):
    """Allocate shared memory, aligned so that no vector load also reads other data. If rows are columns, align only to
    elements. So there are no vector loads, which would take too many registers."""
    align = kind.width // 8 if TILE.across else VECTOR_BYTES
    return cute.make_tensor(cute.arch.alloc_smem(kind, cute.size(layout), align), layout)


def block_reduce(values, join, TILE):
    """Reduce one value per row over all threads that share a row: by shuffles, then through shared memory. The order is
    the same in all threads, so that all get the same bits."""
    for mask in TILE.shuffle_masks:
        values = [join(value, cute.arch.shuffle_sync_bfly(value, offset=mask)) for value in values]
    if TILE.row_warps == 1:
        return values
    place, along = thread_coords(TILE)
    layout = cute.make_layout((TILE.rows_per_thread, TILE.threads_across_rows, TILE.row_warps))
    room = allocate_shared(type(values[0]), layout, TILE)
    left = cute.make_rmem_tensor((TILE.rows_per_thread,), type(values[0]))
    for r, value in enumerate(values):
        left[r] = value
    store_if(left, room[None, place, along // TILE.row_lanes], along % TILE.row_lanes == 0)
    cute.arch.sync_threads()
    return [tree_reduce([room[r, place, w] for w in range(TILE.row_warps)], join) for r in range(TILE.rows_per_thread)]


def row_reduce(values, join, TILE):
    """Reduce all elements of each row to one value. Every thread that shares a row gets this value."""
    return block_reduce(thread_reduce(values, join, TILE), join, TILE)


@cute.jit
def store_if(values: cute.Tensor, target: cute.Tensor, is_writer: cutlass.Boolean):
    """Store a thread's values in ``target`` if ``is_writer``: true for one of the threads with equal values."""
    if is_writer:
        cute.autovec_copy(values, target)


def select(condition, a, b):
    """Return a if the condition holds, else b. Both have the same type."""
    return type(a)(cutlass.select_(condition, a, b))


def add(a, b):
    return a + b


def multiply(a, b):
    return a * b


def maximum(a, b):
    """Return the maximum. If a value is NaN, the result may be the other value."""
    if isinstance(a, Float32):
        return cute.arch.fmax(a, b)
    return select(a > b, a, b)


def minimum(a, b):
    """Return the minimum, or NaN if either value is NaN."""
    if isinstance(a, Float32):
        return cute.arch.fmin(a, b, nan=True)
    if isinstance(a, Float64):
        return select((a < b) | (a != a), a, b)
    return cutlass.min(a, b)


# --- Accumulators ----------------------------------------------------------------------------------------------------


def make_accumulator(value, TILE, kind=None):
    """Return registers that hold one value per row of a thread. Loops may change their values."""
    kind = kind or acc_type(TILE)
    kept = cute.make_rmem_tensor((TILE.rows_per_thread,), kind)
    for r in range(TILE.rows_per_thread):
        kept[r] = kind(value)
    return kept


def accumulate(accumulator, values, join):
    """Replace each value of an accumulator by join(value, new value), with the new values in ``values``."""
    for r, value in enumerate(values):
        accumulator[r] = join(accumulator[r], value)


def list_values(accumulator):
    """Return the values of an accumulator as a list."""
    return [accumulator[r] for r in range(cute.size(accumulator))]


@cute.jit
def store_rows(values, out, start: Int64, stride: Int64, is_writer: cutlass.Boolean, TILE: cutlass.Constexpr):
    """Write a thread's values, one per row, if ``is_writer``: true for one of the threads with equal values."""
    layout = cute.make_layout((TILE.rows_per_thread,), stride=(stride,))
    if is_writer:
        cute.autovec_copy(values, cute.make_tensor(out + start, layout))


def store_partial(values, out, row, part, parts, rows, TILE):
    """Write a part's results, one per row of a thread, to a workspace at ``partial_offset``."""
    is_writer = row_exists(row, rows, TILE) & (thread_coords(TILE)[1] == 0)
    store_rows(make_fragment(values, out.dtype), out, *partial_offset(row, part, parts, rows, TILE), is_writer, TILE)


def make_fragment(values, dtype):
    """Return one value per row in registers, converted to a dtype."""
    fragment = cute.make_rmem_tensor((len(values),), dtype)
    for r, value in enumerate(values):
        fragment[r] = value.to(dtype)
    return fragment


@cute.jit
def load_rows(x: cute.Pointer, start: Int64, stride: Int64, rows_exist: cutlass.Boolean, TILE: cutlass.Constexpr):
    """Load one value per row of a thread into registers, or 0 if its rows don't exist."""
    own = cute.make_rmem_tensor((TILE.rows_per_thread,), x.dtype)
    own.fill(0)
    if rows_exist:
        cute.autovec_copy(cute.make_tensor(x + start, cute.make_layout((TILE.rows_per_thread,), stride=(stride,))), own)
    return own
