"""Triton's launch tables: no value of a knob makes a plan that a device can't launch."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import scripts

pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="the triton backend needs the package triton")

if triton.knobs.runtime.interpret:
    pytest.skip("an interpreter has no device to describe; unset TRITON_INTERPRET", allow_module_level=True)


def _helper() -> ModuleType:
    return scripts.loaded(Path(__file__).parents[1] / "knobs.py")


knobs = _helper()


@pytest.mark.parametrize("op", ["softmax", "min"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_every_value_of_every_knob_keeps_within_the_device(arch: str, op: str, request: pytest.FixtureRequest) -> None:
    if arch != "sm_75" and not request.config.getoption("--all"):
        pytest.skip("planning many parts takes Python its time: --all takes every device, not the smallest alone")
    dtypes = ("float32", "bfloat16") if arch in ("sm_90", "sm_120") else ("float32",)
    assert knobs.check_all("triton", arch, op, dtypes) > 500


def test_a_few_kernels_are_right_at_other_values() -> None:
    """Some are interpreted here; ``python tests/knob_values.py triton`` takes all."""
    script = Path(__file__).parents[1] / "knob_values.py"
    command = [sys.executable, str(script), "triton", "--few"]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
