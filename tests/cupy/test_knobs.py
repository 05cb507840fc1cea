"""The CUDA C++ kernels' launch tables: no value of a knob makes a plan that a device can't launch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
pytest.importorskip("cupy", reason="CuPy is not installed")


def _helper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("knobs", Path(__file__).parents[1] / "knobs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


knobs = _helper()


@pytest.mark.parametrize("op", ["softmax", "min"])
@pytest.mark.parametrize("arch", knobs.ARCHES[1:])
def test_every_value_of_every_knob_keeps_within_the_device(arch: str, op: str) -> None:
    dtypes = ("float32", "bfloat16") if arch in ("sm_90", "sm_120") else ("float32",)
    assert knobs.check_all("cupy", arch, op, dtypes) > 500
