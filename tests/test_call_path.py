"""A learner reads down: what a call enters up to its launch stays short."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "described" / "call_path.py"

# Files and lines of code of a first call and of a repeated one. Neither Triton's interpreter nor torch caches launches.
LONGEST = {
    "triton/softmax/fused": (12, 350, 12, 328),
    "triton/min/rows": (12, 389, 12, 367),
    "cpu/softmax/fused": (11, 348, 5, 79),
    "cpu/min/rows": (11, 354, 5, 81),
    "torch/softmax/eager": (10, 275, 10, 275),
    "torch/min/eager": (9, 258, 9, 258),
}
PACKAGES = {"cpu": "numba", "triton": "triton", "torch": "torch"}


@pytest.mark.slow
def test_a_call_enters_few_lines() -> None:
    forms = [form for form in LONGEST if importlib.util.find_spec(PACKAGES[form.partition("/")[0]])]
    command, environment = [sys.executable, str(SCRIPT), *forms], {**os.environ, "TRITON_INTERPRET": "1"}
    said = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    entered = {form: tuple(map(int, rest)) for form, *rest in map(str.split, said.splitlines())}
    assert [*entered] == forms
    assert {
        f: now for f, now in entered.items() if any(n > most for n, most in zip(now, LONGEST[f], strict=True))
    } == {}
