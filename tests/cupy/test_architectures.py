"""Launches held to what a device has: a few of described/matrix.py, compiled, and plans for devices made up."""

from __future__ import annotations

import re

import pytest

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytest.importorskip("torch", reason="torch is not installed")

try:
    cupy.cuda.nvrtc.getVersion()
except Exception as error:  # a missing library shows as an ImportError, OSError or RuntimeError, by CuPy's version
    pytest.skip(f"NVRTC can't be loaded: {error}", allow_module_level=True)

import devices  # noqa: E402  (after the skips)
import matrix  # noqa: E402

from kernelzoo import tables  # noqa: E402
from kernelzoo.inspect import described  # noqa: E402

with described(devices.NVIDIA["one multiprocessor"]):
    from kernelzoo.kernels.cupy import min as minima
    from kernelzoo.kernels.cupy import module, softmax


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
    a = devices.NVIDIA[name]
    device = module.Device(a.multiprocessors, a.capability, a.shared_per_block)
    steps: list[module.Step] = []

    def planned(file: str, planner: module.Planner, table: type, x, out):
        aligned = (x.data_ptr() | out.data_ptr()) % module.PACK_BYTES == 0
        problem = module.problem_of(x.dtype, tuple(x.shape), x.stride(), out.stride(), aligned)
        plan = planner(problem, device, table())
        return lambda: steps.extend(plan.steps)

    for file in (softmax, minima):
        monkeypatch.setattr(file, "bind", planned)
    seen = 0
    for what in devices.bound("cupy", dtype):
        assert steps, what
        for step in steps:
            said = (*what, step)
            assert 32 <= step.threads <= 1024 and step.threads % 32 == 0, said
            assert 0 <= step.shared_bytes <= a.shared_per_block - 2048, said
            assert 1 <= step.blocks <= module.MAX_GRID_X * 32768 and 1 <= step.grid_y <= 65535, said
            most = 1 if a.capability < 90 else 16 if a.name in matrix.LARGE_CLUSTERS else 8
            assert 1 <= step.cluster <= most and step.blocks % step.cluster == 0, said
            one_a_piece = re.match(
                "split_grid|split_ring|split_pipeline|columns_pipeline|columns_flat", step.kernel
            )  # blocks on each multiprocessor
            assert not step.cooperative or step.blocks <= a.multiprocessors * (1 if one_a_piece else 2), said
        steps.clear()
        seen += 1
    assert seen > 100
