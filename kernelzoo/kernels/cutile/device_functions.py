"""Device functions of several operations: where a tile of rows lies, and in what it is computed.

An array of rows has three axes: groups of rows, rows, and the elements of each; or, where rows lie across memory,
groups, the elements, and rows, so that neighbours in memory are always neighbours along the last axis. AXIS is that of
the elements, 2 or 1. A tile has one size for all arrays, SHAPE.
"""

import cuda.tile as ct


def tile_coords(number, x, AXIS, SHAPE):
    """The place of a tile, counted in tiles: (group, strip). Tiles of one group follow each other."""
    strips = ct.num_tiles(x, 3 - AXIS, SHAPE)
    return number // strips, number % strips


def block_index(group, strip, block, AXIS):
    """Where a block of a tile's rows is, as an index of tiles."""
    return (group, strip, block) if AXIS == 2 else (group, block, strip)


def reduced_shape(SHAPE, AXIS, size):
    """The tile's shape, with another size along rows."""
    return (SHAPE[0], SHAPE[1], size) if AXIS == 2 else (SHAPE[0], size, SHAPE[2])


def lane_shape(SHAPE, AXIS, FOLD):
    """The shape of what a tile's lanes keep: along memory one to FOLD neighbours, across it one to each element."""
    return reduced_shape(SHAPE, AXIS, SHAPE[2] // FOLD) if AXIS == 2 else SHAPE


def lane_sums(x, AXIS, FOLD):
    """What each of those lanes adds up of a tile."""
    return ct.sum(ct.reshape(x, (*lane_shape(x.shape, AXIS, FOLD), FOLD)), 3) if AXIS == 2 else x


def acc_dtype(x):
    """What elements of an array are computed in: half precision in float32, integers in 64 bits."""
    if x.dtype == ct.float64:
        return ct.float64
    return ct.float32 if x.dtype == ct.float32 or x.dtype == ct.float16 or x.dtype == ct.bfloat16 else ct.int64


def constant(BITS, dtype):
    """A number of float64 by its bits, to be broadcast to a tile: cuTile rounds a constant to float32."""
    return ct.astype(ct.bitcast(ct.full((1, 1, 1), BITS, ct.int64), ct.float64), dtype)


def row_mask(x, block, AXIS, SHAPE):
    """Which elements of a block of a tile's rows are inside of these, to be broadcast to the tile."""
    element = ct.arange(SHAPE[AXIS], dtype=ct.int32)
    element = ct.reshape(element, (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1))
    wide_block = block + 0 * x.shape[AXIS]  # in 64 bits, if sizes are: a row may have more elements than 32 count
    return element < x.shape[AXIS] - wide_block * SHAPE[AXIS]


def is_whole(x, place, SHAPE):
    """Whether nothing of a tile is outside of x."""
    first, second, third = place
    one, two, three = SHAPE
    return (first < x.shape[0] // one) & (second < x.shape[1] // two) & (third < x.shape[2] // three)


def part_coords(x, parts, span, AXIS, SHAPE):
    """(group, strip, part, first block, past the last) of a program that has span blocks, a part, of a tile's rows."""
    group, strip = tile_coords(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    return group, strip, part, part * span, min(part * span + span, ct.num_tiles(x, AXIS, SHAPE))


def load_tile(x, place, padding, AXIS, SHAPE):
    """A tile of rows as it is computed, ``padding`` past their end. It asks whether elements are there only at an end,
    and the mask comes after the load."""
    if is_whole(x, place, SHAPE):
        return load_whole(x, place, SHAPE)
    return load_masked(x, place, padding, AXIS, SHAPE)


def load_whole(x, place, SHAPE):
    """``load_tile``, where the tile is whole."""
    return ct.astype(ct.load(x, place, SHAPE, check_bounds=False, allow_tma=False), acc_dtype(x))


def load_masked(x, place, padding, AXIS, SHAPE):
    """``load_tile``, where it is not. Of a load without padding tileiras makes a branch to each vector. In half
    precision each then waits for the one before."""
    tile = ct.astype(ct.load(x, place, SHAPE, padding_mode=ct.PaddingMode.ZERO, allow_tma=False), acc_dtype(x))
    return ct.where(row_mask(x, place[AXIS], AXIS, SHAPE), tile, padding)


def load_sum(x, y, place, SHAPE):
    """A tile of both as computed, added, 0 outside. It is one branch: of two, the second waits for the first."""
    if is_whole(x, place, SHAPE):
        return load_whole(x, place, SHAPE) + load_whole(y, place, SHAPE)
    return load_zeros(x, place, SHAPE) + load_zeros(y, place, SHAPE)


def block_ranges(x, group, strip, begin, end, AXIS, SHAPE):
    """The blocks [begin, end) of a tile's rows as two ranges: (whether blocks are whole, begin, end). A loop over each
    has no branch to the kind of a block, which the compiler would unroll in far more registers."""
    inside = strip < x.shape[3 - AXIS] // SHAPE[3 - AXIS]
    if SHAPE[0] > 1:
        inside = inside & (group < x.shape[0] // SHAPE[0])
    # Blocks are counted in 32 bits, whatever sizes are.
    whole = max(begin, min(end, ct.astype(x.shape[AXIS] // SHAPE[AXIS], ct.int32) if inside else 0))
    return (True, begin, whole), (False, whole, end)


def load_block(x, place, padding, AXIS, SHAPE, WHOLE):
    """``load_tile``, of a block that is known to be whole, or not."""
    if WHOLE:
        return load_whole(x, place, SHAPE)
    return load_masked(x, place, padding, AXIS, SHAPE)


def row_shape(SHAPE, AXIS):
    """The tile's shape without the axis of the elements: of what there is one of to each row."""
    return (SHAPE[0], SHAPE[1]) if AXIS == 2 else (SHAPE[0], SHAPE[2])


def weights_of(weight, block, AXIS, SHAPE, WHOLE=None):
    """A block of what there is one of to each element of a row, as it is computed, 0 past the end. WHOLE: whether the
    block is whole, if that is known."""
    place, shape = block_index(0, 0, block, AXIS), (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1)
    if WHOLE is None:
        return load_tile(weight, place, 0.0, AXIS, shape)
    return load_whole(weight, place, shape) if WHOLE else load_zeros(weight, place, shape)


def of_rows(x, group, strip, AXIS, SHAPE):
    """What there is one of to each of a tile's rows, to be broadcast to the tile. 0 where there is no row."""
    tile = ct.load(x, (group, strip), row_shape(SHAPE, AXIS), padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    return ct.reshape(tile, reduced_shape(SHAPE, AXIS, 1))


def load_rows(x, group, strip, AXIS, SHAPE):
    """``of_rows``, as it is computed."""
    return ct.astype(of_rows(x, group, strip, AXIS, SHAPE), acc_dtype(x))


def elements_at(x, group, strip, element, inside, padding, AXIS, SHAPE):
    """Elements of each of a tile's rows, ``padding`` where they are not inside."""
    groups = ct.reshape(ct.arange(SHAPE[0], dtype=ct.int64) + group * SHAPE[0], (SHAPE[0], 1, 1))
    lanes = ct.arange(SHAPE[3 - AXIS], dtype=ct.int64) + strip * SHAPE[3 - AXIS]
    lanes = ct.reshape(lanes, (1, SHAPE[1], 1) if AXIS == 2 else (1, 1, SHAPE[2]))
    place = (groups, lanes, element) if AXIS == 2 else (groups, element, lanes)
    return ct.gather(x, place, mask=inside, padding_value=padding)


def load_zeros(x, place, SHAPE):
    """A tile as it is computed, 0 outside of x: past the end of rows, and where there is no row."""
    tile = ct.load(x, place, SHAPE, padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    return ct.astype(tile, acc_dtype(x))


def elements_of(block, AXIS, SHAPE):
    """Where elements of a block are in their rows, in 64 bits, to be broadcast to the tile."""
    element = ct.reshape(ct.arange(SHAPE[AXIS], dtype=ct.int64), (1, 1, SHAPE[2]) if AXIS == 2 else (1, SHAPE[1], 1))
    return element + ct.astype(block, ct.int64) * SHAPE[AXIS]


def add_exactly(total, lost, x):
    """(total + x, lost and what that rounded off), after Knuth (TAOCP 2, 4.2.2). Integers lose nothing."""
    new = total + x
    if total.dtype == ct.int64:
        return new, lost
    back = new - total
    return new, lost + ((total - (new - back)) + (x - back))


def accumulate(total, lost, part, x):
    """``add_exactly``, and of half precision, whose own rounding is far coarser, a sum alone."""
    if x.dtype == ct.float16 or x.dtype == ct.bfloat16:
        return total + part, lost
    return add_exactly(total, lost, part)


def whole(total, lost):
    """A sum with what it rounded off, which is NaN where the sum is infinite."""
    return total + ct.where(lost == lost, lost, 0)


def row_mean(total, lost, x, AXIS):
    """The mean of each of a tile's rows, of sums in lanes and what they rounded off."""
    return ct.sum(whole(total, lost), AXIS, keepdims=True) / x.shape[AXIS]


def distances(tile, mean, x, place, AXIS, SHAPE):
    """How far elements of a tile are from their rows' means, 0 past the end."""
    if is_whole(x, place, SHAPE):
        return tile - mean
    return ct.where(row_mask(x, place[AXIS], AXIS, SHAPE), tile - mean, 0.0)


def inverse_root(mean, EPS):
    """1 / sqrt(mean + eps); EPS: the bits of eps in float64."""
    return 1 / ct.sqrt(mean + constant(EPS, mean.dtype))


# --- Rows that begin anywhere in vectors, PACK elements each ---------------------------------------------------------
#
# Each row is a tile, of an array that has all of them one after the other along its last axis. Whole vectors inside of
# it are an array as well, and what is left of it at its ends is read by elements.


def whole_vectors(x, first, n, PACK):
    """The whole vectors inside such a row of n elements; all of x where rows begin with a vector, and PACK is 0."""
    if PACK == 0:
        return x
    return x.slice(2, (first + (PACK - 1)) // PACK * PACK, (first + n) // PACK * PACK)


def row_ends(x, first, n, padding, dtype, PACK):
    """(places, outside, elements) of such a row's ends, as many as a vector has. Outside of ``whole_vectors`` elements
    are as computed, ``padding`` elsewhere."""
    place = ct.reshape(ct.arange(2 * PACK, dtype=ct.int32), (1, 1, 2 * PACK))
    place = ct.where(place < PACK, place, place + (n - 2 * PACK))
    before, after = (first + (PACK - 1)) // PACK * PACK - first, (first + n) // PACK * PACK - first
    outside = (place < before) | (place >= after)
    found = x.slice(2, first, first + n).get_raw_memory().load_offset(place, mask=outside, padding_value=padding)
    return place, outside, ct.astype(found, dtype)


def store_row_ends(out, first, n, place, outside, ends):
    """Elements at the places of such a row that are outside."""
    row = out.slice(2, first, first + n).get_raw_memory()
    row.store_offset(place, ct.astype(ends, out.dtype), mask=outside)
