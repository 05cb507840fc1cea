"""A learner reads down: what a call enters up to its launch stays short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "described" / "call_path.py"

# Files and lines of code of a first call and of a repeated one; in Triton's interpreter no launch is kept.
LONGEST = {
    ("triton", "softmax", "fused"): (16, 380, 16, 350),
    ("triton", "min", "rows"): (17, 425, 17, 395),
    ("cpu", "softmax", "fused"): (15, 410, 6, 92),
    ("cpu", "min", "rows"): (16, 430, 6, 100),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", LONGEST, ids="/".join)
def test_a_call_enters_few_lines(form: tuple[str, str, str]) -> None:
    pytest.importorskip("triton" if form[0] == "triton" else "numba")
    command = [sys.executable, str(SCRIPT), *form]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TRITON_INTERPRET": "1"}, check=True
    )
    entered = tuple(map(int, run.stdout.split()))
    assert all(now <= most for now, most in zip(entered, LONGEST[form], strict=True)), entered
