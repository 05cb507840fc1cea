"""Who is the fastest, by how much, on which shapes: scores, their intervals, and the words."""

import random

import pytest

from kernelzoo.report import load, standing

EAGER = "torch/softmax/eager"


@pytest.fixture
def found(write):
    """The standing of some entries over all their problems, with its sentence."""

    def make(entries):
        selection = load([write(entries)]).groups[0].select(entries[0]["extra_info"]["op"])
        made = standing.rank_implementations(selection, standing.scores(selection), selection.problems)
        return made, standing.describe_fastest(made, selection), standing.describe_shapes(made, len(selection.problems))

    return make


def spread(us: float) -> list[float]:
    return [us * (1 + i / 1000) for i in range(-4, 5)]


def test_the_fastest_is_named_with_what_it_beats(entry, found) -> None:
    rows = [(EAGER, 10.0), ("triton/softmax/auto", 4.0), ("cupy/softmax/auto", 5.0), ("quack/softmax/library", 8.0)]
    made, said, shapes = found([entry(id, (8, 8), us=us, of_limit=2 / us, data=spread(us)) for id, us in rows])
    assert [bar.name for bar in made.bars] == ["triton/auto", "cupy/auto", "quack/library", "best peer", "torch/eager"]
    first = made.bars[0]
    assert (first.ratio, first.count) == (pytest.approx(2.5), 1)
    assert 0.995 * first.score < first.low < first.score < first.high < 1.005 * first.score
    assert said == "Fastest: triton/auto, with 1.25 × the speed of cupy/auto, 2.00 × quack/library, 2.50 × torch/eager."
    assert shapes == "float32, 1 shape: (8, 8)"


def test_torch_may_be_the_fastest(entry, found) -> None:
    rows = [(EAGER, 4.0), ("triton/softmax/auto", 5.0)]
    _, said, _ = found([entry(id, us=us, of_limit=2 / us) for id, us in rows])
    assert said == "Fastest: torch/eager, with 1.25 × the speed of triton/auto."


def test_what_samples_cannot_tell_apart_is_named_together(entry, found) -> None:
    rows = [(EAGER, 10.0), ("triton/softmax/auto", 4.0), ("cupy/softmax/auto", 4.001)]
    _, said, _ = found([entry(id, us=us, of_limit=2 / us, data=spread(us)) for id, us in rows])
    assert said.startswith("Fastest: triton/auto and cupy/auto, too close to tell apart, with 2.50 × ")
    level = [entry(id, us=us, of_limit=2 / us, data=spread(us)) for id, us in [(EAGER, 4.001), *rows[1:2]]]
    assert found(level)[1] == "Fastest: triton/auto and torch/eager, too close to tell apart."
    rows = [(EAGER, 10.0), ("quack/softmax/library", 4.0), ("triton/softmax/auto", 4.03)]  # within 1 %, however sure
    _, said, _ = found([entry(id, us=us, of_limit=2 / us, data=[us] * 9) for id, us in rows])
    assert said == "Fastest: quack/library and triton/auto, within 1 %, with 2.50 × the speed of torch/eager."


def test_what_breaks_the_contract_is_never_the_fastest(entry, found) -> None:
    rows = [entry(us=10.0, of_limit=0.2), entry("triton/softmax/auto", us=5.0, of_limit=0.4)]
    made, said, _ = found([*rows, entry("rival/softmax/library", us=4.0, of_limit=0.5, breaks="NaN is dropped")])
    assert (made.bars[0].name, made.bars[0].marks) == ("rival/library", "†")
    assert said == "Fastest: triton/auto, with 2.00 × the speed of torch/eager."


def test_what_was_disturbed_is_said_to_be(entry, found) -> None:
    rows = [entry(us=10.0, of_limit=0.2), entry("triton/softmax/auto", us=5.0, of_limit=0.4, flags=["disturbed"])]
    assert found(rows)[1] == "Fastest: triton/auto (1 ~), with 2.00 × the speed of torch/eager."


def test_all_are_ranked_on_the_shapes_that_every_language_has(entry, found) -> None:
    shapes = [(8, 8 * i) for i in range(1, 11)]
    rows = [entry(id, shape, of_limit=0.5) for id in ("cupy/softmax/auto", "numba/softmax/auto") for shape in shapes]
    rows += [entry("cute/softmax/auto", shape, of_limit=0.9) for shape in shapes[:6]]
    rows += [entry("helion/softmax/auto", shapes[9], of_limit=0.1)]  # one shape alone does not shrink the set
    rows += [entry(EAGER, shape, of_limit=0.3) for shape in shapes[:2]]
    made, _, said = found(rows)
    assert [(bar.name, bar.count) for bar in made.bars] == [
        *(("cute/auto", 6), ("cupy/auto", 6), ("numba/auto", 6), ("torch/eager", 2))
    ]
    assert said == "float32, the 6 of 10 shapes with a result of every language but helion: (8, 8) to (8, 48)"


def test_without_a_limit_a_score_is_relative_to_the_baseline(entry, found) -> None:
    told = {"ceiling_gb_per_s": None, "floor_us": None, "of_limit": None}
    rows = [entry(us=10.0, data=spread(10.0), **told), entry("cpu/softmax/auto", us=5.0, data=spread(5.0), **told)]
    made, _, _ = found(rows)
    assert [(bar.name, round(bar.score, 6)) for bar in made.bars] == [("cpu/auto", 2.0), ("torch/eager", 1.0)]
    assert made.bars[0].low < 2 < made.bars[0].high


@pytest.mark.parametrize(("shapes", "samples"), [(1, 5), (1, 15), (10, 5), (50, 5)])
def test_ninety_five_percent_of_intervals_hold_the_true_score(shapes, samples) -> None:
    draw = random.Random(1)
    tries, held = 1500, 0
    for _ in range(tries):
        rows = []
        for _ in range(shapes):
            times = sorted(draw.lognormvariate(0, 0.01) for _ in range(samples))
            rows.append(standing.log_score(1 / times[samples // 2], [times]))
        _, low, high = standing.mean_and_interval(rows)
        held += low <= 1 <= high
    assert 0.93 <= held / tries <= 0.985


def test_a_single_sample_gives_no_interval(entry, found) -> None:
    made, _, _ = found([entry(of_limit=0.5), entry("triton/softmax/auto", of_limit=0.6)])
    assert {(bar.low, bar.high) for bar in made.bars} == {(0.0, 0.0)}


def test_shown_at_first_is_all_where_there_is_no_auto(entry, write) -> None:
    names = ["torch/eager", "torch/naive"]
    entries = [entry(name.replace("/", "/softmax/")) for name in names]
    assert standing.first_shown_names(load([write(entries)]).groups[0].select("softmax")) == names


def test_the_baseline_stands_for_torch_s_auto_unless_it_takes_fewer(entry, write) -> None:
    ids = (EAGER, "torch/softmax/auto", "triton/softmax/auto")
    rows = [entry(id, shape) for id in ids for shape in ((8, 8), (8, 16))]
    assert standing.first_shown_names(load([write(rows)]).groups[0].select("softmax")) == ["torch/eager", "triton/auto"]
    selection = load([write(rows[1:])]).groups[0].select("softmax")
    assert standing.first_shown_names(selection) == ["torch/eager", "torch/auto", "triton/auto"]
