"""Device functions that operations share: indices, loads, accumulators and sums for tiles of rows.

Arrays have three axes. For contiguous rows these are groups, rows and elements. For strided rows they are groups,
elements and rows, so that the last axis is always contiguous. AXIS is the axis of the elements, 2 or 1. SHAPE is the
tile's shape. A *strip* is a tile's index along the rows, a *block* its index along the elements. A *lane* accumulates
LANE_ELEMENTS (FOLD in kernels) neighbouring elements of a contiguous row, or one element of a strided row."""

import cuda.tile as ct


def tile_coords(number, x, AXIS, SHAPE):
    """Return a tile's indices along the axis of groups and the axis of rows (group, strip). Strips vary fastest."""
    strips = ct.num_tiles(x, 3 - AXIS, SHAPE)
    return number // strips, number % strips


def block_index(group, strip, block, AXIS):
    """Return a block's index along the three axes, counted in tiles."""
    return (group, strip, block) if AXIS == 2 else (group, block, strip)


def reduced_shape(SHAPE, AXIS, size):
    """Return SHAPE with ``size`` along AXIS."""
    return (SHAPE[0], SHAPE[1], size) if AXIS == 2 else (SHAPE[0], size, SHAPE[2])


def lane_shape(SHAPE, AXIS, LANE_ELEMENTS):
    """Return the shape of one value per lane of a tile. Along contiguous rows, a lane has LANE_ELEMENTS elements."""
    return reduced_shape(SHAPE, AXIS, SHAPE[2] // LANE_ELEMENTS) if AXIS == 2 else SHAPE


def lane_sums(x, AXIS, LANE_ELEMENTS):
    """Return the sum of each lane's elements, in ``lane_shape``."""
    return ct.sum(ct.reshape(x, (*lane_shape(x.shape, AXIS, LANE_ELEMENTS), LANE_ELEMENTS)), 3) if AXIS == 2 else x


def acc_dtype(x):
    """Return the accumulator dtype of an array: float32 for half precision, 64-bit integers for integers."""
    if x.dtype == ct.float64:
        return ct.float64
    return ct.float32 if x.dtype == ct.float32 or x.dtype == ct.float16 or x.dtype == ct.bfloat16 else ct.int64


def float64_constant(BITS, dtype):
    """Return the number with these float64 bits in a dtype, for broadcast. cuTile would round a constant to float32."""
    return ct.astype(ct.bitcast(ct.full((1, 1, 1), BITS, ct.int64), ct.float64), dtype)


def row_mask(x, block, AXIS, SHAPE):
    """Return a mask, for broadcast, of a block's element indices that are inside the rows."""
    element = ct.arange(SHAPE[AXIS], dtype=ct.int32)
    element = ct.reshape(element, (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1))
    wide_block = block + 0 * x.shape[AXIS]  # in 64 bits if sizes are, since long rows need them
    return element < x.shape[AXIS] - wide_block * SHAPE[AXIS]


def tile_is_inside(x, place, SHAPE):
    """Whether a tile is entirely inside x."""
    first, second, third = place
    one, two, three = SHAPE
    return (first < x.shape[0] // one) & (second < x.shape[1] // two) & (third < x.shape[2] // three)


def part_coords(x, parts, span, AXIS, SHAPE):
    """Return this program's (group, strip, part, first block, end block). A part has ``span`` blocks."""
    group, strip = tile_coords(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    return group, strip, part, part * span, min(part * span + span, ct.num_tiles(x, AXIS, SHAPE))


def load_tile(x, place, padding, AXIS, SHAPE):
    """Load a tile in the accumulator dtype, with ``padding`` past the end of rows. Mask only tiles across x's end."""
    if tile_is_inside(x, place, SHAPE):
        return load_whole_tile(x, place, SHAPE)
    return load_masked_tile(x, place, padding, AXIS, SHAPE)


def load_whole_tile(x, place, SHAPE):
    """Load a tile that is entirely inside x, in the accumulator dtype."""
    return ct.astype(ct.load(x, place, SHAPE, check_bounds=False, allow_tma=False), acc_dtype(x))


def load_masked_tile(x, place, padding, AXIS, SHAPE):
    """Load a tile that may cross the end of x. Without a padding mode, tileiras would branch per vector. In half
    precision each branch would wait for the previous one. A mask sets ``padding`` past the end of rows."""
    tile = ct.astype(ct.load(x, place, SHAPE, padding_mode=ct.PaddingMode.ZERO, allow_tma=False), acc_dtype(x))
    return ct.where(row_mask(x, place[AXIS], AXIS, SHAPE), tile, padding)


def load_sum(x, y, place, SHAPE):
    """Return the sum of two tiles, 0 outside x. One branch has both loads, so that neither waits for the other."""
    if tile_is_inside(x, place, SHAPE):
        return load_whole_tile(x, place, SHAPE) + load_whole_tile(y, place, SHAPE)
    return load_zero_padded(x, place, SHAPE) + load_zero_padded(y, place, SHAPE)


def inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE):
    """Return the blocks [begin, end) as two ranges: (True, begin, end) of blocks entirely inside x, (False, begin, end)
    of others. So each range has a loop without a branch. A loop with a branch would take far more registers."""
    inside = strip < x.shape[3 - AXIS] // SHAPE[3 - AXIS]
    if SHAPE[0] > 1:
        inside = inside & (group < x.shape[0] // SHAPE[0])
    # Blocks are counted in 32 bits, whatever sizes are.
    whole = max(begin, min(end, ct.astype(x.shape[AXIS] // SHAPE[AXIS], ct.int32) if inside else 0))
    return (True, begin, whole), (False, whole, end)


def load_block(x, place, padding, AXIS, SHAPE, WHOLE):
    """Load a block as ``load_tile`` does. WHOLE: whether the block is known to be entirely inside x."""
    if WHOLE:
        return load_whole_tile(x, place, SHAPE)
    return load_masked_tile(x, place, padding, AXIS, SHAPE)


def per_row_shape(SHAPE, AXIS):
    """Return the tile's shape without the axis of elements, for tensors with one element per row."""
    return (SHAPE[0], SHAPE[1]) if AXIS == 2 else (SHAPE[0], SHAPE[2])


def load_weights(weight, block, AXIS, SHAPE, WHOLE=None):
    """Load a block of a tensor of n elements, such as a weight, in the accumulator dtype, with 0 past the end. WHOLE:
    whether the block is entirely inside, or None if unknown."""
    place, shape = block_index(0, 0, block, AXIS), (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1)
    if WHOLE is None:
        return load_tile(weight, place, 0.0, AXIS, shape)
    return load_whole_tile(weight, place, shape) if WHOLE else load_zero_padded(weight, place, shape)


def load_per_row(x, group, strip, AXIS, SHAPE):
    """Load one element per row of a tile, for broadcast along the row. Rows that don't exist have 0."""
    tile = ct.load(x, (group, strip), per_row_shape(SHAPE, AXIS), padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    return ct.reshape(tile, reduced_shape(SHAPE, AXIS, 1))


def load_per_row_acc(x, group, strip, AXIS, SHAPE):
    """Load as ``load_per_row`` does, in the accumulator dtype."""
    return ct.astype(load_per_row(x, group, strip, AXIS, SHAPE), acc_dtype(x))


def gather_elements(x, group, strip, element, inside, padding, AXIS, SHAPE):
    """Return the rows' elements at the indices ``element``, or ``padding`` where the mask ``inside`` is False."""
    groups = ct.reshape(ct.arange(SHAPE[0], dtype=ct.int64) + group * SHAPE[0], (SHAPE[0], 1, 1))
    lanes = ct.arange(SHAPE[3 - AXIS], dtype=ct.int64) + strip * SHAPE[3 - AXIS]
    lanes = ct.reshape(lanes, (1, SHAPE[1], 1) if AXIS == 2 else (1, 1, SHAPE[2]))
    place = (groups, lanes, element) if AXIS == 2 else (groups, element, lanes)
    return ct.gather(x, place, mask=inside, padding_value=padding)


def load_zero_padded(x, place, SHAPE):
    """Load a tile in the accumulator dtype, with 0 outside x: past the end of rows, and in rows that don't exist."""
    tile = ct.load(x, place, SHAPE, padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    return ct.astype(tile, acc_dtype(x))


def element_indices(block, AXIS, SHAPE):
    """Return the 64-bit indices of a block's elements within their rows, for broadcast."""
    element = ct.reshape(ct.arange(SHAPE[AXIS], dtype=ct.int64), (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1))
    return element + ct.astype(block, ct.int64) * SHAPE[AXIS]


def add_exactly(total, lost, x):
    """Return (total + x, lost + that sum's rounding error), after Knuth (TAOCP 2, 4.2.2). Integers have no error."""
    new = total + x
    if total.dtype == ct.int64:
        return new, lost
    back = new - total
    return new, lost + ((total - (new - back)) + (x - back))


def accumulate(total, lost, addend, x):
    """Add ``addend`` to (sum, its errors). If array x has half precision, its own rounding hides these: skip them."""
    if x.dtype == ct.float16 or x.dtype == ct.bfloat16:
        return total + addend, lost
    return add_exactly(total, lost, addend)


def add_rounding_error(total, lost):
    """Return total + lost, or total if lost is NaN. An infinite sum makes it NaN."""
    return total + ct.where(lost == lost, lost, 0)


def row_mean(total, lost, x, AXIS):
    """Return each row's mean, from the lanes' sums and the rounding errors of these sums."""
    return ct.sum(add_rounding_error(total, lost), AXIS, keepdims=True) / x.shape[AXIS]


def subtract_mean(tile, mean, x, place, AXIS, SHAPE):
    """Return a tile minus its rows' means, with 0 past the end of rows."""
    if tile_is_inside(x, place, SHAPE):
        return tile - mean
    return ct.where(row_mask(x, place[AXIS], AXIS, SHAPE), tile - mean, 0.0)


def inverse_root(mean, EPS):
    """Return 1 / sqrt(mean + eps). EPS: the float64 bits of eps."""
    return 1 / ct.sqrt(mean + float64_constant(EPS, mean.dtype))


# --- Rows that begin anywhere in a vector of VECTOR_SIZE elements (PACK in kernels) -----------------------------------
#
# x has all rows one after the other along its last axis. A row of n elements begins at ``row_start``. The aligned
# vectors inside a row are read as a slice of x. The other elements, at the row's ends, are read one by one.


def whole_vectors(x, row_start, n, VECTOR_SIZE):
    """Return the slice of x with the aligned vectors inside a row. If VECTOR_SIZE is 0, rows are aligned: return x."""
    if VECTOR_SIZE == 0:
        return x
    aligned_start = (row_start + (VECTOR_SIZE - 1)) // VECTOR_SIZE * VECTOR_SIZE
    return x.slice(2, aligned_start, (row_start + n) // VECTOR_SIZE * VECTOR_SIZE)


def load_unaligned_ends(x, row_start, n, padding, dtype, VECTOR_SIZE):
    """Return (indices, mask, elements) of VECTOR_SIZE elements at each end of a row, as dtype. The mask is True
    for elements outside ``whole_vectors``. The other elements are replaced by ``padding``."""
    place = ct.reshape(ct.arange(2 * VECTOR_SIZE, dtype=ct.int32), (1, 1, 2 * VECTOR_SIZE))
    place = ct.where(place < VECTOR_SIZE, place, place + (n - 2 * VECTOR_SIZE))
    before = (row_start + (VECTOR_SIZE - 1)) // VECTOR_SIZE * VECTOR_SIZE - row_start
    after = (row_start + n) // VECTOR_SIZE * VECTOR_SIZE - row_start
    outside = (place < before) | (place >= after)
    ends = x.slice(2, row_start, row_start + n).get_raw_memory().load_offset(place, mask=outside, padding_value=padding)
    return place, outside, ct.astype(ends, dtype)


def store_unaligned_ends(out, row_start, n, place, outside, ends):
    """Store ``ends`` at a row's indices ``place``, where the mask ``outside`` is True."""
    row = out.slice(2, row_start, row_start + n).get_raw_memory()
    row.store_offset(place, ct.astype(ends, out.dtype), mask=outside)
