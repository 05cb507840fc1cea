"""What every language's launch tables hold: no knob, device or dtype makes a launch that a device can't take."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import devices
import knobs
import matrix
import pytest

from kernelzoo import tables
from kernelzoo.device import Device
from kernelzoo.inspect import simulate_device
from kernelzoo.launch import LaunchStep, record_binds

DTYPES = ("float32", "bfloat16", "float64", "int8")


class Planning:
    """The tests of a language: a subclass says on which devices, and what its launches keep within."""

    backend: ClassVar[str]
    compiled: ClassVar[tuple[tuple[str, str], ...]]
    """Architectures and dtypes for which a few of described/matrix.py are compiled."""
    more: ClassVar[tuple[matrix.Laid, ...]] = ()
    """Problems beside those."""
    devices: ClassVar[dict[str, Device]] = devices.NVIDIA
    knob_architectures: ClassVar[tuple[str, ...]] = knobs.ARCHES
    rarely: ClassVar[tuple[str, ...]] = ()
    """Of those, what is left to ``--all``, since planning many parts takes Python its time."""
    static_shared: ClassVar[Callable[[LaunchStep], int]] = staticmethod(lambda step: 2048)
    environment: ClassVar[dict[str, str]] = {}
    """What has kernels run on the host, where a few are tried with other knobs."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        given = metafunc.fixturenames
        if "compiled" in given:
            metafunc.parametrize("compiled", self.compiled, ids="-".join)
        if "device" in given:
            metafunc.parametrize("device", self.devices)
            metafunc.parametrize("dtype", DTYPES)
        if "knob_architecture" in given:
            metafunc.parametrize("knob_architecture", self.knob_architectures)

    def within(self, step: LaunchStep, device: Device, dtype: str, noted: Any) -> None:
        """Raise AssertionError if the device can't launch a step."""
        raise NotImplementedError

    def noting(self, monkeypatch: pytest.MonkeyPatch, device: Device) -> list[Any]:
        """What the launches say beside their steps, in a list that the test clears."""
        return []

    @pytest.mark.sampled(2)
    def test_launches_ask_for_no_more_than_the_device_has(self, compiled: tuple[str, str]) -> None:
        arch, dtype = compiled
        few = matrix.requests(self.backend, arch, few=True)
        asked = [*(r for r in few if r.variant == "auto" and r.dtype == dtype), *self.more]
        row, wrong, _ = matrix.examined(asked)
        assert not wrong
        assert row["taken"] == len(asked) and row["kernels"] > 5

    @pytest.mark.sampled(4, "device")
    def test_plans_for_unusual_devices(self, device: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(tables.ENVIRONMENT, "shipped")
        tables.forget_loaded()
        there, seen = self.devices[device], 0
        told = self.noting(monkeypatch, there)
        with simulate_device(self.backend, there), record_binds() as steps:
            for what in devices.bound(self.backend, dtype):
                made = [step for step in steps if isinstance(step, LaunchStep)]
                assert made, what
                beside: Iterator[Any] = iter(told[-len(made) :] or [None] * len(made))
                for step, noted in zip(made, beside, strict=True):
                    assert 1 <= step.grid[0] <= 2**31 - 1 and math.prod(step.grid[1:]) <= 65535, (*what, step)
                    assert there.warp_size <= step.threads <= 1024 and step.threads % there.warp_size == 0, what
                    assert 0 <= step.shared_bytes <= there.shared_per_block - 2048, (*what, step)
                    assert step.grid[0] % step.cluster == 0, (*what, step)
                    self.within(step, there, dtype, noted)
                steps.clear()
                told.clear()
                seen += 1
        assert seen > 100

    @pytest.mark.parametrize("op", ["softmax", "min"])
    def test_every_value_of_every_knob_keeps_within_the_device(self, knob_architecture, op, request) -> None:
        if knob_architecture in self.rarely and not request.config.getoption("--all"):
            pytest.skip("with --all alone")
        dtypes = ("float32", "bfloat16") if knob_architecture in ("sm_90", "sm_120") else ("float32",)
        assert knobs.check_all(self.backend, knob_architecture, op, dtypes, self.static_shared) > 500

    def test_a_few_kernels_are_right_at_other_values(self) -> None:
        """``python tests/knob_values.py BACKEND`` takes all."""
        script = Path(__file__).parents[1] / "knob_values.py"
        command, environment = [sys.executable, script, self.backend, "--few"], {**os.environ, **self.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr[-2000:]
