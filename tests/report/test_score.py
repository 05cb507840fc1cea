"""Scores: the share of the limit over a map, the problems that fall short, and those that another project wins."""

import pytest

from kernelzoo.report import load, score, sections

ONES = ("triton/softmax/auto", "cupy/softmax/auto")


@pytest.fixture
def group(entry, write):
    """Three problems with limits of 2 us, nearly all of it the smallest launch; a peer beats the zoo on one of them."""

    def line(id: str, shape: tuple[int, int], us: float, **extra: object):
        data = [us * (1 + i / 1000) for i in range(-5, 6)]
        return entry(id, shape, us, data, floor_us=2.0, race=str(shape), **extra)

    # (3, 5) is odd; on (8, 8) the zoo falls short and a peer is faster.
    entries = [
        *(line("torch/softmax/eager", shape, 8.0) for shape in ((4, 4), (8, 8), (3, 5))),
        *(line("triton/softmax/auto", shape, us) for shape, us in (((4, 4), 2.0), ((8, 8), 8.0), ((3, 5), 2.0))),
        *(line("cupy/softmax/auto", shape, us) for shape, us in (((4, 4), 4.0), ((8, 8), 4.0))),
        line("cupy/softmax/split", (8, 8), 4.2),
        line("rival/softmax/auto", (8, 8), 2.5),
    ]
    return load([write(entries)]).groups[0]


def texts(table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_score_is_the_mean_share_with_the_worst_named(group) -> None:
    lines = {row[0]: row[1:] for row in texts(score.score_table(group, "softmax"))}
    # triton: 1, 1/4, 1, so the cube root of 1/4; even lengths 1 and 1/4; the odd one 1.
    assert lines["triton/auto"] == ["0.63", "0.50", "1.00", "0.25", "float32 (8, 8)", "3 of 3"]
    assert lines["cupy/auto"] == ["0.50", "0.50", "-", "0.50", "float32 (4, 4)", "2 of 3; best ranked 0.50"]
    assert lines["best kernelzoo variant"] == ["0.79", "0.71", "1.00", "0.50", "float32 (8, 8)", "3 of 3"]
    assert lines["best peer"] == ["0.37", "0.45", "0.25", "0.25", "float32 (3, 5)", "3 of 3"]
    assert list(lines)[-2:] == ["best kernelzoo variant", "best peer"]


def test_what_took_fewer_problems_is_never_ranked(group) -> None:
    """The rival's 0.80 is of one problem: it stands below, after those that took more, then by name."""
    assert [(row[0], row[1], row[-1]) for row in texts(score.score_table(group, "softmax"))][:5] == [
        ("triton/auto", "0.63", "3 of 3"),
        ("torch/eager", "0.25", "3 of 3"),
        ("cupy/auto", "0.50", "2 of 3; best ranked 0.50"),
        ("cupy/split", "0.48", "1 of 3; best ranked 0.25"),
        ("rival/auto", "0.80", "1 of 3; best ranked 0.25"),
    ]


def test_what_breaks_the_contract_is_not_the_best_ranked(entry, write) -> None:
    rows = [entry("triton/softmax/auto", shape, of_limit=0.5) for shape in ((4, 4), (8, 8))]
    rows += [entry("odd/softmax/auto", shape, of_limit=0.9, breaks="NaN is dropped") for shape in ((4, 4), (8, 8))]
    rows.append(entry("cupy/softmax/auto", (4, 4), of_limit=0.7))
    lines = texts(score.score_table(load([write(rows)]).groups[0], "softmax"))
    assert lines[2][0] == "cupy/auto" and lines[2][-1] == "1 of 2; best ranked 0.50"


def test_shortfall_lists_what_no_backend_reaches(group) -> None:
    table = score.limit_shortfall_table(group, "softmax")
    assert table.headers == ["problem", "best", "limit / time", "cupy/auto", "triton/auto"]
    assert texts(table) == [["float32 (8, 8)", "cupy/auto", "0.50", "0.50", "0.25"]]


def test_shortfall_names_the_form_that_was_chosen(entry, write) -> None:
    row = entry("triton/softmax/auto", us=8.0, of_limit=0.25, form="triton/softmax/split_ring")
    table = score.limit_shortfall_table(load([write([row])]).groups[0], "softmax")
    assert texts(table)[0][1] == "triton/auto (split_ring)"


def test_shortfall_shows_what_a_plain_copy_reaches(entry, write) -> None:
    row = entry("triton/softmax/auto", us=8.0, of_limit=0.25, copy_us=4.0)
    table = score.limit_shortfall_table(load([write([row])]).groups[0], "softmax")
    assert table.headers[-1] == "a plain copy" and texts(table)[0][-1] == "0.50"


def test_a_plain_copy_stands_last_in_the_scores(entry, write) -> None:
    """Each problem counts once, whoever raced on it."""
    shapes = {(4, 4): 4.0, (3, 5): 2.0}
    rows = [entry(id, shape, us=8.0, of_limit=0.25, copy_us=copy) for shape, copy in shapes.items() for id in ONES]
    lines = texts(score.score_table(load([write(rows)]).groups[0], "softmax"))
    assert lines[-1] == ["a plain copy", "0.71", "0.50", "1.00", "0.50", "float32 (4, 4)", "2 of 2"]


def test_behind_lists_what_another_project_wins(group) -> None:
    assert texts(score.slower_than_peer_table(group, "softmax")) == [
        ["float32 (8, 8)", "cupy/auto", "4.00", "rival/auto", "2.50", "1.60", "slower"]
    ]


def test_what_breaks_the_contract_is_marked_and_no_best(entry, write) -> None:
    """It counts against the zoo all the same: only its own side has two bests."""

    def line(id: str, us: float, **extra: object):
        return entry(id, (8, 8), us, [us] * 9, floor_us=2.0, race="one", **extra)

    rows = [line("triton/softmax/auto", 4.0), line("torch/softmax/eager", 8.0)]
    rows.append(line("rival/softmax/auto", 2.5, breaks="wrong in rows of nan", flags=["breaks the contract"]))
    results = load([write(rows)])
    lines = {row[0]: row[1] for row in texts(score.score_table(results.groups[0], "softmax"))}
    assert lines["rival/auto †"] == "0.80"
    assert lines["best peer"] == "0.25" and lines["best peer, with †"] == "0.80"
    assert "best kernelzoo variant" not in str(
        score.score_table(load([write([line("triton/softmax/auto", 4.0, breaks="NaN")])]).groups[0], "softmax")
    )
    assert texts(score.slower_than_peer_table(results.groups[0], "softmax"))[0][3:6] == ["rival/auto †", "2.50", "1.60"]
    report = sections.report(results, "R", {})
    assert "**4.00 (" in report and "2.50 (0.20) †" in report and "## Timed although it breaks the contract" in report
    assert "| rival/softmax/auto | 1 | wrong in rows of nan |" in report
    assert (
        report.count(" breaks the contract on special values; it was timed on request") == 4
    )  # below each table with it
    assert "†" not in sections.report(load([write(rows[:2])]), "R", {})


def test_variants_stand_beside_the_fastest_of_their_backend(group) -> None:
    assert texts(score.variant_table(group, "softmax")) == [
        ["cupy/softmax/auto", "1.00", "1.00", "2 of 2"],
        ["cupy/softmax/split", "1.05", "1.05", "1 of 1"],
        ["triton/softmax/auto", "1.00", "1.00", "3 of 3"],
    ]


def test_blocks_and_report_hold_them(group, entry, write) -> None:
    results = load([write([entry("triton/softmax/auto", of_limit=0.9), entry("torch/softmax/eager", of_limit=0.5)])])
    blocks = sections.document_blocks(results)
    assert blocks["score"].startswith("**NVIDIA H200, device clock**\n\nsoftmax:\n\n| implementation | score |")
    for block in ("shortfall", "behind", "variants"):  # nothing falls short, and auto alone was timed
        assert blocks[block].startswith("**NVIDIA H200, device clock**\n\nsoftmax: none\n\n")
    assert "| best kernelzoo variant | 0.90 |" in sections.report(results, "t", {})


def test_an_implementation_without_limits_beside_others_has_no_score(entry, write) -> None:
    results = load([write([entry("triton/softmax/auto", of_limit=0.9), entry("torch/softmax/eager", of_limit=None)])])
    lines = {line[0]: line[1:] for line in texts(score.score_table(results.groups[0], "softmax"))}
    assert lines["triton/auto"][0] == "0.90" and lines["torch/eager"] == [*"-----", "0 of 1"]


def test_nothing_is_scored_without_limits(host, write) -> None:
    results = load([write(host)])
    assert all(score.score_table(group, "softmax") is None for group in results.groups)
    assert "score" not in sections.document_blocks(results)


def test_spread_is_a_distribution_of_speeds_and_worst_its_end(entry, write) -> None:
    """On twelve problems the zoo takes 1, 2, ... 12 fortieths of a copy's time, and four times that of a peer."""
    shapes = [(4, 8 * n) for n in range(1, 13)]
    facts = {"floor_us": 1.0, "shape_set": "random:12, seed 3"}
    entries = [entry("triton/softmax/auto", shape, 1.0 * n, copy_us=40.0, **facts) for n, shape in enumerate(shapes, 1)]
    entries += [entry("rival/softmax/auto", shape, 0.25, copy_us=40.0, **facts) for shape in shapes]
    entries += [entry("odd/softmax/auto", shape, 0.1, breaks="NaN is dropped", **facts) for shape in shapes]
    entries.append(entry("cupy/softmax/auto", shapes[0], 0.5, copy_us=40.0, **facts))
    results = load([write(entries)])
    group = results.groups[0]
    lines = {tuple(line[:2]): line[2:] for line in texts(score.relative_speed_table(group, "softmax"))}
    copied = lines["best kernelzoo variant", "a plain copy"]
    # 80, 20, ... 40/11, 40/12: the tenth percentile is the second from below, and a tenth of the way to the third.
    assert copied == ["8.01", "3.67", "3.33", "float32 (4, 96)", "12 of 12"]
    assert lines["triton/auto", "a plain copy"][0] == "7.56"
    assert lines["cupy/auto", "best peer"] == [*["0.50"] * 3, "float32 (4, 8)", "1 of 12"]
    worst = texts(score.worst_table(group, "softmax"))
    assert len(worst) == 20 and worst[0] == ["float32 (4, 96)", "triton/auto", "12.0", "best peer", "0.25", "0.02"]
    assert [line[0] for line in worst[10:]] == [f"float32 (4, {8 * n})" for n in range(12, 2, -1)]
    terminal = sections.terminal_text(results)
    assert "tenth percentile" in terminal and "its time / kernelzoo's" in terminal
    plain = load([write([entry() | {"shape_set": "map"}, *(e for e in [entry("triton/softmax/auto", copy_us=1.0)])])])
    assert "tenth percentile" not in sections.terminal_text(plain)  # a map is summed up by its scores
    assert sections.document_blocks(results)["spread"].count("| best kernelzoo variant |") == 2
