"""Random problems, named ``random:COUNT``: the same for the same seed on any machine.

Authors of kernels choose the map of problems. A random sample shows what a kernel does badly between its points.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

PREFIX = "random:"
MOST = 10_000
"""Most problems of a sample."""

SMALLEST, LARGEST = 2**16, 10**9
"""Bounds on the bytes of input and output together."""

_LONGEST = 24
"""The base-2 logarithm of the largest number of rows or length."""

_STEPS = (1, 1, 2, 16)
"""The last axis is a multiple of one of these. Half the problems are odd, where few rows are aligned. The others are
even, or aligned to a vector."""


def count_of(shape_set: str) -> int:
    """The count in ``"random:200"``; 0 if the text names no sample."""
    digits = shape_set.removeprefix(PREFIX)
    known = shape_set.startswith(PREFIX) and re.fullmatch(r"[1-9]\d{0,4}", digits, re.ASCII)
    return int(digits) if known and int(digits) <= MOST else 0


def drawn(count: int, seed: int, dtypes: Sequence[str]) -> Iterator[tuple[tuple[int, int], str, int]]:
    """``count`` different problems: shape, dtype and axis. Rows and length are log-uniform, and the reduced axis is the
    last or the first. A longer sample begins with the shorter ones."""
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
