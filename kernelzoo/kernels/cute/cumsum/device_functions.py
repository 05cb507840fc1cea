"""Device functions for running sums: within a vector, over the threads of a warp, and over warps."""

from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev


def vector_prefix_sums(values, TILE):
    """Return (running sums of a vector's elements along each row, sum of the vector's elements per row)."""
    if TILE.across:
        return values, values
    sums = [values[0]]
    for value in values[1:]:
        sums.append(sums[-1] + value)
    return sums, sums[-1:]


def shuffle_up(values, distance):
    """Return the values of the thread whose lane is ``distance`` below this thread's lane."""
    return [cute.arch.shuffle_sync_up(value, offset=distance, mask_and_clamp=0) for value in values]


def scan_warp(values, lane, TILE):
    """Return (exclusive, inclusive) running sums of a thread's values over the lanes of a warp that share a row.
    ``lane``: the thread's number among these lanes. After Hillis and Steele, CACM 29, 1986."""
    sums, before = values, [type(value)(0) for value in values]
    for bit, apart in enumerate(TILE.shuffle_masks):
        pairs = zip(shuffle_up(sums, apart), sums, strict=True)
        sums = [dev.select(lane >= 1 << bit, below + one, one) for below, one in pairs]
    if TILE.shuffle_masks:
        pairs = zip(shuffle_up(sums, TILE.shuffle_masks[0]), before, strict=True)
        before = [dev.select(lane >= 1, below, zero) for below, zero in pairs]
    return before, sums


def scan_threads(values, shared, TILE):
    """Return (exclusive running sums, totals) of each of a thread's values over all threads that share a row."""
    place, along = dev.thread_coords(TILE)
    lane, party = along % TILE.row_lanes, along // TILE.row_lanes
    before, sums = scan_warp(values, lane, TILE)
    dev.store_if(dev.make_fragment(sums, shared.element_type), shared[None, place, party], lane == TILE.row_lanes - 1)
    cute.arch.sync_threads()
    everything = [type(value)(0) for value in values]
    for j in range(len(values)):
        for other in range(TILE.row_warps):
            before[j] = dev.select(party == other, everything[j] + before[j], before[j])
            everything[j] = everything[j] + shared[j, place, other]
    cute.arch.sync_threads()  # before shared memory is overwritten
    return before, everything


def scan_tile(totals, values, shared, TILE):
    """Return the running sums of a thread's elements. Add the tile's elements to ``totals``, the rows' sums so far."""
    vectors = [vector_prefix_sums(vector, TILE) for vector in values]
    before, everything = scan_threads([one for _, mine in vectors for one in mine], shared, TILE)
    result = []
    for i, (sums, _) in enumerate(vectors):
        of_rows = slice(i * TILE.rows_per_thread, (i + 1) * TILE.rows_per_thread)
        starts = [total + one for total, one in zip(dev.list_values(totals), before[of_rows], strict=True)]
        result.append([a + b for a, b in zip(dev.broadcast_rows(starts, TILE), sums, strict=True)])
        dev.accumulate(totals, everything[of_rows], dev.add)
    return result
