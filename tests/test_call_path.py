"""A learner reads down: what a call enters up to its launch stays short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "described" / "call_path.py"

# Files and lines of code of a first call and of a repeated one. Neither Triton's interpreter nor torch caches launches.
LONGEST = {
    ("triton", "softmax", "fused"): (12, 355, 12, 335),
    ("triton", "min", "rows"): (12, 400, 12, 380),
    ("cpu", "softmax", "fused"): (11, 360, 6, 88),
    ("cpu", "min", "rows"): (11, 372, 6, 90),
    ("torch", "softmax", "eager"): (10, 280, 10, 280),
    ("torch", "min", "eager"): (9, 270, 9, 270),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", LONGEST, ids="/".join)
def test_a_call_enters_few_lines(form: tuple[str, str, str]) -> None:
    pytest.importorskip({"cpu": "numba"}.get(form[0], form[0]))
    command = [sys.executable, str(SCRIPT), *form]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TRITON_INTERPRET": "1"}, check=True
    )
    entered = tuple(map(int, run.stdout.split()))
    assert all(now <= most for now, most in zip(entered, LONGEST[form], strict=True)), entered
