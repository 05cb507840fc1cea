"""gpu-mode's problems: a folder as it stands, with sizes from its tests, buffers, and checks by property."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kernelzoo
from kernelzoo import definitions
from kernelzoo.check.cases import cases
from kernelzoo.check.running import check
from kernelzoo.cli import app
from kernelzoo.definitions import loading
from kernelzoo.errors import ContractError, UndecidableError

TASK = """
name: scaled

files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}

tests:
  - {"size": 24, "seed": 1}
  - {"size": 33, "seed": 7}

benchmarks:
  - {"size": 512, "seed": 3}
"""

UTILS = """
def match_reference(data, output, reference):
    expected = reference(data)
    near = (output - expected).abs().max() < 0.5
    return bool(near), "" if near else "too far"
"""

REFERENCE = """
import torch
from utils import match_reference

def generate_input(size: int, seed: int):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    x = torch.randn(size, 4, device="cuda", generator=gen)
    out = torch.empty(size, 4, device="cuda")
    return x, {"scale": torch.rand(4, device="cuda", generator=gen)}, 2, out

def ref_kernel(data):
    x, weights, power, out = data
    out[...] = x ** power * weights["scale"]
    return out

def check_implementation(data, output):
    return match_reference(data, output, reference=ref_kernel)
"""

SUBMISSION = """
from utils import match_reference

def custom_kernel(data):
    x, weights, power, out = data
    out.copy_(x.double().pow(power) * weights["scale"].double())
    return out
"""

BY_PROPERTY = """
import torch

def generate_input(size: int, seed: int):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    return torch.randn(size, device="cuda", generator=gen)

def ref_kernel(data):
    return data.sort().values

def check_implementation(data, output):
    if bool((output.diff() < 0).any()):
        return "not in order"
    return "" if torch.equal(output.sort().values, data.sort().values) else "not the same elements"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    def write(reference: str = REFERENCE, task: str = TASK) -> Path:
        path = tmp_path / "scaled_py"
        path.mkdir(exist_ok=True)
        (tmp_path / "utils.py").write_text(UTILS, encoding="utf-8")
        (path / "task.yml").write_text(task, encoding="utf-8")
        (path / "reference.py").write_text(reference, encoding="utf-8")
        return path

    return write


def passes(id: str) -> None:
    """Each case that the problem means passes."""
    implementation = kernelzoo.implementation(id)
    for case in cases(implementation.op):
        if not case.beyond:
            check(implementation, case, "cpu")


def test_a_folder_becomes_an_operation_for_each_test(folder: Callable[..., Path]) -> None:
    names = [op.name for op in definitions.load_task_folder(folder())]
    assert names[:2] == ["scaled_py_size_24", "scaled_py_size_33"]
    op = loading.OPERATIONS[names[0]]
    assert op.axes == (("24", "4"), ("4",), ("24", "4")), "memory that it leaves unset is no input"
    passes("reference/scaled_py_size_24/reference")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", ""),
        ("out.copy_(x.double", "return (x.double", ""),
        (".pow(power)", ".pow(power) * 1.001", "elements wrong"),
        ("    return out", "    return out.half()", "dtype torch.float16"),
        ("out.copy_(", "x.fill_(1.0); out.copy_(", "the input x0 was changed"),
    ],
    ids=["right", "returned", "off", "half", "writes"],
)
def test_a_submission_is_judged_by_it(
    folder: Callable[..., Path], written: Callable[..., Path], old: str, new: str, words: str
) -> None:
    definitions.load_file(folder())
    text = SUBMISSION.replace(old, new)
    definitions.load_file(written(text.replace(".double())\n", ".double()).float()\n", "return (" in text), "mine.py"))
    if not words:
        passes("submission/scaled_py_size_24/mine")
        passes("submission/scaled_py_size_33/mine")
        return
    with pytest.raises(ContractError, match=words):
        passes("submission/scaled_py_size_24/mine")


def test_a_result_has_the_dtype_of_the_memory_left_for_it(
    folder: Callable[..., Path], written: Callable[..., Path]
) -> None:
    """The reference may compute in a wider one, to be on the safe side."""
    wide = REFERENCE.replace('out[...] = x ** power * weights["scale"]', 'out = x.double() ** power * weights["scale"]')
    (op, *_) = definitions.load_task_folder(folder(wide))
    assert [out.dtype for out in op.outputs.values()] == ["float32"]
    definitions.load_file(written(SUBMISSION, "mine.py"))
    passes("submission/scaled_py_size_24/mine")
    definitions.load_file(written(SUBMISSION.replace("return out", "return out.double()"), "wide.py"))
    with pytest.raises(ContractError, match=r"dtype torch\.float64"):
        passes("submission/scaled_py_size_24/wide")


@pytest.mark.parametrize("said", ['"not in order"', '[False, "not in order"]'])
def test_a_check_by_property_decides_as_it_is(
    folder: Callable[..., Path], written: Callable[..., Path], said: str
) -> None:
    definitions.load_task_folder(folder(BY_PROPERTY.replace('"not in order"', said)))
    definitions.load_file(written("def custom_kernel(data):\n    return data.sort().values", "mine.py"))
    passes("submission/scaled_py_size_24/mine")
    definitions.load_file(written("def custom_kernel(data):\n    return data.sort(descending=True).values", "wrong.py"))
    with pytest.raises(ContractError, match="scaled_py, by its own check: not in order"):
        passes("submission/scaled_py_size_24/wrong")


@pytest.mark.parametrize(
    ("reference", "task", "words"),
    [
        (REFERENCE.replace("torch.randn(", "torch.rendn("), TASK, "the problem fails: AttributeError"),
        (
            REFERENCE.replace("def check_implementation", "def check"),
            TASK,
            r"reference\.py has no check_implementation",
        ),
        (REFERENCE.replace("    return out\n", ""), TASK, "ref_kernel returned NoneType, must return tensors"),
        (
            REFERENCE.replace("generator=gen)\n    out", "generator=gen).to(torch.float8_e4m3fnuz)\n    out").replace(
                "x ** power", "x.float() ** power"
            ),
            TASK,
            "got float8_e4m3fnuz",
        ),
        (REFERENCE, "name: nothing", "lists no files or no tests"),
        (REFERENCE, TASK.replace('"seed": 7}', '"seed": }'), "write each of its tests as JSON"),
        (REFERENCE, TASK.replace("tests:\n", "tests:\n  - size: 3\n"), "write each of its tests on one line"),
    ],
)
def test_a_bad_folder_says_why(folder: Callable[..., Path], reference: str, task: str, words: str) -> None:
    with pytest.raises(definitions.DefinitionError, match=words):
        definitions.load_task_folder(folder(reference, task))


def test_a_reference_may_draw_where_a_property_decides(
    folder: Callable[..., Path], written: Callable[..., Path]
) -> None:
    shuffled = BY_PROPERTY.replace("data.sort().values\n\n", "data[torch.randperm(len(data))]\n\n").replace(
        "< 0", "< -99"
    )
    definitions.load_task_folder(folder(shuffled))
    definitions.load_file(written("def custom_kernel(data):\n    return data.flip(0)", "mine.py"))
    passes("submission/scaled_py_size_24/mine")


def test_a_reference_that_draws_decides_nothing(folder: Callable[..., Path], written: Callable[..., Path]) -> None:
    definitions.load_task_folder(folder(REFERENCE.replace("x ** power", "torch.dropout(x, 0.5, True)")))
    definitions.load_file(written("def custom_kernel(data):\n    return data[3].zero_()", "zeros.py"))
    with pytest.raises(UndecidableError, match="its reference draws random numbers"):
        passes("submission/scaled_py_size_24/zeros")


def test_compare_takes_a_folder(folder: Callable[..., Path], written: Callable[..., Path]) -> None:
    given = ["--reference", str(folder()), "--submission", str(written(SUBMISSION, "mine.py"))]
    given += ["--submission", str(written(SUBMISSION.replace("power)", "power) * 1.001"), "off.py"))]
    result = CliRunner().invoke(app, ["compare", *given, "--device", "cpu", "--rounds", "2", "--json"])
    told = json.loads(result.stdout)
    assert [found["op"] for found in told["problems"]] == ["scaled_py_size_24", "scaled_py_size_33"]
    for found in told["problems"]:
        rows = {row["id"].rpartition("/")[2]: row for row in found["rows"]}
        assert rows["mine"]["median_us"] and re.search("elements wrong", str(rows["off"]))
