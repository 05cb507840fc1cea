"""Launches held to what a device has: a few of described/matrix.py, compiled, and plans for devices made up."""

# ruff: noqa: E402 - what Numba is at import depends on the simulator, so that is asked first

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    pytest.skip("the simulator is on, and has no launches to look at", allow_module_level=True)

for package in ("torch", "numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

import devices
import matrix
import torch

from kernelzoo import tables
from kernelzoo.errors import BackendUnavailableError
from kernelzoo.inspect import Architecture, described
from kernelzoo.kernels.described_driver import Driver
from kernelzoo.kernels.numba import probe

with described(devices.NVIDIA["one multiprocessor"]):
    from kernelzoo.kernels.numba import inspection, launch, softmax, softmax_columns, view
    from kernelzoo.kernels.numba import min as minima


def test_launches_ask_for_no_more_than_the_device_has() -> None:
    asked = [r for r in matrix.requests("numba", "sm_120", few=True) if r.variant == "auto" and r.dtype == "float32"]
    row, wrong, _ = matrix.examined(
        [*asked, matrix.Laid("numba", "softmax", "split", (64, 131072), "float32", -1, "sm_120")]
    )
    assert not wrong
    assert row["taken"] == len(asked) + 1 and row["kernels"] > 5


@pytest.mark.parametrize(("shape", "dtype"), [((1100, 19), "float32"), ((20011, 33), "bfloat16")])
def test_leave_is_asked_for_where_a_kernel_declares_shared_memory_itself(shape: tuple[int, int], dtype: str) -> None:
    """Below 48 kB of dynamic shared memory, too: unasked, what the kernel declares counts."""
    _, wrong, _ = matrix.examined([matrix.Laid("numba", "softmax", "auto", shape, dtype, 0, "sm_90")])
    assert not wrong


class Planned:
    """A kernel that is not compiled: what its launches ask for goes into a list."""

    def __init__(self, source: launch.Source, asked: list[dict[str, Any]], architecture: Architecture) -> None:
        self._source, self._asked, self._architecture = source, asked, architecture

    def resident(self, threads: int) -> int:
        return self._architecture.multiprocessors * max(1, self._architecture.threads // threads)

    def call(self, grid: int, *integers: int, **asked: Any) -> Callable[..., Callable[[], None]]:
        asked = {"threads": 0, "shared": 0, "cluster": 1, "cooperative": False, **asked, "grid": grid}
        asked["threads"] = asked["threads"] or self._source.threads
        asked["most_threads"] = self._source.threads
        return lambda *tensors: lambda: self._asked.append(asked)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8"])
@pytest.mark.parametrize("name", devices.NVIDIA)
def test_plans_for_unusual_devices(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tables.ENVIRONMENT, "shipped")
    tables.forget_loaded()
    a = devices.NVIDIA[name]
    asked: list[dict[str, Any]] = []
    for module in (softmax, softmax_columns, minima):
        monkeypatch.setattr(module, "prepare", lambda source, device: Planned(source, asked, a))
    monkeypatch.setattr(view, "_plans", {})
    launch._properties.cache_clear()
    seen = 0
    with described(a), inspection.device(Driver(a)):
        for what in devices.bound("numba", dtype):
            assert asked, what
            for step in asked:
                said = (*what, step)
                assert 1 <= step["grid"] <= 2**31 - 1, said
                assert 32 <= step["threads"] <= step["most_threads"] <= 1024 and step["threads"] % 32 == 0, said
                assert 0 <= step["shared"] <= a.shared_per_block - 2048, said
                most = 1 if a.capability < 90 else 16 if a.name in matrix.LARGE_CLUSTERS else 8
                assert 1 <= step["cluster"] <= most and step["grid"] % step["cluster"] == 0, said
                at_once = a.multiprocessors * (a.threads // step["most_threads"])
                assert not step["cooperative"] or step["grid"] <= at_once, said
            asked.clear()
            seen += 1
    launch._properties.cache_clear()
    assert seen > 100


def test_a_device_below_8_0_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("is_available", True), ("device_count", 1), ("get_device_capability", (7, 5))):
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(BackendUnavailableError, match=r"need compute capability 8\.0, and a device here has 7\.5"):
        probe()
