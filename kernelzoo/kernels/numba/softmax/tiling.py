"""How blocks cover the rows of a softmax, for forms that have this in common."""

from kernelzoo.kernels.numba.launch import View
from kernelzoo.kernels.numba.row import Tiling
from kernelzoo.layout import power_of_two
from kernelzoo.tables import knob, numbers


@numbers
class Numbers:
    """Of forms that hold whole rows in the registers of a block. Shipped values are an H200's."""

    wide_vectors: int = knob(
        1536, among=(1024, 1536, 2048, 4096), unit="vectors", why="of a row, above which a thread has eight, not four"
    )
    packed_vectors: int = knob(
        768,
        among=(512, 768, 1024, 2048),
        unit="vectors",
        why="the same, of packed halves: more arithmetic for as many bytes",
    )
    edge_vectors: int = knob(
        512, among=(256, 512, 1024), unit="vectors", why="the same, with edges, which every thread computes along"
    )


def tiles_of(v: View, threads: int, numbers: Numbers) -> int | None:
    """Vectors for each of up to ``threads`` threads; None if the row is too long for that.

    Of packed halves eight pay off sooner, and sooner still where rows have edges; soonest in float64, where the threads
    of a row agree on its maximum and sum as often for two exponentials as for sixteen. Vectors below 16 bytes, which an
    unaligned layout has, leave room for twice as many.
    """
    vectors = max(1, v.n // v.vec)
    if v.dtype == "float64" and v.vec > 1 and vectors <= threads * 8:
        return 4 if vectors <= 256 else 8
    if vectors <= 128:
        return 1 if vectors <= 64 else 2
    packed = numbers.edge_vectors if v.edges else numbers.packed_vectors
    if vectors <= min(4 * threads, numbers.wide_vectors if v.itemsize > 2 else packed):
        return 4
    most = 8 if v.whole else 16
    return most if vectors <= threads * most else None


def column_tiling(v: View, size: int) -> Tiling | None:
    """Side by side as many rows as fill a warp, so that it reads 128 bytes of float32; down to a sector of 32 bytes,
    for the sake of longer rows in the block. 512 threads, since each needs an address per load beside its elements."""
    rows = min(32, power_of_two(v.neighbours))
    while rows * v.itemsize > 32 and -(-v.n // (512 // rows)) > size:
        rows //= 2
    lanes = min(max(power_of_two(-(-v.n // size)), 128 // rows), 512 // rows)
    tiles = -(-v.n // lanes)
    return Tiling(lanes, rows, tiles, 1, across=True) if tiles <= 2 * size else None


def streaming_tiling(v: View) -> Tiling:
    """A block that goes along a row of any length, up to 512 threads with four vectors each in flight, of which an SM
    runs two or more; 4 elements in float64, whose exponential takes registers, and half of that across rows, where each
    load has an address of its own."""
    size = 16 if v.itemsize <= 4 else 4
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(512 // rows, rows, min(size // 2, power_of_two(-(-v.n * rows // 512))), 1, across=True)
    tiles = size // v.vec if v.dtype == "float64" else 4 if v.whole else 16 // v.vec
    return Tiling(512, 1, tiles, v.vec, v.edges, flexible=True)
