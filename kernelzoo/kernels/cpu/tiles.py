"""How wide tiles of rows side by side are, for kernels that go through one twice."""

import numba

TILE_BYTES = 1 << 19
"""Of what a tile reads, so that the second time it comes out of a second-level cache of 1 MB."""

TILE_LANES = (16, 256)
"""Fewest and most rows in a tile: from a cache line of float32 to where more made no difference."""


def tile_lanes(groups: int, n: int, lanes: int, row_bytes: int) -> int:
    """Rows of a tile, each of n elements of so many bytes. Where no tile stays in cache they are many, which memory
    likes best, as long as each thread has a tile."""
    fewest, most = TILE_LANES
    fit = TILE_BYTES // (n * row_bytes)
    if fit < fewest:
        fit = -(-groups * lanes // numba.get_num_threads())
    return min(lanes, most, max(fewest, fit))
