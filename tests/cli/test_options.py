"""What options may say, and the words for what they may not."""

from itertools import pairwise

import pytest

from kernelzoo.cli.against import share
from kernelzoo.cli.options import OptionError, choose, problems, select, shape, words
from kernelzoo.errors import UnknownNameError

KNOWN = [
    "cpu/min/auto",
    "cpu/softmax/auto",
    "cpu/softmax/online",
    "mine/softmax/one",
    "mine/softmax/two",
    "torch/min/auto",
    "torch/softmax/auto",
    "torch/softmax/eager",
]


def test_words_split_commas_and_keep_order() -> None:
    assert words(["a,b", "c", ",d,"]) == ("a", "b", "c", "d")


def test_shapes() -> None:
    assert shape("4096x1024") == (4096, 1024)
    assert shape("7") == (7,)
    assert shape("2X3x4") == (2, 3, 4)


@pytest.mark.parametrize("text", ["", "x", "3x0", "3x-1", "3 x 4", "axb", "3x", "²x3", "1e3x4"])
def test_bad_shapes_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"no shape .* such as 4096x1024"):
        shape(text)


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
def test_choosing(patterns: list[str], ops: tuple[str, ...], chosen: list[str]) -> None:
    assert list(choose(KNOWN, patterns, ops)) == chosen


@pytest.mark.parametrize(
    ("pattern", "ops", "told"),
    [
        ("torch", (), "with --op"),
        ("torch/softmax/eagre", (), "did you mean torch/softmax/eager"),
        ("trch", ("min",), "did you mean torch"),
        ("cpu/softmax/online", ("min",), "of min"),
        ("zzz/*/*", (), "kernelzoo list shows them all"),
    ],
)
def test_choosing_nothing_is_an_error(pattern: str, ops: tuple[str, ...], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        choose(KNOWN, [pattern], ops)


def test_selecting() -> None:
    assert select(KNOWN) == tuple(sorted(KNOWN))
    assert select(KNOWN, ops=["min"], backends=["cpu"]) == ("cpu/min/auto",)
    assert select(KNOWN, ["*/softmax/*"], variants=["eager", "two"]) == ("mine/softmax/two", "torch/softmax/eager")
    for told, names in (
        ("no backend 'cuda'; known: cpu", {"backends": ["cuda"]}),
        ("no operation 'max'; known: min", {"ops": ["max"]}),
        ("no variant 'slow'; known: auto", {"variants": ["slow"]}),
    ):
        with pytest.raises(UnknownNameError, match=told):
            select(KNOWN, **names)
    with pytest.raises(OptionError, match="leave no implementation"):
        select(KNOWN, backends=["mine"], variants=["auto"])


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
    assert share("5%") == pytest.approx(0.05)
    assert share("0.05") == pytest.approx(0.05)
    assert share("0%") == 0
    for one, other in pairwise(["1%", "2%", "0.5"]):
        assert share(one) < share(other)
    for text in ("5", "-1%", "nan", "x%", "", "inf"):
        with pytest.raises(OptionError, match=r"like 5% or 0\.05"):
            share(text)
