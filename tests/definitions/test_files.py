"""Definitions, solutions and workloads of flashinfer-bench: read, judged, exported; and bad files refused in a line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import definitions
from kernelzoo.check.cases import cases
from kernelzoo.check.running import check
from kernelzoo.definitions import solutions
from kernelzoo.errors import ContractError
from kernelzoo.operations import BUILT_IN, OPERATIONS

REFERENCE = """
import torch

def run(x, scale, bias):
    assert x.shape[1] == 64
    wide = x.to(torch.float32)
    scaled = wide * scale + bias.to(torch.float32)
    return scaled.to(x.dtype), torch.softmax(wide, dim=-1).sum(-1).to(torch.float32)
"""

DEFINITION: dict[str, Any] = {
    "name": "scaled-rows.h64",
    "op_type": "made_up",
    "axes": {"rows": {"type": "var"}, "hidden": {"type": "const", "value": 64}},
    "inputs": {
        "x": {"shape": ["rows", "hidden"], "dtype": "bfloat16"},
        "scale": {"shape": None, "dtype": "float32"},
        "bias": {"shape": ["hidden"], "dtype": "bfloat16"},
    },
    "outputs": {
        "scaled": {"shape": ["rows", "hidden"], "dtype": "bfloat16"},
        "total": {"shape": ["rows"], "dtype": "float32"},
    },
    "reference": REFERENCE,
}

WRITES = """
import torch
from helper import half_of

def run(x, scale, bias, scaled, total):
    wide = x.double()
    scaled.copy_(2 * half_of(wide * scale + bias.double()))
    total.copy_(torch.softmax(wide, -1).sum(-1))
"""

RETURNS = """
import torch

def run(x, scale, bias):
    wide = x.float()
    return (wide * scale + bias.float()).to(x.dtype), torch.softmax(wide, -1).sum(-1)
"""


def solution(name: str, *sources: tuple[str, str], **spec: object) -> dict[str, Any]:
    return {
        "name": name,
        "definition": DEFINITION["name"],
        "author": "An Author",
        "spec": {"language": "python", "target_hardware": ["cpu"], "entry_point": "main.py::run", **spec},
        "sources": [{"path": path, "content": content} for path, content in sources],
    }


def passed(id: str) -> tuple[int, list[str]]:
    """Of the cases of an implementation, how many pass, and what is said of the others."""
    implementation, right, wrong = kernelzoo.implementation(id), 0, list[str]()
    for case in cases(implementation.op):
        try:
            check(implementation, case, "cpu")
            right += 1
        except AssertionError as error:
            wrong.append(f"{case}: {error}")
    return right, wrong


def test_a_definition_becomes_an_operation(written: Callable[..., Path]) -> None:
    op = definitions.load_definition(written(DEFINITION))
    assert op.name == "scaled_rows_h64" and op.dtypes == ("bfloat16",)
    assert [*op.inputs] == ["x", "bias"] and [*op.scalars] == ["scale"] and [*op.outputs] == ["scaled", "total"]
    assert op.axes == (("rows", "64"), ("64",), ("rows", "64"), ("rows",))
    x, bias = torch.randn(5, 64).bfloat16(), torch.randn(64).bfloat16()
    scaled, total = kernelzoo.get("reference").scaled_rows_h64(x, bias, scale=3.0)
    torch.testing.assert_close(scaled, (x.float() * 3 + bias.float()).bfloat16(), rtol=0, atol=0)
    assert total.dtype == torch.float32
    right, wrong = passed("reference/scaled_rows_h64/reference")
    assert right > 50 and not wrong


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("wide", "wide * scale + bias.double()"),
        ("a scale of one", "wide + bias.double()"),
        ("bias in its square", "wide * scale + bias.double() ** 2"),
        ("half precision throughout", "(x * 0.37 / 0.37 * scale + bias).double()"),
        ("NaN dropped", "wide.nan_to_num(0.0) * scale + bias.double()"),
        ("rolled", "(wide * scale + bias.double()).roll(1, 0)"),
        ("zeros", "wide * 0"),
        ("a row too few", "torch.cat([wide[:-1] * scale + bias.double(), wide[-1:]])"),
    ],
)
def test_a_solution_is_judged_by_it(written: Callable[..., Path], name: str, wrong: str) -> None:
    definitions.load_definition(written(DEFINITION))
    code = WRITES.replace("wide * scale + bias.double()", wrong)
    given = solution(name, ("main.py", code), ("helper.py", "def half_of(x):\n    return x / 2\n"))
    implementation = definitions.load_solution(written(given))
    assert implementation.backend == "An_Author" and implementation.variant == name.replace(" ", "_")
    _, said = passed(implementation.id)
    assert bool(said) == (name != "wide"), said[:3]


@pytest.mark.parametrize("spec", [{"destination_passing_style": False}, {}], ids=["said", "seen by its parameters"])
def test_a_solution_may_return_its_results(written: Callable[..., Path], spec: dict[str, object]) -> None:
    definitions.load_file(written(DEFINITION))
    definitions.load_file(written(solution("returns", ("main.py", RETURNS), **spec)))
    right, wrong = passed("An_Author/scaled_rows_h64/returns")
    assert right > 50 and not wrong


def test_a_result_that_may_work_after_the_clock_is_refused(written: Callable[..., Path]) -> None:
    """As a tensor or a list of a class of its own, when it is copied."""
    definitions.load_file(written(DEFINITION))

    class Lazy(torch.Tensor): ...

    class Late(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("it works when it is delivered")

    x = torch.ones(2, 64).bfloat16()
    for made, what in ((x.as_subclass(Lazy), "Lazy"), (x.to_sparse(), "torch.sparse_coo"), (None, "NoneType")):
        with pytest.raises(ContractError, match=f"returned {what} as scaled, must return a plain") as caught:
            solutions.check_returned("scaled_rows_h64", Late([made, x]), (x, x))
        assert caught.value.kind == "wrong kind of result"
    assert solutions.check_returned("scaled_rows_h64", [torch.nn.Parameter(x), x], (x, x))


@pytest.mark.parametrize(
    ("more", "result", "writes"),
    [(0, "torch.Tensor", False), (0, "list[torch.Tensor]", False), (0, "None", True), (1, "torch.Tensor", True)],
)
def test_what_is_compiled_says_what_it_takes(
    written: Callable[..., Path], more: int, result: str, writes: bool
) -> None:
    """pybind11's functions have no signature; the first line of their documentation has it."""
    definitions.load_file(written(DEFINITION))
    taken = ", ".join(f"arg{place}: torch.Tensor" for place in range(len(DEFINITION["inputs"]) + more))

    class Compiled:
        __signature__ = "none"
        __doc__ = f"run({taken}) -> {result}\n"

        def __call__(self) -> None: ...

    assert solutions._takes_outputs({"spec": {}}, "scaled_rows_h64", Compiled()) is writes


def without(key: str, of: dict[str, Any] = DEFINITION) -> dict[str, Any]:
    return {name: value for name, value in of.items() if name != key}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "holds no JSON object"),
        (without("reference"), "it lacks 'reference'"),
        (without("sources", solution("early")), "is no solution: it lacks 'sources'"),
        (DEFINITION | {"inputs": {}}, "inputs must be an object of tensors by name"),
        (DEFINITION | {"axes": {"rows": {"type": "const"}}}, "axes.rows lacks 'value'"),
        (DEFINITION | {"axes": {"rows": {"type": "var"}}}, "x has an axis 'hidden', which is not among the axes"),
        (DEFINITION | {"outputs": {"x": {"shape": ["rows"], "dtype": "float32"}}}, "x is an input and an output"),
        (DEFINITION | {"reference": "def run(:"}, "the reference is no Python: line 1"),
        (DEFINITION | {"reference": "def go(): pass"}, "the reference has no function 'run'"),
        (
            DEFINITION | {"reference": "import nothing_there\ndef run(): pass"},
            "the reference fails: ModuleNotFoundError",
        ),
        (
            DEFINITION | {"inputs": DEFINITION["inputs"] | {"at": {"shape": ["rows"], "dtype": "int32"}}},
            "which integers 'at' may hold",
        ),
        (DEFINITION | {"inputs": {"x": {"shape": ["rows"], "dtype": "float4_e2m1"}}}, "x is of float4_e2m1"),
        (solution("early", ("main.py", RETURNS)), "load its definition first"),
        (solution("out", ("../main.py", RETURNS)), "lies outside of the solution's folder"),
        (solution("lost", ("other.py", RETURNS)), "the entry point's file 'main.py' is not among the sources"),
        ({"uuid": "1", "axes": {"rows": 3}, "inputs": {}}, "is a file of workloads"),
        ({"workload": {"uuid": "1", "axes": {"rows": -1}, "inputs": {}}}, "axes.rows must be a size of 0 or more"),
    ],
)
def test_bad_files_get_a_line(written: Callable[..., Path], content: object, words: str) -> None:
    with pytest.raises(definitions.DefinitionError) as caught:
        definitions.load_file(written(content))
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (solution("broken", ("main.py", "import nothing_there")), "can't be built: ModuleNotFoundError"),
        (solution("nameless", ("main.py", "x = 1")), r"can't be built: AttributeError: main\.py has no function 'run'"),
        (
            solution("ffi", ("kernel.cu", "//"), language="cuda", entry_point="kernel.cu::run"),
            "pip install apache-tvm-ffi",
        ),
    ],
)
def test_what_can_t_be_built_says_why(written: Callable[..., Path], given: dict[str, Any], words: str) -> None:
    definitions.load_definition(written(DEFINITION))
    with pytest.raises(definitions.DefinitionError, match=words):
        definitions.load_solution(written(given))


@pytest.mark.parametrize(("op", "dtype"), [("softmax", "bfloat16"), ("min", "float32"), ("min", "int8")])
def test_what_is_exported_means_the_same(op: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "exported.json"
    said = definitions.export_definition(op, dtype, path)
    assert json.loads(path.read_text(encoding="utf-8")) == said and definitions.read(path)[0] == "definition"
    space: dict[str, Any] = {}
    exec(said["reference"], space)
    (x,) = OPERATIONS[op].sample((3, 40, 5), dtype, 1, generator=torch.Generator().manual_seed(0))
    OPERATIONS[op].assert_close(space["run"](x), x, 1)
    if dtype != "int8":  # a definition does not say which integers an input may hold
        made = definitions.load_definition(path)
        right, wrong = passed(f"reference/{made.name}/reference")
        assert right > 20 and not wrong


def test_what_was_loaded_is_exported_as_it_was(written: Callable[..., Path]) -> None:
    assert definitions.export_definition(definitions.load_definition(written(DEFINITION)).name) == DEFINITION


@pytest.mark.parametrize("op", BUILT_IN)
def test_an_exported_reference_runs_alone(op: str) -> None:
    operation, space = OPERATIONS[op], dict[str, Any]()
    exec(definitions.export_definition(op)["reference"], space)
    inputs = operation.sample((3, 17, 2), "float32", 1, generator=torch.Generator().manual_seed(0))
    found = space["run"](*inputs, *(scalar.default for scalar in operation.scalars.values()))
    outs = operation.out_dtypes(operation.arguments(inputs, 1, False, {}))
    assert [x.dtype for x in (found if isinstance(found, tuple) else (found,))] == list(outs)


def test_sizes_come_from_axes_and_workloads(written: Callable[..., Path]) -> None:
    from kernelzoo.cli import sizes
    from kernelzoo.cli.options import OptionError

    op = definitions.load_definition(written(DEFINITION)).name
    (plain,) = sizes.problems([op], (), (), sizes=["rows=7"])
    assert plain.id == "scaled_rows_h64-bfloat16-rows=7" and plain.shape == (7, 64)
    lines = [
        {"workload": {"uuid": str(n), "axes": {"rows": n}, "inputs": {"scale": {"type": "scalar", "value": n / 2}}}}
        for n in (1, 3)
    ]
    path = written("\n".join(map(json.dumps, lines)), "w.jsonl")
    one, three = sizes.problems([op], (), (), workloads=[path])
    assert (one.shape, three.scalars) == ((1, 64), (("scale", 1.5),)) and three.id.endswith("rows=3-scale=1.5")
    for given, words in ((["rows=7,hidden=64"], "no axis hidden"), ([], "takes --axes, such as rows=1024")):
        with pytest.raises(OptionError, match=words):
            sizes.problems([op], (), (), sizes=given)
    for text in ("rows", "rows=0", "rows=1,rows=2", "rows=x"):
        with pytest.raises(OptionError, match="no axes"):
            sizes.problems([op], (), (), sizes=[text])
