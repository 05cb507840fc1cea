"""Device functions of the minimum. Elements are compared in the dtype of computation, which represents them exactly."""

from cutlass import Boolean, Int32, cute

from kernelzoo.kernels.cute import device_functions as dev


def identity(TILE):
    """Return the minimum of no elements, in the dtype of computation: no element is greater."""
    if "float" in TILE.dtype:
        return float("inf")
    return 255 if TILE.dtype == "uint8" else 2 ** (int(TILE.dtype[3:]) - 1) - 1


def stored_identity(TILE):
    """Return ``identity`` as CuTe reads its bits from memory. It reads uint8 as int8, so that 255 becomes -1."""
    return -1 if TILE.dtype == "uint8" else identity(TILE)


def online_update(accumulator, values, TILE):
    """Merge more elements into the running minimum of each of a thread's rows."""
    for r, (row, least) in enumerate(zip(dev.group_by_row(values, TILE), dev.list_values(accumulator), strict=True)):
        accumulator[r] = dev.tree_reduce([least, *row], dev.minimum)


def write_rows(values, out, row, rows, TILE):
    out, at = out
    writes = dev.row_exists(row, rows, TILE) & (dev.thread_coords(TILE)[1] == 0)
    dev.store_rows(dev.make_fragment(values, out.dtype), out, dev.row_offset(row, rows, at, TILE), at.row, writes, TILE)


@cute.jit
def last_to_arrive(counts: cute.Pointer, tile, parts) -> Boolean:
    """Return whether this block is the last of its tile to call this function. Each call releases the block's writes
    to the device. The last call acquires all blocks' writes, and resets the tile's count to zero."""
    told = cute.make_tensor(cute.arch.alloc_smem(Int32, 1), cute.make_layout((1,)))
    thread, _, _ = cute.arch.thread_idx()
    cute.arch.sync_threads()
    if thread == 0:
        told[0] = cute.arch.atomic_add(counts + tile, Int32(1), sem="acq_rel", scope="gpu")
        if told[0] == parts - 1:
            cute.make_tensor(counts + tile, cute.make_layout((1,)))[0] = 0  # for the next launch
    cute.arch.sync_threads()
    return told[0] == parts - 1
