"""KernelBench's problems and submissions: judged as definitions are, by files as they stand."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelzoo import definitions
from kernelzoo.errors import ContractError, UndecidableError
from kernelzoo.measure.problems import Problem

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features, steps):
        super().__init__()
        self.linear = nn.Linear(features, 24)
        self.bias = nn.Parameter(torch.randn(24))
        self.steps = steps

    def forward(self, x, scale, at):
        return torch.relu(self.linear(x[at])) * scale + self.bias

rows = 32

def get_inputs():
    return [torch.rand(rows, 16), 0.5, torch.randint(0, rows, (8,))]

def get_init_inputs():
    return [16, 3]
"""

SUBMISSION = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, features, steps):
        super().__init__()
        self.linear = nn.Linear(features, 24)
        self.bias = nn.Parameter(torch.randn(24))

    def forward(self, x, scale, at):
        taken = x.index_select(0, at)
        return torch.addmm(self.linear.bias, taken, self.linear.weight.t()).clamp_(min=0).mul_(scale).add_(self.bias)
"""


def test_a_problem_is_read_and_its_model_passes(written: Callable[..., Path]) -> None:
    op = definitions.load_problem(written(PROBLEM, "7_Take.py"))
    assert op.name == "_7_Take" and op.axes == (("32", "16"), ("8",), ("8", "24")) and op.free_axes == ()
    problem = Problem(op.name, (32, 16), "float32")
    inputs = problem.inputs(torch.Generator().manual_seed(0))
    args = problem.arguments(inputs)
    assert op.undecidable(args, op.expect(args)) == "" and not torch.equal(
        inputs[0], problem.inputs(torch.Generator().manual_seed(1))[0]
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", ""),
        ("index_select(0, at)", "index_select(0, at.flip(0))", "elements wrong"),
        (".clamp_(min=0)", "", "elements wrong"),
        (".add_(self.bias)", ".add_(self.bias).half()", "dtype torch.float16"),
        ("nn.Linear(features, 24)", "nn.Linear(features, 24).half().float()", "elements wrong"),
        ("scale, at):", "scale, at):\n        x[0, 0] = 7.0", "the input x0 was changed"),
    ],
    ids=["right", "order", "no relu", "half", "half weights", "writes"],
)
def test_a_submission_is_judged_by_it(written: Callable[..., Path], old: str, new: str, words: str) -> None:
    from kernelzoo.check.cases import cases
    from kernelzoo.check.running import check

    op = definitions.load_problem(written(PROBLEM, "take.py"))
    implementation = definitions.load_submission(written(SUBMISSION.replace(old, new), "mine.py"))
    assert implementation.id == "submission/take/mine"
    (case,) = [case for case in cases(op.name) if not case.beyond]
    if not words:
        check(implementation, case, "cpu")
        return
    with pytest.raises(ContractError, match=words):
        check(implementation, case, "cpu")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PROBLEM.replace("torch.relu(", "torch.reloo("), "the problem fails: AttributeError"),
        (PROBLEM.replace("steps\n\n", "steps\n        self.drop = nn.Dropout(0.5)\n\n"), r"random numbers \(Dropout\)"),
        (PROBLEM.replace("def get_inputs", "def inputs"), "is a problem that lacks get_inputs"),
        (PROBLEM.replace("def get_init_inputs", "def init_inputs"), "is a problem that lacks get_init_inputs"),
        (PROBLEM + "def (", r"the problem fails: SyntaxError: .*line 22"),
        (PROBLEM.replace("* scale + self.bias", "* scale + self.bias, 3"), "returns something that is no tensor"),
        (
            PROBLEM.replace("        return", "        self.steps += 1\n        return self.steps +"),
            r"keeps state \(self.steps",
        ),
    ],
)
def test_a_problem_that_can_t_be_judged_says_why(written: Callable[..., Path], text: str, words: str) -> None:
    with pytest.raises(definitions.DefinitionError, match=words):
        definitions.load_file(written(text, "take.py"))


def test_a_problem_that_draws_decides_nothing(written: Callable[..., Path]) -> None:
    """Its noise would be learnt into the bounds, and zeros pass."""
    from kernelzoo.check.cases import cases
    from kernelzoo.check.running import check

    text = PROBLEM.replace("torch.relu(self", "torch.nn.functional.dropout(self")
    (case,) = [case for case in cases(definitions.load_problem(written(text, "take.py")).name) if not case.beyond]
    zeros = definitions.load_submission(written(SUBMISSION.replace("mul_(scale)", "mul_(0)"), "zeros.py"))
    with pytest.raises(UndecidableError, match="its reference draws random numbers"):
        check(zeros, case, "cpu")


def test_a_file_without_a_kernel_is_no_submission(written: Callable[..., Path]) -> None:
    definitions.load_file(written(PROBLEM, "take.py"))
    with pytest.raises(definitions.DefinitionError, match="registers no kernel; a submission defines ModelNew or"):
        definitions.load_file(written(SUBMISSION.replace("ModelNew", "Modell"), "mine.py"))


def test_a_submission_needs_its_problem(written: Callable[..., Path]) -> None:
    with pytest.raises(definitions.DefinitionError, match="load its problem first, with --reference"):
        definitions.load_file(written(SUBMISSION, "mine.py"))
