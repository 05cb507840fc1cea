"""The occupancy rule on made-up devices of both vendors, worked out by hand."""

import dataclasses
import random
from typing import Any

import pytest

from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.shared.jit import CDNA, INTERPRETER, resident
from kernelzoo.kernels.triton.softmax.parts import Knobs, SplitTiling, choose_parts_by_time
from kernelzoo.layout import cdiv

H200, MI300X = ARCHITECTURES["sm_90"], ARCHITECTURES["gfx942"]
RADEON = dataclasses.replace(MI300X, arch="gfx1100", warp_size=32, threads=1024)


@pytest.mark.parametrize(
    ("device", "registers", "warps", "shared", "expected"),
    [
        (H200, 32, 4, (0, 1024), 16),  # 65536 // (32 * 32 * 4); shared memory is a cap and no more
        (H200, 33, 4, (0,), 15),  # floors
        (H200, 255, 8, (0,), 1),
        (H200, 32, 4, (65536,), 3),  # 232448 // 65536
        (H200, 32, 4, (232448,), 1),
        (MI300X, 64, 4, (0, 65536), 8),  # min(131072 // 64 // 64, 2048 // 64) = 32 waves, and shared memory no part
        (MI300X, 128, 4, (0, 65536), 4),  # 131072 // 64 // 128 = 16 waves
        (RADEON, 128, 4, (0, 65536), 4),  # not doubled: 65536 // 32 // 128 = 16 waves
        (RADEON, 16, 4, (0, 65536), 8),  # threads are the cap: 1024 // 32 = 32 waves
    ],
)
def test_blocks_of_a_multiprocessor(device: Device, registers: int, warps: int, shared: Any, expected: int) -> None:
    assert {resident(device, registers, warps, one) for one in shared} == {expected}


@pytest.mark.parametrize("arch", ["gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"])
def test_cdna_registers_count_twice(arch: str) -> None:
    assert arch in CDNA
    cdna = dataclasses.replace(MI300X, arch=arch)
    other = dataclasses.replace(MI300X, arch="gfx906")
    assert resident(cdna, 256, 1, 0) == 2 * resident(other, 256, 1, 0) == 8


@pytest.mark.parametrize("device", [H200, MI300X, RADEON, INTERPRETER], ids=lambda device: device.vendor)
def test_is_never_zero(device: Device) -> None:
    assert resident(device, 512, 32, 10**6) == 1
    assert resident(device, 0, 1, 0) >= 1  # a driver that reports no registers


def test_is_worked_out_once() -> None:
    resident.cache_clear()
    for _ in range(3):
        resident(H200, 32, 4, 0)
    assert (resident.cache_info().misses, resident.cache_info().hits) == (1, 2)


@pytest.mark.parametrize(
    ("device", "threads", "warps"),
    [(H200, 1, 1), (H200, 256, 8), (H200, 4096, 32), (MI300X, 32, 1), (MI300X, 4096, 16)],
)
def test_warps_hold_the_threads(device: Device, threads: int, warps: int) -> None:
    assert device.warps(threads) == warps


# The search for the programs to a row leaves out no choice that is the best

TILINGS = (
    tuple(SplitTiling(128 * k, 4 // k, 128, 16, 8) for k in (1, 2, 4)),
    (SplitTiling(128, 3, 168, 8, 2), SplitTiling(512, 1, 128, 4, 2)),
)


def of_all(
    knobs: Knobs, rows: int, n: int, itemsize: int, tilings: tuple[SplitTiling, ...], sms: int, moved: int
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
        knobs = Knobs(bytes_per_us=drawn.choice((300000, 4200000, 6500000)), exchange_us=drawn.choice((5, 10, 20)))
        rows = drawn.choice((1, 2, 3, 8, 128, 132, 133, 1024, drawn.randint(1, 20000)))
        n = drawn.choice((2 ** drawn.randint(6, 22), int(2 ** drawn.uniform(6, 25))))
        itemsize, sms, moved = drawn.choice((2, 4, 8)), drawn.choice((16, 108, 132, 148)), drawn.choice((2, 3))
        problem = knobs, rows, n, itemsize, drawn.choice(TILINGS), sms, moved
        assert choose_parts_by_time(*problem) == of_all(*problem), problem
