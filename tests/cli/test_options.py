"""What options may say, and the words for what they may not."""

from itertools import pairwise

import pytest

from kernelzoo.cli import options
from kernelzoo.cli.against import parse_percent_or_fraction
from kernelzoo.cli.options import OptionError, full_dtype, match_ids, parse_shape, select_ids, select_ids_before_modules
from kernelzoo.cli.sizes import problems
from kernelzoo.errors import UnknownNameError

KNOWN = [
    "cpu/min/auto", "cpu/softmax/auto", "cpu/softmax/online", "mine/softmax/one", "mine/softmax/two",
    "torch/min/auto", "torch/softmax/auto", "torch/softmax/eager",
]  # fmt: skip


def test_words_split_commas_and_keep_order() -> None:
    assert options.split_words(["a,b", "c", ",d,"]) == ("a", "b", "c", "d")


def test_shapes() -> None:
    assert parse_shape("4096x1024") == (4096, 1024)
    assert parse_shape("7") == (7,)
    assert parse_shape("2X3x4") == (2, 3, 4)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (("40,20", "(40, 20)", "[40,20]", "40 20", "40*20", "40×20"), "did you mean --shape 40x20"),
        (("", "x", "3x0", "3x-1", "3 x 4", "axb", "3x", "²x3", "1e3x4"), "no shape .* such as 4096x1024"),
    ],
)
def test_bad_shapes_are_refused_or_questioned(texts: tuple[str, ...], told: str) -> None:
    for text in texts:
        with pytest.raises(OptionError, match=told):
            parse_shape(text)


def test_sizes_with_commas_are_questioned_and_shapes_are_not() -> None:
    with pytest.raises(OptionError, match="names 2 shapes of one axis each; did you mean --shape 40x20"):
        problems(["min"], ["40,20"], ["float32"])
    assert [p.shape for p in problems(["min"], ["40", "20,4x4"], ["float32"])] == [(40,), (20,), (4, 4)]


def test_short_names_of_dtypes() -> None:
    short = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
    assert {name: full_dtype(name) for name in short} == short
    assert full_dtype("torch.int8") == full_dtype("int8") == "int8"
    assert [p.dtype for p in problems(["min"], ["4x4"], ["bf16", "half"])] == ["bfloat16", "float16"]


@pytest.mark.parametrize(
    ("patterns", "ops", "chosen"),
    [
        (["torch/softmax/eager"], (), ["torch/softmax/eager"]),
        (["cpu/softmax/*"], (), ["cpu/softmax/auto", "cpu/softmax/online"]),
        (["torch", "cpu"], ("softmax",), ["torch/softmax/auto", "cpu/softmax/auto"]),
        (["torch"], ("softmax", "min"), ["torch/softmax/auto", "torch/min/auto"]),
        (["torch/eager", "torch"], ("softmax",), ["torch/softmax/eager", "torch/softmax/auto"]),
        (["mine"], ("softmax",), ["mine/softmax/one", "mine/softmax/two"]),
        (["*/min/*"], ("min",), ["cpu/min/auto", "torch/min/auto"]),
        (["torch", "torch/softmax/auto", "*/auto"], ("softmax",), ["torch/softmax/auto", "cpu/softmax/auto"]),
    ],
)
def test_choosing(patterns, ops, chosen) -> None:
    assert list(match_ids(KNOWN, patterns, ops)) == chosen


@pytest.mark.parametrize(
    ("pattern", "ops", "told"),
    [
        ("torch", (), r"did you mean 'torch/\*'\? With --op, 'torch' is enough"),
        ("trch", (), r"did you mean 'torch/\*'\?$"),
        ("softmax", (), r"did you mean '\*/softmax/\*'\?"),
        ("sofmax", (), r"did you mean '\*/softmax/\*'\?"),
        ("eager", (), r"did you mean '\*/\*/eager'\?"),
        ("cpu/sofmax", (), r"did you mean 'cpu/softmax/\*'\?"),
        ("torch/eager", (), r"did you mean 'torch/\*/eager'\?"),
        ("tocrh/*/auto", (), r"did you mean 'torch/\*/auto'\?"),
        ("torch/softmax/eagre", (), "did you mean torch/softmax/eager"),
        ("trch", ("min",), r"did you mean torch\?$"),
        ("torch/eagr", ("softmax",), r"did you mean torch/eager\?$"),
        ("cpu/softmax/online", ("min",), "of min"),
        ("zzz/*/*", (), "kernelzoo list shows them all"),
    ],
)
def test_choosing_nothing_is_an_error(pattern, ops, told) -> None:
    with pytest.raises(OptionError, match=told):
        match_ids(KNOWN, [pattern], ops)


def test_selecting() -> None:
    assert select_ids(KNOWN) == tuple(sorted(KNOWN))
    assert select_ids(KNOWN, ops=["min"], backends=["cpu"]) == ("cpu/min/auto",)
    assert select_ids(KNOWN, ["*/softmax/*"], variants=["eager", "two"]) == ("mine/softmax/two", "torch/softmax/eager")
    with pytest.raises(UnknownNameError, match="no variant 'slow'; known: auto"):
        select_ids(KNOWN, variants=["slow"])
    with pytest.raises(OptionError, match="leave no implementation"):
        select_ids(KNOWN, backends=["mine"], variants=["auto"])
    assert select_ids(["a/sum/rows", "b/sum/rows", "b/sum/auto"], variants=["auto"]) == ("a/sum/rows", "b/sum/auto")


def test_problems_of_own_shapes() -> None:
    found = problems(["softmax", "min"], ["3x5", "7x2,4x4"], ["float32", "float64"], dim=0)
    assert len(found) == 12
    assert (found[0].op, found[0].shape, found[0].dtype, found[0].dim) == ("softmax", (3, 5), "float32", 0)
    with pytest.raises(OptionError, match="no axis 2 in a shape of 2; allowed: -2 to 1"):
        problems(["min"], ["3x5"], ["float32"], dim=2)
    with pytest.raises(UnknownNameError, match="no softmax dtype 'int32'"):
        problems(["softmax"], ["3x5"], ["int32"])


def test_problems_of_a_set_keep_their_own_axes() -> None:
    assert {problem.dim for problem in problems(["min"], [], ["float32"], "axes")} == {0, 1}


def test_shares() -> None:
    assert parse_percent_or_fraction("5%") == pytest.approx(0.05)
    assert parse_percent_or_fraction("0.05") == pytest.approx(0.05)
    assert parse_percent_or_fraction("0%") == 0
    for one, other in pairwise(["1%", "2%", "0.5"]):
        assert parse_percent_or_fraction(one) < parse_percent_or_fraction(other)
    for text in ("5", "-1%", "nan", "x%", "", "inf"):
        with pytest.raises(OptionError, match=r"like 5% or 0\.05"):
            parse_percent_or_fraction(text)


def test_names_are_refused_before_a_process_starts_unless_a_module_may_add_them() -> None:
    assert "torch/min/eager" in select_ids_before_modules([], ["torch/min/*"])
    assert select_ids_before_modules(["mine.py"], ["mine/min/*"]) == ()
    with pytest.raises(OptionError, match="no implementation 'mine/min"):
        select_ids_before_modules([], ["mine/min/*"])


def test_what_was_asked_for_by_name_is_missing() -> None:
    chosen = ["cupy/min/a", "cupy/min/b", "torch/min/compile", "torch/min/eager"]
    absent = {"cupy/min/a": "no cupy", "cupy/min/b": "no cupy"}
    assert options.why_missing(["cupy/*"], (), absent, chosen) == ["no cupy"]
    assert options.why_missing([], ["cupy"], absent, chosen) == ["no cupy"]
    assert options.why_missing(["*/min/*", "torch/*"], (), absent, chosen) == []
    compiler = {"torch/min/compile": "no compiler"}
    assert options.why_missing(["torch/*"], (), compiler, chosen) == []
    assert options.why_missing(["torch/min/compile"], (), compiler, chosen) == ["no compiler"]
