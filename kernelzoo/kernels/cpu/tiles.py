"""How wide tiles of rows side by side are, for kernels that go down one twice and keep a few numbers for each row."""

import numba

TILE_LANES = (64, 512)
"""Fewest and most rows in a tile: a page of memory has several places of them, a first-level cache their numbers."""


def tile_lanes(groups: int, lanes: int) -> int:
    """Rows of a tile: as many as there may be, as long as each thread has a tile."""
    fewest, most = TILE_LANES
    threads: int = numba.get_num_threads()
    return min(lanes, most, max(fewest, -(-groups * lanes // threads)))
