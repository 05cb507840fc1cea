"""Launches held to what a device has: a few of described/matrix.py, compiled, and plans for devices made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="the triton backend needs the package triton")
if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)

import devices  # noqa: E402  (after the skips)
import matrix  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

from kernelzoo.inspect import described  # noqa: E402

with described(devices.NVIDIA["one multiprocessor"]):
    from kernelzoo.kernels.triton import (
        inspection,
        min,  # noqa: F401  (registers)
        occupancy,
        softmax,  # noqa: F401
    )


@pytest.mark.parametrize(("arch", "dtype"), [("sm_75", "bfloat16"), ("gfx950", "float32")])
def test_launches_ask_for_no_more_than_the_device_has(arch: str, dtype: str) -> None:
    asked = [r for r in matrix.requests("triton", arch, few=True) if r.variant == "auto" and r.dtype == dtype]
    row, wrong, _ = matrix.examined(asked)
    assert not wrong
    assert row["taken"] == len(asked) and row["kernels"] > 5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8"])
@pytest.mark.parametrize("name", [*devices.NVIDIA, *devices.AMD])
def test_plans_for_unusual_devices(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a = {**devices.NVIDIA, **devices.AMD}[name]
    asked: list[dict[str, Any]] = []

    def warmup(self: JITFunction, *args: Any, grid: Any, **options: Any) -> Any:
        constants = {p.name: value for p, value in zip(self.params, args, strict=True) if p.is_constexpr}
        itemsize = args[0].element_size()

        def run(x: int, y: int, z: int, *rest: object) -> None:
            asked.append({"grid": x, "itemsize": itemsize, **constants, **options})

        metadata = SimpleNamespace(shared=0)
        return SimpleNamespace(n_regs=64, metadata=metadata, run=run, function=0, packed_metadata=())

    driver = inspection.DescribedDriver(a)
    monkeypatch.setattr(JITFunction, "warmup", warmup)
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    occupancy._device.cache_clear()
    seen = 0
    with described(a):
        for what in devices.bound("triton", dtype):
            assert asked, what
            for step in asked:
                said = (*what, step)
                threads = step["num_warps"] * a.warp_size
                assert 1 <= step["grid"] <= 2**31 - 1, said
                assert a.warp_size <= threads <= 1024, said
                if step.get("launch_cooperative_grid"):
                    registers = -(-step["maxnreg"] // 8) * 8 * threads
                    held = (
                        a.registers // registers
                        if a.registers // registers < a.threads // threads
                        else a.threads // threads
                    )
                    assert a.is_nvidia and step["grid"] <= held * a.multiprocessors, said
                if "STAGES" in step:  # rows that wait in shared memory, all but one of those under way
                    waiting = (step["STAGES"] - 1) * step["COLS"] * step["itemsize"]
                    assert step["STAGES"] >= 1 and waiting <= a.shared_per_block - 4096, said
            asked.clear()
            seen += 1
    occupancy._device.cache_clear()
    assert seen > 100
