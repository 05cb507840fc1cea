"""The CUDA C++ kernels' launch tables: no value of a knob makes a plan that a device can't launch."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import scripts

pytest.importorskip("torch")
pytest.importorskip("cupy", reason="CuPy is not installed")


def _helper() -> ModuleType:
    return scripts.loaded(Path(__file__).parents[1] / "knobs.py")


knobs = _helper()


@pytest.mark.parametrize("op", ["softmax", "min"])
@pytest.mark.parametrize("arch", knobs.ARCHES[1:])
def test_every_value_of_every_knob_keeps_within_the_device(arch: str, op: str) -> None:
    dtypes = ("float32", "bfloat16") if arch in ("sm_90", "sm_120") else ("float32",)
    assert knobs.check_all("cupy", arch, op, dtypes) > 500


def test_a_few_kernels_are_right_at_other_values() -> None:
    """Some are compiled here; ``python tests/knob_values.py cupy`` takes all."""
    script = Path(__file__).parents[1] / "knob_values.py"
    command = [sys.executable, str(script), "cupy", "--few"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
