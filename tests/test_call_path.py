"""A learner reads down: what a call enters up to its launch stays short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "described" / "call_path.py"

# Files and lines of code of a first call and of a repeated one; in Triton's interpreter no launch is kept.
LONGEST = {
    ("triton", "softmax", "fused"): (16, 360, 16, 340),
    ("triton", "min", "rows"): (17, 405, 17, 385),
    ("cpu", "softmax", "fused"): (14, 400, 6, 90),
    ("cpu", "min", "rows"): (15, 420, 6, 100),
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
