"""Launches of Triton's kernels held to what a device has, for every knob and for devices made up."""

from typing import Any, ClassVar

import devices
import pytest
import triton
from planning import Planning

from kernelzoo.device import Device
from kernelzoo.kernels.shared import jit
from kernelzoo.launch import LaunchStep

if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)


class TestTriton(Planning):
    backend = "triton"
    compiled = (("sm_75", "bfloat16"), ("gfx950", "float32"))
    devices: ClassVar = {**devices.NVIDIA, **devices.AMD}
    knob_architectures = ("sm_75", "sm_90", "sm_120")
    rarely = ("sm_90", "sm_120")
    environment: ClassVar = {"TRITON_INTERPRET": "1"}

    def noting(self, monkeypatch: pytest.MonkeyPatch, device: Device) -> list[Any]:
        told: list[Any] = []
        options = jit.compiler_options
        monkeypatch.setattr(jit, "compiler_options", lambda *args: told.append(options(*args)) or told[-1])
        return told

    def within(self, step: LaunchStep, device: Device, dtype: str, noted: dict[str, Any]) -> None:
        if step.cooperative:
            # Registers are given to a warp in pieces; where none are said, a thread may have 255.
            registers = -(-noted.get("maxnreg", 255) // 8) * 8 * step.threads
            held = min(device.registers // registers, device.threads // step.threads)
            assert device.is_nvidia and step.grid[0] <= held * device.multiprocessors, step
        if step.kernel.startswith("persistent_kernel"):
            # Rows that wait in shared memory, all but one of those under way.
            columns, stages = map(int, step.constants[-2:])
            itemsize = {"float32": 4, "bfloat16": 2, "float64": 8}[dtype]
            assert stages >= 1 and (stages - 1) * columns * itemsize <= device.shared_per_block - 4096, step
