"""Device functions that operations share: indices, loads and accumulator dtypes of tiles of rows.

An array of contiguous rows has the axes groups, rows and elements. If rows are strided, the axes are groups, elements
and rows, so that neighbours in memory are always neighbours along the last axis. AXIS is the axis of the elements, 2 or
1. SHAPE is a tile's shape, the same for all arrays.
"""

import cuda.tile as ct


def tile_coords(number, x, AXIS, SHAPE):
    """Return a tile's index (group, strip), counted in tiles. Tiles of one group follow each other."""
    strips = ct.num_tiles(x, 3 - AXIS, SHAPE)
    return number // strips, number % strips


def block_index(group, strip, block, AXIS):
    """Return the index of a block of a tile's rows, counted in tiles."""
    return (group, strip, block) if AXIS == 2 else (group, block, strip)


def reduced_shape(SHAPE, AXIS, size):
    """Return the tile's shape with another size along AXIS."""
    return (SHAPE[0], SHAPE[1], size) if AXIS == 2 else (SHAPE[0], size, SHAPE[2])


def lane_shape(SHAPE, AXIS, FOLD):
    """Return the shape that lanes keep of a tile: one value per FOLD elements of contiguous rows, else per element."""
    return reduced_shape(SHAPE, AXIS, SHAPE[2] // FOLD) if AXIS == 2 else SHAPE


def lane_sums(x, AXIS, FOLD):
    """Return a tile summed to its ``lane_shape``."""
    return ct.sum(ct.reshape(x, (*lane_shape(x.shape, AXIS, FOLD), FOLD)), 3) if AXIS == 2 else x


def acc_dtype(x):
    """Return the accumulator dtype of an array: float32 for half precision, 64-bit integers for integers."""
    if x.dtype == ct.float64:
        return ct.float64
    return ct.float32 if x.dtype == ct.float32 or x.dtype == ct.float16 or x.dtype == ct.bfloat16 else ct.int64


def float64_constant(BITS, dtype):
    """Return a float64 number from its bits, to be broadcast to a tile: cuTile rounds a constant to float32."""
    return ct.astype(ct.bitcast(ct.full((1, 1, 1), BITS, ct.int64), ct.float64), dtype)


def row_mask(x, block, AXIS, SHAPE):
    """Return the mask of a block's elements that are inside rows, to be broadcast to the tile."""
    element = ct.arange(SHAPE[AXIS], dtype=ct.int32)
    element = ct.reshape(element, (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1))
    wide_block = block + 0 * x.shape[AXIS]  # in 64 bits if sizes are, since long rows need them
    return element < x.shape[AXIS] - wide_block * SHAPE[AXIS]


def is_whole(x, place, SHAPE):
    """Whether a tile is entirely inside x."""
    first, second, third = place
    one, two, three = SHAPE
    return (first < x.shape[0] // one) & (second < x.shape[1] // two) & (third < x.shape[2] // three)


def part_coords(x, parts, span, AXIS, SHAPE):
    """Return (group, strip, part, first block, end block) of a program that has one part, span blocks, of a tile."""
    group, strip = tile_coords(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    return group, strip, part, part * span, min(part * span + span, ct.num_tiles(x, AXIS, SHAPE))


def load_tile(x, place, padding, AXIS, SHAPE):
    """Load a tile of rows in the accumulator dtype, and ``padding`` past their end. Only tiles that aren't whole are
    checked for bounds, and masked after the load."""
    if is_whole(x, place, SHAPE):
        return load_whole(x, place, SHAPE)
    return load_masked(x, place, padding, AXIS, SHAPE)


def load_whole(x, place, SHAPE):
    """Load as ``load_tile`` does, if the tile is whole."""
    return ct.astype(ct.load(x, place, SHAPE, check_bounds=False, allow_tma=False), acc_dtype(x))


def load_masked(x, place, padding, AXIS, SHAPE):
    """Load as ``load_tile`` does, if the tile isn't whole. Without a padding mode tileiras makes a branch per vector.
    In half precision each branch then waits for the previous one."""
    tile = ct.astype(ct.load(x, place, SHAPE, padding_mode=ct.PaddingMode.ZERO, allow_tma=False), acc_dtype(x))
    return ct.where(row_mask(x, place[AXIS], AXIS, SHAPE), tile, padding)


def load_sum(x, y, place, SHAPE):
    """Load the sum of two tiles in the accumulator dtype, 0 outside. In two branches, one load would await another."""
    if is_whole(x, place, SHAPE):
        return load_whole(x, place, SHAPE) + load_whole(y, place, SHAPE)
    return load_zeros(x, place, SHAPE) + load_zeros(y, place, SHAPE)


def block_ranges(x, group, strip, begin, end, AXIS, SHAPE):
    """Return the blocks [begin, end) of a tile's rows as two ranges: (whether blocks are whole, begin, end). A loop
    over each range has no branch on the kind of block, which the compiler would unroll in far more registers."""
    inside = strip < x.shape[3 - AXIS] // SHAPE[3 - AXIS]
    if SHAPE[0] > 1:
        inside = inside & (group < x.shape[0] // SHAPE[0])
    # Blocks are counted in 32 bits, whatever sizes are.
    whole = max(begin, min(end, ct.astype(x.shape[AXIS] // SHAPE[AXIS], ct.int32) if inside else 0))
    return (True, begin, whole), (False, whole, end)


def load_block(x, place, padding, AXIS, SHAPE, WHOLE):
    """Load as ``load_tile`` does. WHOLE: whether the block is known to be whole."""
    if WHOLE:
        return load_whole(x, place, SHAPE)
    return load_masked(x, place, padding, AXIS, SHAPE)


def row_shape(SHAPE, AXIS):
    """Return the tile's shape without the axis of elements, for tensors with one element per row."""
    return (SHAPE[0], SHAPE[1]) if AXIS == 2 else (SHAPE[0], SHAPE[2])


def load_weights(weight, block, AXIS, SHAPE, WHOLE=None):
    """Load a block of a per-element tensor, such as a weight, in the accumulator dtype, and 0 past the end. WHOLE:
    whether the block is whole, if that is known."""
    place, shape = block_index(0, 0, block, AXIS), (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1)
    if WHOLE is None:
        return load_tile(weight, place, 0.0, AXIS, shape)
    return load_whole(weight, place, shape) if WHOLE else load_zeros(weight, place, shape)


def load_per_row(x, group, strip, AXIS, SHAPE):
    """Load one element per row of a tile, to be broadcast to it, and 0 where there is no row."""
    tile = ct.load(x, (group, strip), row_shape(SHAPE, AXIS), padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    return ct.reshape(tile, reduced_shape(SHAPE, AXIS, 1))


def load_per_row_acc(x, group, strip, AXIS, SHAPE):
    """Load as ``load_per_row`` does, in the accumulator dtype."""
    return ct.astype(load_per_row(x, group, strip, AXIS, SHAPE), acc_dtype(x))


def gather_elements(x, group, strip, element, inside, padding, AXIS, SHAPE):
    """Return the elements of a tile's rows at these indices, and ``padding`` where the mask ``inside`` is False."""
    groups = ct.reshape(ct.arange(SHAPE[0], dtype=ct.int64) + group * SHAPE[0], (SHAPE[0], 1, 1))
    lanes = ct.arange(SHAPE[3 - AXIS], dtype=ct.int64) + strip * SHAPE[3 - AXIS]
    lanes = ct.reshape(lanes, (1, SHAPE[1], 1) if AXIS == 2 else (1, 1, SHAPE[2]))
    place = (groups, lanes, element) if AXIS == 2 else (groups, element, lanes)
    return ct.gather(x, place, mask=inside, padding_value=padding)


def load_zeros(x, place, SHAPE):
    """Load a tile in the accumulator dtype, and 0 outside of x: past the end of rows, and where there is no row."""
    tile = ct.load(x, place, SHAPE, padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    return ct.astype(tile, acc_dtype(x))


def element_indices(block, AXIS, SHAPE):
    """Return the 64-bit indices of a block's elements in their rows, to be broadcast to the tile."""
    element = ct.reshape(ct.arange(SHAPE[AXIS], dtype=ct.int64), (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1))
    return element + ct.astype(block, ct.int64) * SHAPE[AXIS]


def add_exactly(total, lost, x):
    """Return (total + x, lost + the sum's rounding error), after Knuth (TAOCP 2, 4.2.2). Integers have no error."""
    new = total + x
    if total.dtype == ct.int64:
        return new, lost
    back = new - total
    return new, lost + ((total - (new - back)) + (x - back))


def accumulate(total, lost, part, x):
    """Return ``add_exactly``, or only a plain sum in half precision, whose own rounding is far coarser."""
    if x.dtype == ct.float16 or x.dtype == ct.bfloat16:
        return total + part, lost
    return add_exactly(total, lost, part)


def whole(total, lost):
    """Return total + lost, or only total if lost is NaN, as it is for an infinite sum."""
    return total + ct.where(lost == lost, lost, 0)


def row_mean(total, lost, x, AXIS):
    """Return the means of a tile's rows from the sums in lanes and their rounding errors."""
    return ct.sum(whole(total, lost), AXIS, keepdims=True) / x.shape[AXIS]


def subtract_mean(tile, mean, x, place, AXIS, SHAPE):
    """Return a tile minus its rows' means, and 0 past the end."""
    if is_whole(x, place, SHAPE):
        return tile - mean
    return ct.where(row_mask(x, place[AXIS], AXIS, SHAPE), tile - mean, 0.0)


def inverse_root(mean, EPS):
    """Return 1 / sqrt(mean + eps). EPS: the bits of eps in float64."""
    return 1 / ct.sqrt(mean + float64_constant(EPS, mean.dtype))


# --- Rows that begin anywhere in a vector of PACK elements ------------------------------------------------------------
#
# Each row is a tile of an array that has all rows one after the other along its last axis. The whole vectors inside a
# row are an array too. The elements left at its ends are read one by one.


def whole_vectors(x, first, n, PACK):
    """Return the whole vectors inside such a row of n elements; all of x if rows begin with a vector, and PACK is 0."""
    if PACK == 0:
        return x
    return x.slice(2, (first + (PACK - 1)) // PACK * PACK, (first + n) // PACK * PACK)


def row_ends(x, first, n, padding, dtype, PACK):
    """Return (indices, mask, elements) of 2 * PACK elements at such a row's ends. The mask is True outside of
    ``whole_vectors``. Elements have that dtype, and are ``padding`` where the mask is False."""
    place = ct.reshape(ct.arange(2 * PACK, dtype=ct.int32), (1, 1, 2 * PACK))
    place = ct.where(place < PACK, place, place + (n - 2 * PACK))
    before, after = (first + (PACK - 1)) // PACK * PACK - first, (first + n) // PACK * PACK - first
    outside = (place < before) | (place >= after)
    found = x.slice(2, first, first + n).get_raw_memory().load_offset(place, mask=outside, padding_value=padding)
    return place, outside, ct.astype(found, dtype)


def store_row_ends(out, first, n, place, outside, ends):
    """Store elements of such a row at these indices, where the mask ``outside`` is True."""
    row = out.slice(2, first, first + n).get_raw_memory()
    row.store_offset(place, ct.astype(ends, out.dtype), mask=outside)
