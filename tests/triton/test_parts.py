"""The search for the programs to a row leaves out no choice that is the best."""

import random

import pytest

pytest.importorskip("triton")
from kernelzoo.kernels.triton.softmax.parts import Numbers, SplitTiling, split_parts
from kernelzoo.layout import cdiv

TILINGS = (
    tuple(SplitTiling(128 * k, 4 // k, 128, 16, 8) for k in (1, 2, 4)),
    (SplitTiling(128, 3, 168, 8, 2), SplitTiling(512, 1, 128, 4, 2)),
)


def of_all(
    knobs: Numbers, rows: int, n: int, itemsize: int, tilings: tuple[SplitTiling, ...], sms: int, moved: int
) -> tuple[SplitTiling, int]:
    """The first of the best, of every choice that there is."""

    def time(choice: tuple[SplitTiling, int]) -> float:
        tiling, parts = choice
        groups = min(rows, tiling.programs * sms // parts)
        share = cdiv(n, parts)
        reread, end = (1.0, 4) if itemsize == 8 else (0.9, 1)
        held = tiling.held * tiling.threads * (16 // itemsize)
        again, seam = (1 + reread * (1 - held / share), 0.75) if share > held else (1.0, 0.0)
        move = max(groups * parts, 0.8 * tiling.programs * sms) * share / (knobs.bytes_per_us / (moved * itemsize))
        slower = 1 if tiling.threads == 128 else 1.05
        return float(slower * cdiv(rows, groups) * (again * move + end + seam + knobs.exchange_us / groups))

    choices = ((t, parts) for t in tilings for parts in range(1, min(t.threads, t.programs * sms, cdiv(n, 64)) + 1))
    return min(choices, key=time)


def test_the_first_of_the_best_of_all_choices() -> None:
    drawn = random.Random(0)
    for _ in range(600):
        knobs = Numbers(bytes_per_us=drawn.choice((300000, 4200000, 6500000)), exchange_us=drawn.choice((5, 10, 20)))
        rows = drawn.choice((1, 2, 3, 8, 128, 132, 133, 1024, drawn.randint(1, 20000)))
        n = drawn.choice((2 ** drawn.randint(6, 22), int(2 ** drawn.uniform(6, 25))))
        itemsize, sms, moved = drawn.choice((2, 4, 8)), drawn.choice((16, 108, 132, 148)), drawn.choice((2, 3))
        problem = knobs, rows, n, itemsize, drawn.choice(TILINGS), sms, moved
        assert split_parts(*problem) == of_all(*problem), problem
