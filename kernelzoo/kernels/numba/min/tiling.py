"""How blocks hold the rows of a minimum."""

from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.dtypes import itemsize
from kernelzoo.kernels.numba.launch import View
from kernelzoo.kernels.numba.row import Tiling
from kernelzoo.layout import cdiv, power_of_two
from kernelzoo.tables import knob, numbers


@numbers
class Numbers:
    """What depends on the card. Shipped values are an H200's."""

    # An SM's share of an H200's 132 is one at most, and takes all threads that it can get.
    few_rows: int = knob(
        132, among=(16, 32, 64, 132, 264), unit="rows", why="up to which a long row has 512 threads, and not 256"
    )
    wide_vectors: int = knob(
        320, among=(160, 320, 640), unit="vectors", why="for each in flight, up to which a row has 512 threads as well"
    )
    stacked: int = knob(
        2, among=(1, 2, 4), unit="vectors", why="in flight to a thread of short rows, over its rows together"
    )


def deep(dtype: str, vec: int) -> int:
    """Vectors that a thread has in flight: eight, which is 128 bytes, or 128 kB on an SM of 1024 threads; fewer of the
    narrow integers, which are widened at once. Of single elements, eight as well."""
    return 8 if vec == 1 or itemsize(dtype) >= 4 or dtype in ("float16", "bfloat16") else 32 // vec


def rows_tiling(v: View, numbers: Numbers) -> Tiling:
    """A warp to a row of over 64 vectors, half a warp to a shorter one, several rows a thread, in blocks of 128
    threads; a longer row has a block of up to 256, of which an SM runs four or more, or 512 where that saves a second
    batch of loads or rows are few."""
    if v.across:
        if v.n <= 32:
            return Tiling(1, 256, v.n, 1, across=True, stack=max(1, 16 // power_of_two(v.n)))
        rows = min(32, power_of_two(v.neighbours))
        lanes = min(256 // rows, max(power_of_two(cdiv(v.n, 8)), 64 // rows))
        return Tiling(lanes, rows, min(8, power_of_two(cdiv(v.n, lanes))), 1, across=True)
    vec, edges, most = v.vec, v.edges, deep(v.dtype, v.vec)
    if v.n < 4 * vec and edges:  # too short for aligned vectors: lane by lane
        vec, edges = 1, False
    vectors = max(1, v.n // vec)
    lanes = min(power_of_two(vectors), 16 if vectors <= 64 and vec > 1 else WARP)
    if edges:
        lanes = max(lanes, min(2 * vec, WARP))  # an edge element each
    tiles = power_of_two(cdiv(vectors, lanes))
    if tiles <= most and (not edges or 2 * vec <= WARP):
        return Tiling(lanes, 128 // lanes, tiles, vec, edges, stack=max(1, min(numbers.stacked, most) // tiles))
    wide = v.total <= numbers.few_rows or vectors <= numbers.wide_vectors * most
    return Tiling(512 if wide else 256, 1, most, v.vec, v.edges, flexible=True)
