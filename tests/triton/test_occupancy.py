"""The occupancy rule on made-up devices of both vendors, worked out by hand."""

import dataclasses

import pytest

pytest.importorskip("triton", reason="the triton backend needs the package triton")

from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.shared.jit import CDNA, INTERPRETER, resident

H200, MI300X = ARCHITECTURES["sm_90"], ARCHITECTURES["gfx942"]
RADEON = dataclasses.replace(MI300X, arch="gfx1100", warp_size=32, threads=1024)


@pytest.mark.parametrize(
    ("registers", "warps", "shared", "expected"),
    [
        (32, 4, 0, 16),  # 65536 // (32 * 32 * 4)
        (33, 4, 0, 15),  # floors
        (255, 8, 0, 1),
        (32, 4, 65536, 3),  # 232448 // 65536
        (32, 4, 1024, 16),  # shared memory is a cap and no more
        (32, 4, 232448, 1),
    ],
)
def test_nvidia(registers: int, warps: int, shared: int, expected: int) -> None:
    assert resident(H200, registers, warps, shared) == expected


@pytest.mark.parametrize(
    ("device", "registers", "warps", "expected"),
    [
        (MI300X, 64, 4, 8),  # min(131072 // 64 // 64, 2048 // 64) = 32 waves
        (MI300X, 128, 4, 4),  # 131072 // 64 // 128 = 16 waves
        (RADEON, 128, 4, 4),  # not doubled: 65536 // 32 // 128 = 16 waves
        (RADEON, 16, 4, 8),  # threads are the cap: 1024 // 32 = 32 waves
    ],
)
def test_amd(device: Device, registers: int, warps: int, expected: int) -> None:
    assert resident(device, registers, warps, 0) == expected
    assert resident(device, registers, warps, 65536) == expected  # shared memory is no part of this rule


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
