"""Problems drawn at random, as ``random:COUNT`` names them: the same for the same seed, wherever they are drawn.

A map is chosen by whoever writes the kernels. A sample is not: what a kernel does badly between the points of the map
comes out in it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

PREFIX = "random:"
MOST = 10_000
"""Problems of a sample."""

SMALLEST, LARGEST = 2**16, 10**9
"""Bytes of an input and an output of its size."""

_LONGEST = 24
"""Rows and lengths are drawn up to 2 to this power."""

_STEPS = (1, 1, 2, 16)
"""What the last axis is a multiple of: half are odd, where few rows are aligned; the others even, or such that all rows
are aligned to a vector."""


def count_of(shape_set: str) -> int:
    """Of ``"random:200"`` 200; 0 for what names no sample."""
    digits = shape_set.removeprefix(PREFIX)
    known = shape_set.startswith(PREFIX) and re.fullmatch(r"[1-9]\d{0,4}", digits, re.ASCII)
    return int(digits) if known and int(digits) <= MOST else 0


def drawn(count: int, seed: int, dtypes: Sequence[str]) -> Iterator[tuple[tuple[int, int], str, int]]:
    """Shape, dtype and axis of so many different problems: log-uniform over the rows and the length of the reduced
    axis, which is the last or the first. A longer sample begins with the shorter ones."""
    chance = random.Random(f"kernelzoo {seed}")
    seen = set[tuple[tuple[int, int], str, int]]()
    while len(seen) < count:
        dtype, dim, step = chance.choice(list(dtypes)), chance.choice((-1, 0)), chance.choice(_STEPS)
        rows, length = (round(2 ** chance.uniform(least, _LONGEST)) for least in (0, 1))
        first, last = (rows, length) if dim == -1 else (length, rows)
        last = last | 1 if step == 1 else -(-last // step) * step
        found = (first, last), dtype, dim
        if SMALLEST <= 2 * first * last * _width(dtype) <= LARGEST and found not in seen:
            seen.add(found)
            yield found


def _width(dtype: str) -> int:
    """Bytes of an element."""
    bits = re.search(r"\d+$", dtype)
    return int(bits[0]) // 8 if bits else 1
