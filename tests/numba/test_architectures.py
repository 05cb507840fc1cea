"""Launches held to what a device has: a few of described/matrix.py, compiled, and plans for devices made up."""

# ruff: noqa: E402 - what Numba is at import depends on the simulator, so that is asked first

import os
from typing import Any

import pytest

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    pytest.skip("the simulator is on, and has no launches to look at", allow_module_level=True)

for package in ("torch", "numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

import devices
import matrix
import torch

from kernelzoo import registry, tables
from kernelzoo.device import assumed
from kernelzoo.kernels.numba import launch
from kernelzoo.launch import recorded


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


@pytest.mark.sampled(4, "dtype")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8"])
@pytest.mark.parametrize("name", devices.NVIDIA)
def test_plans_for_unusual_devices(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tables.ENVIRONMENT, "shipped")
    tables.forget_loaded()
    registry.import_kernels("numba", "kernelzoo.kernels.numba")
    a = devices.NVIDIA[name]
    most_threads: list[int] = []  # that each kernel is compiled for, as it is called
    call = launch.Recorded.call

    def noted(self: launch.Recorded, *arguments: int, **asked: Any) -> Any:
        bind = call(self, *arguments, **asked)

        def bound(*tensors: torch.Tensor) -> Any:
            most_threads.append(self.source.threads)
            return bind(*tensors)

        return bound

    monkeypatch.setattr(launch.Recorded, "call", noted)
    monkeypatch.setattr(  # as many as the device holds, if registers leave room for them
        launch.Recorded, "resident", lambda self, threads: a.multiprocessors * max(1, a.threads // threads)
    )
    seen = 0
    with assumed(a), recorded() as steps:
        for what in devices.bound("numba", dtype):
            assert steps, what
            # What was bound in vain is among them: a form that can't take the whole, and then takes it in halves.
            for step, most in zip(steps, most_threads, strict=True):
                said = (*what, step)
                assert 1 <= step.grid[0] <= 2**31 - 1, said
                assert 32 <= step.threads <= most <= 1024 and step.threads % 32 == 0, said
                assert 0 <= step.shared_bytes <= a.shared_per_block - 2048, said
                largest = 1 if a.capability < 90 else 16 if a.arch in matrix.LARGE_CLUSTERS else 8
                assert 1 <= step.cluster <= largest and step.grid[0] % step.cluster == 0, said
                at_once = a.multiprocessors * (a.threads // most)
                assert not step.cooperative or step.grid[0] <= at_once, said
            steps.clear()
            most_threads.clear()
            seen += 1
    assert seen > 100
