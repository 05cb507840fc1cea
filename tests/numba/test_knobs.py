"""Numba's launch tables: no value of a knob makes a plan that a device can't launch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")
cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

if cuda.config.ENABLE_CUDASIM:
    pytest.skip("a simulator has no device to describe; unset NUMBA_ENABLE_CUDASIM", allow_module_level=True)


def _helper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("knobs", Path(__file__).parents[1] / "knobs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


knobs = _helper()


def static_shared(step: Any) -> int:
    """Softmax's clusters have room for the pairs of 32 warps of 16 blocks, in float64 at the most."""
    return 2 * 16 * 32 * 8 if step.kernel.startswith("cluster_kernel") else 2048


@pytest.mark.parametrize("op", ["softmax", "min"])
@pytest.mark.parametrize("arch", knobs.ARCHES)
def test_every_value_of_every_knob_keeps_within_the_device(arch: str, op: str) -> None:
    dtypes = ("float32", "bfloat16") if arch in ("sm_90", "sm_120") else ("float32",)
    assert knobs.check_all("numba", arch, op, dtypes, static_shared) > 500
