"""The conformance suite in somebody else's hands: what the docs say of it, on a right kernel and on wrong ones."""

import re
from collections.abc import Iterable
from pathlib import Path

import commands
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
RIGHT = "e = torch.exp(x.double() - x.amax(1, keepdim=True))\n        out.copy_(e / e.sum(1, keepdim=True))"


def run_suites(folder: Path, bodies: Iterable[str]) -> list[tuple[int, str]]:
    """The kernel and the test file of the docs, once with each body in its launch: exit status and output."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    kernel, suite = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    assert RIGHT in kernel
    kernel = kernel.partition("kernelzoo.get(")[0]
    chosen = "float32 and (3x or special or layout or takes or strided)"
    options = ("-q", "-p", "kernelzoo.testing", "-c", "/dev/null", "-k", chosen, "--tb=line")
    runs = []
    for number, body in enumerate(bodies):
        path = folder / str(number) / "test_mine.py"
        path.parent.mkdir()
        path.write_text(kernel.replace(RIGHT, body) + suite, encoding="utf-8")
        first = [] if body == RIGHT else ["-x"]  # one failure is enough
        runs.append(["pytest", *options, *first, f"--rootdir={path.parent}", str(path)])
    return [commands.run(ROOT, given)[:2] for given in runs]


WRONG = {
    "zeros": "out.zero_()",
    "shifted by a row": "out.copy_(torch.softmax(x, 1).roll(1, 0))",
    "drops NaN": "out.copy_(torch.softmax(x.nan_to_num(0.0), 1))",
    "changes its input": "out.copy_(torch.softmax(x, 1)); x.mul_(2)",
    "another axis": "torch.softmax(x, 0, out=out)",
    "ends the process": "__import__('os')._exit(0)",
}


def test_a_right_kernel_passes_and_wrong_ones_fail(tmp_path: Path) -> None:
    (status, said), *others = run_suites(tmp_path, [RIGHT, *WRONG.values()])
    assert status == 0, said[-2000:]
    assert re.search(r"[1-9]\d passed", said)
    for name, (status, said) in zip(WRONG, others, strict=True):
        assert status == 1 and "failed" in said, (name, said[-2000:])
