"""Launches held to what a device has: a few of described/matrix.py, compiled, and plans for devices made up."""

import re

import devices
import matrix
import pytest
import with_nvrtc  # noqa: F401  (which skips this module without a compiler)

import kernelzoo.kernels.cupy as backend
from kernelzoo import registry, tables
from kernelzoo.device import assumed
from kernelzoo.launch import recorded

registry.import_kernels("cupy", backend.__name__)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", ["sm_87", "sm_120"])
def test_launches_ask_for_no_more_than_the_device_has(arch: str) -> None:
    asked = [r for r in matrix.requests("cupy", arch, few=True) if r.variant == "auto" and r.dtype == "float32"]
    row, wrong, _ = matrix.examined(asked)
    assert not wrong
    assert row["taken"] == len(asked) and row["kernels"] > 5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8"])
@pytest.mark.parametrize("name", devices.NVIDIA)
def test_plans_for_unusual_devices(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tables.ENVIRONMENT, "shipped")
    tables.forget_loaded()
    device = devices.NVIDIA[name]
    seen = 0
    with assumed(device), recorded() as steps:
        for what in devices.bound("cupy", dtype):
            assert steps, what
            for step in steps:
                said = (*what, step)
                assert 32 <= step.threads <= 1024 and step.threads % 32 == 0, said
                assert 0 <= step.shared_bytes <= device.shared_per_block - 2048, said
                assert 1 <= step.grid[0] <= 2**31 - 1 and 1 <= step.grid[1] <= 65535, said
                assert 1 <= step.cluster <= device.cluster_blocks and step.grid[0] % step.cluster == 0, said
                one_a_piece = re.match("split_grid|split_ring", step.kernel)  # blocks on each multiprocessor
                most = device.multiprocessors * (1 if one_a_piece else 2)
                assert not step.cooperative or step.grid[0] <= most, said
            steps.clear()
            seen += 1
    assert seen > 100
