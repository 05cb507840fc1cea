"""Launches held to what a device has: a few of described/matrix.py, compiled, and plans for devices made up."""

from typing import Any

import pytest

pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="the triton backend needs the package triton")
if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)

import devices  # noqa: E402  (after the skips)
import matrix  # noqa: E402

from kernelzoo import inspect, tables  # noqa: E402
from kernelzoo.kernels.shared import jit as launch  # noqa: E402
from kernelzoo.launch import Step, recorded  # noqa: E402


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("arch", "dtype"), [("sm_75", "bfloat16"), ("gfx950", "float32")])
def test_launches_ask_for_no_more_than_the_device_has(arch: str, dtype: str) -> None:
    asked = [r for r in matrix.requests("triton", arch, few=True) if r.variant == "auto" and r.dtype == dtype]
    row, wrong, _ = matrix.examined(asked)
    assert not wrong
    assert row["taken"] == len(asked) and row["kernels"] > 5


@pytest.mark.sampled(4, "name")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8"])
@pytest.mark.parametrize("name", [*devices.NVIDIA, *devices.AMD])
def test_plans_for_unusual_devices(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tables.ENVIRONMENT, "shipped")
    tables.forget_loaded()
    a = {**devices.NVIDIA, **devices.AMD}[name]
    told: list[dict[str, Any]] = []
    options = launch.compiler_options

    def noted(*args: Any) -> dict[str, Any]:
        told.append(options(*args))
        return told[-1]

    monkeypatch.setattr(launch, "compiler_options", noted)
    seen = 0
    with inspect.on_described("triton", a), recorded() as steps:
        for what in devices.bound("triton", dtype):
            made = [step for step in steps if isinstance(step, Step)]
            assert made, what
            for step, asked in zip(made, told[-len(made) :], strict=True):
                said = (*what, step)
                assert 1 <= step.grid[0] <= 2**31 - 1, said
                assert a.warp_size <= step.threads <= 1024, said
                if step.cooperative:
                    # Registers are given to a warp in pieces; where none are said, a thread may have 255.
                    registers = -(-asked.get("maxnreg", 255) // 8) * 8 * step.threads
                    held = min(a.registers // registers, a.threads // step.threads)
                    assert a.is_nvidia and step.grid[0] <= held * a.multiprocessors, said
                if step.kernel.startswith("persistent_kernel"):
                    # Rows that wait in shared memory, all but one of those under way.
                    columns, stages = map(int, step.constants[-2:])
                    itemsize = {"float32": 4, "bfloat16": 2, "float64": 8}[dtype]
                    assert stages >= 1 and (stages - 1) * columns * itemsize <= a.shared_per_block - 4096, said
            steps.clear()
            told.clear()
            seen += 1
    assert seen > 100
