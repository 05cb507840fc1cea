"""The width of tiles of rows side by side, for kernels that read a tile twice and keep a few numbers for each row."""

import numba

TILE_LANES = (64, 512)
"""The fewest and most rows in a tile. A page of memory is several tiles wide; the rows' numbers fit in an L1 cache."""


def choose_tile_lanes(groups: int, lanes: int) -> int:
    """Return the largest number of rows in a tile for which each thread still has a tile."""
    fewest, most = TILE_LANES
    threads: int = numba.get_num_threads()
    return min(lanes, most, max(fewest, -(-groups * lanes // threads)))
