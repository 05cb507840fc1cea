"""Comparisons: what is paired, what is too little, and what two files have in common."""

import pytest

import kernelzoo
from kernelzoo.measure.statistics import Verdict
from kernelzoo.report import explorer, former_ids, load, looks, result_tables, score, sections, standing
from kernelzoo.report.compare import changes, compare_to_baseline
from kernelzoo.report.page_changes import differences

EAGER = [10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 22.0]
HALF = [sample / 2 for sample in EAGER]


def interval(entries, write):
    (comparison,) = compare_to_baseline(load([write(entries)]).groups[0].select("softmax")).values()
    return comparison


def test_rounds_of_one_race_are_paired_so_that_a_common_drift_cancels(entry, write) -> None:
    told = interval([entry(data=EAGER, race="a"), entry("triton/softmax/auto", data=HALF, race="a")], write)
    assert (told.interval.low, told.ratio, told.interval.high) == pytest.approx((0.5, 0.5, 0.5))
    assert told.verdict is Verdict.FASTER


@pytest.mark.parametrize(
    ("mine", "other"),
    [({}, {}), ({"race": "a"}, {"race": "b"}), ({"race": "a"}, {}), ({"race": "a"}, {"race": "a", "data": EAGER[:6]})],
)
def test_samples_of_no_common_race_are_not(entry, write, mine, other) -> None:
    eager = entry(us=16.0, **{"data": EAGER} | other)
    told = interval([eager, entry("triton/softmax/auto", us=8.0, data=HALF, **mine)], write)
    assert told.interval.low < 0.45 and told.interval.high > 0.55 and told.interval.low < told.ratio


def test_races_of_two_files_are_two_races(entry, write) -> None:
    paths = [
        write([entry(data=EAGER, race="a")], "one.json"),
        write([entry("triton/softmax/auto", data=HALF, race="a")], "two.json"),
    ]
    (told,) = compare_to_baseline(load(paths).groups[0].select("softmax")).values()
    assert told.interval.high > 0.55


@pytest.mark.parametrize("data", [None, EAGER[:5]])
def test_too_few_samples_give_the_ratio_of_the_medians_and_no_verdict(entry, write, data) -> None:
    told = interval([entry(data=EAGER), entry("triton/softmax/auto", us=4.0, data=data)], write)
    median = 4.0 if data is None else sorted(data)[2]
    assert told.ratio == pytest.approx(median / 16.0) and told.interval is None and told.verdict is None


@pytest.mark.parametrize("which", [0, 1])
def test_nothing_is_faster_where_either_was_disturbed(entry, write, which) -> None:
    rows = [entry(data=EAGER, race="a"), entry("triton/softmax/auto", data=HALF, race="a")]
    assert interval(rows, write).verdict is Verdict.FASTER
    rows[which]["extra_info"]["flags"] = ["disturbed"]
    told = interval(rows, write)
    assert told.verdict is Verdict.UNCLEAR and told.warning_marks == ["~"]


def test_changes_are_sorted_worst_first_and_name_what_only_one_has(entry, write) -> None:
    def made(name, *times):
        return load([write([entry(id, shape, us, data=[us] * 9) for id, shape, us in times], name)])

    triton, both = "triton/softmax/auto", "torch/softmax/eager"
    old = made("old.json", (both, (8, 8), 10.0), (both, (8, 16), 10.0), (triton, (8, 8), 5.0), (triton, (8, 32), 5.0))
    new = made("new.json", (both, (8, 8), 10.0), (both, (8, 16), 9.0), (triton, (8, 8), 8.0), (triton, (8, 64), 5.0))
    (change,) = changes(new, old)
    assert [(c.row.id, round(c.ratio, 3), c.verdict) for c in change.comparisons] == [
        (triton, 1.6, Verdict.SLOWER),
        (both, 1.0, Verdict.SAME),
        (both, 0.9, Verdict.FASTER),
    ]
    assert [row.problem.shape for row in change.only_new] == [(8, 64)]
    assert [row.problem.shape for row in change.only_old] == [(8, 32)]


@pytest.mark.parametrize("other", [{"device": "NVIDIA A100"}, {"clock": "wall"}, {"cache": "hot"}])
def test_another_device_clock_or_cache_is_never_compared(entry, write, other) -> None:
    assert changes(load([write([entry()], "new.json")]), load([write([entry(**other)], "old.json")])) == []


def test_every_ranking_of_the_disturbed_is_marked(entry, write, tmp_path) -> None:
    """In the terminal, report.md and the page: where a name, a ratio or a change stands, the mark does."""
    ids = ("torch/softmax/eager", "triton/softmax/auto", "triton/softmax/fused")
    rows = [
        entry(id, data=data, race="a", flags=["disturbed"]) for id, data in zip(ids, (EAGER, HALF, HALF), strict=True)
    ]
    results = load([write(rows)])
    (group,) = results.groups
    selection = group.select("softmax")
    for table in (score.score_table(group, "softmax"), score.variant_table(group, "softmax")):
        assert all(any("~" in cell.text for cell in line) for line in table.rows[:2])
    assert all("~" in line[-1].text for line in result_tables.summary_table(selection).rows)
    (subject,) = explorer.build_explorer_data(results, looks.marker_styles(group.rows))["groups"][0]["subjects"]
    told = [dict(zip(explorer.FIELDS, line, strict=True)) for line in zip(*subject["columns"], strict=True)]
    assert [row["marks"] for row in told] == ["~"] * 3
    assert [row["ratioText"] for row in told] == ["1.000", "0.50 ~", "0.50 ~"]
    (difference,) = differences(results, results)[1]
    assert all(line[0].text.endswith(" ~") for line in difference.all.rows)
    assert [
        bar.marks
        for bar in standing.rank_implementations(selection, standing.scores(selection), selection.problems).bars
    ] == ["1 ~"] * 3
    assert "~" in sections.terminal_text(results) and "disturbed by other work" in sections.report(results, "t", {})


def test_a_former_id_is_compared_with_the_form_that_does_its_work(entry, write) -> None:
    before = load([write([entry("gluon/softmax/multi_row_tile", us=20.0)])])
    after = load([write([entry("gluon/softmax/fused", us=10.0)])])
    (change,) = changes(after, before)
    assert [(c.row.id, c.ratio) for c in change.comparisons] == [("gluon/softmax/fused", 0.5)]


def test_former_ids_are_gone_and_their_successors_there() -> None:
    known = {i.id for i in kernelzoo.implementations()}
    for (language, op), forms in former_ids.FORMER.items():
        for old, new in forms.items():
            assert f"{language}/{op}/{old}" not in known and f"{language}/{op}/{new}" in known, (language, op, old)
