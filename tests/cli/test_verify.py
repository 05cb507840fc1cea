"""``kernelzoo verify``: the contract alone, and what becomes of kernels that break more than the contract."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelzoo.cli import output, verify

Answer = Callable[..., tuple[int, Any]]


def test_what_conforms_is_status_0(answer: Answer) -> None:
    status, told = answer("verify", "torch/min/eager", "--device", "cpu")
    found = told["results"]["torch/min/eager"]
    assert (status, told["wrong"], found["wrong"]) == (0, [], [])
    assert found["passed"] > 200


def test_findings_are_status_1_and_cost_no_other(answer: Answer, bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad.write_text(
        bad.read_text()
        + """
@kernelzoo.register("shy", "softmax", "auto")
def auto(x, out):
    raise kernelzoo.UnsupportedProblemError("shy/softmax/auto", "it takes nothing")

@kernelzoo.register("shy", "softmax", "other")
def other(x, out):
    raise kernelzoo.UnsupportedProblemError("shy/softmax/other", "it takes nothing")
"""
    )
    ids = ["bad/softmax/crashes", "bad/softmax/zeros", "bad/softmax/hangs", "shy/softmax/*"]
    options = ("--module", bad, "--device", "cpu", "--patience", "5")
    status, told = answer("verify", *ids, *options)
    assert status == 1
    found = told["results"]
    assert told["wrong"] == list(found) == [*ids[:3], "shy/softmax/auto", "shy/softmax/other"]
    (crash,) = found["bad/softmax/crashes"]["wrong"]
    assert "float32-scalar" in crash and "SIGSEGV" in crash and "bad_kernels.py" in crash
    assert "hung in check of bad/softmax/hangs" in found["bad/softmax/hangs"]["wrong"][0]
    zeros = found["bad/softmax/zeros"]
    assert len(zeros["wrong"]) > 200 and zeros["passed"] < 10  # those that are empty
    assert "auto takes every legal input" in found["shy/softmax/auto"]["wrong"][0]
    assert (
        "refused every case" in found["shy/softmax/other"]["wrong"][0] and found["shy/softmax/other"]["refused"] > 200
    )

    verify._print("bad/softmax/zeros", zeros, output.console())
    told = capsys.readouterr().out
    assert "and 2" in told and "more; --json has them all" in told


def test_a_file_alone_is_checked_for_what_it_adds(answer: Answer, tmp_path: Path) -> None:
    text = """
import kernelzoo

@kernelzoo.register("{backend}", "min", "{variant}")
def refuses(x, out):
    raise kernelzoo.UnsupportedProblemError("it", "takes nothing")
"""
    path = tmp_path / "mine.py"
    path.write_text(text.format(backend="mine", variant="one") + text.format(backend="torch", variant="extra"))
    status, told = answer("verify", "--module", path, "--device", "cpu")
    assert status == 1 and list(told["results"]) == ["mine/min/one", "torch/min/extra"]
    path.write_text("")
    status, told = answer("verify", "--module", path)
    assert status == 2 and "leave no implementation" in told["error"]


def test_what_cannot_run_here_is_status_2(kernelzoo: Callable[..., Any]) -> None:
    done = kernelzoo("verify", "cupy/*/*", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert "implementations can't be checked here: backend 'cupy' can't run here: " in done.stdout
    assert "0 checked, 0 with findings" in done.stdout
