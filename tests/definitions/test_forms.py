"""Everything that a definition or a solution may say: sizes, integers, own inputs, narrow floats, older forms."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo import definitions
from kernelzoo.cli import sizes
from kernelzoo.errors import ContractError
from kernelzoo.measure.problems import Problem
from kernelzoo.operations import Operation


def tensor(dtype: str, *shape: object, **more: object) -> dict[str, Any]:
    return {"shape": list(shape), "dtype": dtype, **more}


def scalar(dtype: str) -> dict[str, Any]:
    return {"shape": None, "dtype": dtype}


VAR = {"type": "var"}


def const(value: int) -> dict[str, Any]:
    return {"type": "const", "value": value}


def expr(text: str) -> dict[str, Any]:
    return {"type": "expr", "expression": text}


def definition(code: str, axes: Any, inputs: Any, outputs: Any, **more: Any) -> dict[str, Any]:
    reference = f"import torch\n\n{code}"
    return {"name": "made", "axes": axes, "inputs": inputs, "outputs": outputs, "reference": reference, **more}


Load = Callable[..., Operation]


@pytest.fixture
def load(written: Callable[..., Path]) -> Load:
    """Load the definition of such code."""
    return lambda *said, **more: definitions.load_definition(written(definition(*said, **more)))


@pytest.fixture
def of_rows(load: Load) -> Load:
    """Load code of one input and one output, both of rows."""
    rows = {"shape": ["rows"], "dtype": "float32"}
    return lambda code: load(code, {"rows": VAR}, {"x": rows}, {"out": rows})


def judged(op: Operation, text: str, **scalars: Any) -> tuple[Problem, tuple[torch.Tensor, ...]]:
    """The problem of such sizes, and its inputs; the reference as written passes on it."""
    (problem,) = sizes.problems([op.name], (), (), sizes=[text])
    inputs = problem.inputs(torch.Generator().manual_seed(0))
    outs = op.allocate(problem.meta if not inputs else problem.arguments(inputs))
    problem.launch(kernelzoo.implementation(f"reference/{op.name}/reference"), inputs, outs)()
    op.expect(problem.arguments(inputs)).check(outs)
    return problem, inputs


def test_sizes_may_be_expressions_and_numbers(load: Load) -> None:
    axes = {
        "heads": VAR,
        "dim": const(4),
        "width": expr("heads * dim"),
        "half": expr("width // 2"),
        "both": expr("dim * 2"),
    }
    inputs = {"x": tensor("float32", "rows", "width"), "y": tensor("float32", "rows", "both", 1, "heads + 1")}
    code = "def run(x, y):\n    return x[:, : x.shape[1] // 2] * 1.5 + y.sum()"
    op = load(code, {"rows": VAR, **axes}, inputs, {"out": tensor("float32", "rows", "half")})
    assert op.axes[1][1:3] == ("8", "1") and {*op.free_axes} == {"rows", "heads"}
    problem, (x, y) = judged(op, "rows=3,heads=5")
    assert (x.shape, y.shape) == ((3, 20), (3, 8, 1, 6)) and problem.id == "made-float32-rows=3,heads=5"
    (out,) = op.out_shapes(problem.meta)
    assert out == (3, 10)
    with pytest.raises(kernelzoo.ShapeError, match="width is 21, must be heads \\* 4 = 20"):
        op.arguments((torch.empty(3, 21), y), scalars=dict(problem.scalars))


def test_an_axis_that_no_input_has_is_a_scalar(load: Load) -> None:
    code = "def run(x, k):\n    return x[:, :k].clone()"
    inputs = {"x": tensor("float32", "rows", 16), "k": scalar("int64")}
    op = load(code, {"rows": VAR, "k": VAR}, inputs, {"out": tensor("float32", "rows", "k")})
    problem, _ = judged(op, "rows=3,k=4")
    assert dict(problem.scalars) == {"k": 4} and op.out_shapes(problem.meta) == ((3, 4),)


def test_constraints_relate_axes(load: Load) -> None:
    code = """
def run(x, qo_indptr):
    assert ends == parts + 1 and total == qo_indptr[-1].item()
    bounds = qo_indptr.tolist()
    return torch.stack([x[a:b].sum(0) for a, b in zip(bounds, bounds[1:])])
""".replace("assert ends == parts + 1 and", "parts = len(qo_indptr) - 1; total = len(x)\n    assert")
    inputs = {"x": tensor("float32", "total", 8), "qo_indptr": tensor("int32", "ends")}
    axes = {"total": VAR, "ends": VAR, "parts": VAR}
    op = load(code, axes, inputs, {"out": tensor("float32", "parts", 8)}, constraints=["ends == parts + 1"])
    _, (x, ends) = judged(op, "total=9,parts=3")
    assert len(x) == 9 and ends[0] == 0 and ends[-1] == 9 and bool((ends[1:] >= ends[:-1]).all()) and len(ends) == 4


def test_integers_need_a_range(written: Callable[..., Path]) -> None:
    code = "def run(table, at, keep):\n    return table[at] * keep[:, None]"
    outputs = {"out": tensor("bfloat16", "count", 8)}

    def made(**at: Any) -> Path:
        inputs = {
            "table": tensor("bfloat16", "length", 8),
            "at": tensor("int64", "count", **at),
            "keep": tensor("bool", "count"),
        }
        return written(definition(code, {"length": VAR, "count": VAR}, inputs, outputs))

    with pytest.raises(definitions.DefinitionError, match="nothing says which integers 'at' may hold; state them"):
        definitions.load_definition(made())
    op = definitions.load_definition(made(low=1, high="length - 1"))
    _, (table, at, keep) = judged(op, "length=5,count=200")
    assert {*at.tolist()} == {1, 2, 3} and {*keep.tolist()} == {True, False} and len(table) == 5
    path = made()
    workload = {"uuid": "1", "axes": {"length": 5, "count": 2}, "inputs": {"at": {"type": "random"}}}
    written(json.dumps(workload) + "\n", "workload.jsonl")
    op = definitions.load_definition(path)
    assert (op.inputs["at"].low, op.inputs["at"].high) == (-1024, 1024)


@pytest.mark.parametrize("scale", ["2.5", "2.5 + 0 * float(weight.sum())"])  # the second one looks at values
def test_a_definition_draws_its_own_inputs(load: Load, scale: str) -> None:
    code = """
def make(sizes, device):
    weight = torch.rand(sizes["hidden"], device=device)
    order = torch.randperm(sizes["rows"], device=device)
    return {"x": torch.randn(sizes["rows"], sizes["hidden"], device=device), "order": order, "w": weight, "scale": S}

def run(x, order, scale, w):
    return x[order] * scale * w
""".replace("S}", scale + "}")
    inputs = {
        "x": tensor("float32", "rows", "hidden"),
        "order": tensor("int64", "rows"),
        "scale": scalar("float32"),
        "w": tensor("float32", "hidden"),
    }
    axes, outputs = {"rows": VAR, "hidden": const(8)}, {"out": tensor("float32", "rows", "hidden")}
    op = load(code, axes, inputs, outputs, custom_inputs_entrypoint="make")
    state = torch.get_rng_state()
    problem, (x, order, w) = judged(op, "rows=6")
    assert torch.equal(torch.get_rng_state(), state), "the process's own generator is left alone"
    assert sorted(order.tolist()) == list(range(6)) and bool((w >= 0).all()) and op.relates_inputs
    assert dict(problem.scalars) == {"scale": 2.5}
    again = problem.inputs(torch.Generator().manual_seed(0))
    other = problem.inputs(torch.Generator().manual_seed(1))
    assert torch.equal(x, again[0]) and not torch.equal(x, other[0])


def test_what_workloads_alone_say_reaches_its_own_inputs(load: Load, written: Callable[..., Path]) -> None:
    code = """
def make(sizes, device):
    return {"x": torch.randn(sizes["rows"], 8, device=device), "doubled": sizes["doubled"]}

def run(x, doubled):
    return 2 * x if doubled else x
"""
    said = [{"uuid": "1", "axes": {"rows": 512, "doubled": value}, "inputs": {}} for value in (0, 1)]
    written("\n".join(map(json.dumps, said)), "workload.jsonl")
    inputs = {"x": tensor("float32", "rows", 8), "doubled": scalar("int32")}
    op = load(code, {"rows": VAR}, inputs, {"out": tensor("float32", "rows", 8)}, custom_inputs_entrypoint="make")
    assert {op.scalars_for(sizes)["doubled"] for sizes in op.hooks["workloads"]} == {0, 1}


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_are_read_and_written(load: Load, dtype: str) -> None:
    code = (
        f"def run(x, scale):\n    return (x.float() * scale[:, None]), (scale[:, None] * x.float()).to(torch.{dtype})"
    )
    inputs = {"x": tensor(dtype, "rows", 32), "scale": tensor("float32", "rows")}
    outputs = {"wide": tensor("float32", "rows", 32), "narrow": tensor(dtype, "rows", 32)}
    op = load(code, {"rows": VAR}, inputs, outputs)
    problem, given = judged(op, "rows=7")
    expected = op.expect(problem.arguments(given))
    wide, narrow = (
        result.to(kind)
        for result, kind in zip(op.reference(problem.arguments(given)), op.out_dtypes(problem.meta), strict=True)
    )
    bits = narrow.view(torch.int8)
    bits[3, 5] += 2
    with pytest.raises(ContractError, match="1 of 224 elements wrong; first at \\(3, 5\\)"):
        expected.check((wide, narrow))


def test_names_that_a_call_needs_are_renamed(load: Load) -> None:
    inputs = {"n": tensor("float32", "inner", "dim"), "sample": tensor("float32", "dim")}
    code, outputs = "def run(n, sample):\n    return {'out': n * sample}", {"out": tensor("float32", "inner", "dim")}
    op = load(code, {"inner": VAR, "dim": VAR}, inputs, outputs)
    assert [*op.inputs] == ["n_", "sample_"]
    judged(op, "inner_=3,dim_=4")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def run(x):\n    return x + torch.randn_like(x)", "draws random numbers \\(randn_like\\)"),
        ("def noise(x):\n    return torch.multinomial(x, 1)\n\ndef run(x):\n    return noise(x)", "\\(multinomial\\)"),
        ("def run(x):\n    return torch.nn.functional.dropout(x, 0.5)", "\\(dropout\\)"),
        ("def run(x, more):\n    return x", "the reference takes more, which is no input"),
    ],
)
def test_what_can_t_be_judged_is_refused_with_its_reason(of_rows: Load, code: str, words: str) -> None:
    with pytest.raises(definitions.DefinitionError, match=words):
        of_rows(code)


def test_randomness_beside_the_reference_is_no_matter(of_rows: Load) -> None:
    code = """
def noise(x):
    return torch.randn_like(x)

def run(x):
    return torch.nn.functional.dropout(x, 0.5, training=False)
"""
    judged(of_rows(code), "rows=3")


def test_solutions_of_both_sets_and_older_forms(of_rows: Load, written: Callable[..., Path]) -> None:
    op = of_rows("def run(x):\n    return 2 * x")
    body = "def run(x):\n    return {'out': x + x}\n"
    written(body, "beside.py")
    forms: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
        "several": ({"languages": ["pytorch"], "entry_point": "main.py::run"}, [{"path": "main.py", "content": body}]),
        "beside": ({"languages": ["triton"], "entry_point": "beside.py::run"}, [{"path": "beside.py"}]),
        "older": ({"language": "Python", "entry_point": "run"}, [{"path": "main.py", "content": body}]),
    }
    for name, (spec, sources) in forms.items():
        found = {"name": name, "definition": "made", "author": "An Author", "spec": spec, "sources": sources}
        found["spec"]["destination_passing_style"] = False
        implementation = definitions.load_solution(written(found, f"{name}.json"))
        x = torch.randn(5)
        torch.testing.assert_close(
            getattr(kernelzoo.get("An_Author"), op.name)(x, variant=implementation.variant), 2 * x
        )
    for number, (parameters, words) in enumerate((("x, alpha=1.0", ""), ("*given", "add destination_passing_style"))):
        content = f"def run({parameters}):\n    return 2 * x\n"
        found = {"name": f"unsaid{number}", "definition": "made", "author": "An Author"}
        found |= {"sources": [{"path": "main.py", "content": content}]}
        found |= {"spec": {"languages": ["pytorch"], "entry_point": "main.py::run"}}
        with pytest.raises(definitions.DefinitionError, match=words) if words else nullcontext():
            unsaid = definitions.load_solution(written(found, "unsaid.json"))
            getattr(kernelzoo.get("An_Author"), op.name)(x, variant=unsaid.variant)
    lost = {"name": "lost", "definition": "made", "author": "A", "sources": [{"path": "lost.py"}]}
    with pytest.raises(definitions.DefinitionError, match=r"lost\.py can't be read"):
        definitions.load_solution(written(lost | {"spec": {"languages": ["triton"], "entry_point": "lost.py::run"}}))
    with pytest.raises(definitions.DefinitionError, match="spec lacks 'language' or 'languages'"):
        definitions.load_solution(written(lost | {"spec": {"entry_point": "lost.py::run"}}))
