"""Triton's launch tables: no value of a knob makes a plan that a device can't launch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="the triton backend needs the package triton")

if triton.knobs.runtime.interpret:
    pytest.skip("an interpreter has no device to describe; unset TRITON_INTERPRET", allow_module_level=True)


def _helper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("knobs", Path(__file__).parents[1] / "knobs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


knobs = _helper()


@pytest.mark.parametrize("op", ["softmax", "min"])
@pytest.mark.parametrize("arch", knobs.ARCHES)
def test_every_value_of_every_knob_keeps_within_the_device(arch: str, op: str) -> None:
    dtypes = ("float32", "bfloat16") if arch in ("sm_90", "sm_120") else ("float32",)
    assert knobs.check_all("triton", arch, op, dtypes) > 500
