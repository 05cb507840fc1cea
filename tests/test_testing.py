"""The conformance suite in somebody else's hands: what the README says of it, on a right kernel and on wrong ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RIGHT = "out.copy_(torch.softmax(x.transpose(1, 2), 2).transpose(1, 2))"


def run_suite(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    """The README's kernel and its test file, with another body in its launch."""
    kernel, suite = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1:3]
    assert RIGHT in kernel
    kernel = kernel.partition("kernelzoo.get(")[0].replace(RIGHT, body)
    path = folder / "test_mine.py"
    path.write_text(kernel + suite, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "kernelzoo.testing",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
    ]
    chosen = "float32 and (3x or special or layout or takes or strided)"
    return subprocess.run(
        [*command, f"--rootdir={folder}", "-k", chosen, "--tb=line", str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


def test_a_right_kernel_passes(tmp_path: Path) -> None:
    done = run_suite(tmp_path, RIGHT)
    assert done.returncode == 0, done.stdout[-2000:]
    assert re.search(r"[1-9]\d passed", done.stdout)


@pytest.mark.parametrize(
    "body",
    [
        "out.zero_()",
        "out.copy_(torch.softmax(x, 1).roll(1, 0))",
        "out.copy_(torch.softmax(x.nan_to_num(0.0), 1))",
        "out.copy_(torch.softmax(x, 1)); x.mul_(2)",
        "torch.softmax(x, 0, out=out)",
    ],
    ids=["zeros", "shifted by a row", "drops NaN", "changes its input", "another axis"],
)
def test_a_wrong_kernel_fails(tmp_path: Path, body: str) -> None:
    done = run_suite(tmp_path, body)
    assert done.returncode == 1, done.stdout[-2000:]
    assert "failed" in done.stdout
