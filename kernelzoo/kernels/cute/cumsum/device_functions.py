"""Device functions for running sums: within a vector, over the threads of a warp, and over warps."""

from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev


def prefixes(values, TILE):
    """Return (running sums of a vector's elements along each row, their total per row)."""
    if TILE.across:
        return values, values
    sums = [values[0]]
    for value in values[1:]:
        sums.append(sums[-1] + value)
    return sums, sums[-1:]


def shuffle_up(values, apart):
    """Return the values of the thread ``apart`` lanes below this one."""
    return [cute.arch.shuffle_sync_up(value, offset=apart, mask_and_clamp=0) for value in values]


def scan_warp(mine, lane, TILE):
    """Return (exclusive, inclusive) running sums of a thread's values over a row's lanes in a warp. ``lane``: this
    thread's number among these lanes. After Hillis and Steele, CACM 29, 1986."""
    sums, before = mine, [type(value)(0) for value in mine]
    for bit, apart in enumerate(TILE.masks):
        pairs = zip(shuffle_up(sums, apart), sums, strict=True)
        sums = [dev.select(lane >= 1 << bit, below + one, one) for below, one in pairs]
    if TILE.masks:
        pairs = zip(shuffle_up(sums, TILE.masks[0]), before, strict=True)
        before = [dev.select(lane >= 1, below, zero) for below, zero in pairs]
    return before, sums


def scan_threads(mine, room, TILE):
    """Return (exclusive running sums, totals) of each of a thread's values over all threads that share a row."""
    place, along = dev.thread_coords(TILE)
    lane, party = along % TILE.together, along // TILE.together
    before, sums = scan_warp(mine, lane, TILE)
    dev.store_if(dev.make_fragment(sums, room.element_type), room[None, place, party], lane == TILE.together - 1)
    cute.arch.sync_threads()
    everything = [type(value)(0) for value in mine]
    for j in range(len(mine)):
        for other in range(TILE.meeting):
            before[j] = dev.select(party == other, everything[j] + before[j], before[j])
            everything[j] = everything[j] + room[j, place, other]
    cute.arch.sync_threads()  # before shared memory is overwritten
    return before, everything


def scan_tile(totals, values, room, TILE):
    """Return a thread's running sums. Update ``totals``, each row's sum before the tile, to the sum after it."""
    vectors = [prefixes(vector, TILE) for vector in values]
    before, everything = scan_threads([one for _, mine in vectors for one in mine], room, TILE)
    result = []
    for i, (sums, _) in enumerate(vectors):
        of_rows = slice(i * TILE.rows_each, (i + 1) * TILE.rows_each)
        starts = [total + one for total, one in zip(dev.list_values(totals), before[of_rows], strict=True)]
        result.append([a + b for a, b in zip(dev.broadcast_rows(starts, TILE), sums, strict=True)])
        dev.accumulate(totals, everything[of_rows], dev.add)
    return result
