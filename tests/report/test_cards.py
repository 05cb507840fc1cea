"""Results of different cards never meet in one ratio; side by side stand their scores on the same problems."""

from pathlib import Path
from typing import Any

import pytest

from kernelzoo.cli.against import Old
from kernelzoo.measure import shards
from kernelzoo.report import cards, compare
from kernelzoo.report.data import document
from kernelzoo.report.history import history
from kernelzoo.report.reading import load

EAGER, FAST = "torch/softmax/eager", "triton/softmax/auto"
A, B = ({"index": index, "uuid": f"GPU-{letter}"} for index, letter in enumerate("ab"))


def test_within_a_report_another_card_stands_apart(entry, write) -> None:
    """As a run that was resumed on another card leaves it: of one problem some rows, of another all."""
    rows = [entry(EAGER, us=10.0, gpu=A), entry(FAST, us=5.0, gpu=B), entry("cupy/softmax/auto", us=4.0, gpu=A)]
    rows += [entry(id, us=3.0, gpu=B, shape=[2, 9]) for id in (EAGER, FAST)]
    found = document(load([write(rows)]))
    (here, apart) = found["groups"]
    assert apart["device"] == f"{here['device']}, GPU-b"
    told = {(row["id"], tuple(row["shape"])): row["ratio"] for row in here["rows"]}
    assert round(told.pop(("cupy/softmax/auto", (4096, 256))), 9) == 0.4 and set(told.values()) == {1.0}
    (row,) = apart["rows"]
    assert (row["id"], row["ratio"], row["gpu"]) == (FAST, None, "GPU-b")


def test_of_one_shape_two_operations_may_be_of_two_cards(entry, write) -> None:
    """As a sweep over several GPUs leaves them: of each operation all results are of one card."""
    rows = [
        entry(id.replace("softmax", op), us=5.0, gpu=card)
        for op, card in (("softmax", A), ("min", B))
        for id in (EAGER, FAST)
    ]
    (group,) = document(load([write(rows)]))["groups"]
    assert [row["ratio"] for row in group["rows"]] == [1.0] * 4


def test_two_runs_are_compared_on_one_card_alone(entry, write) -> None:
    def run(name: str, card: Any, us: float) -> Path:
        rows = [entry(FAST, us=us, gpu=card, data=[us + i / 1e4 for i in range(9)])]
        return write(rows, f"{name}.json", f"2026-01-0{name}T00:00:00")

    a, b, again, old = run("1", A, 5.0), run("2", B, 6.0), run("3", A, 7.0), run("4", None, 8.0)
    assert [[step.comparison.row.seconds for step in point.steps] for point in history([a, b, again], 0.05)] == [
        *([], [], [7e-6 + 4e-10])
    ]
    (change,) = compare.changes(load([b]), load([a]))
    assert change.comparisons == () and len(change.only_new) == len(change.only_old) == 1
    for new in (again, old):
        (change,) = compare.changes(load([new]), load([a]))
        assert len(change.comparisons) == 1


def test_a_result_is_not_held_against_another_card_s(entry, write) -> None:
    new = entry(FAST, us=5.0, gpu=B, cache="cold", flags=[], data=[5.0 + i / 1e4 for i in range(9)])
    info = new["extra_info"]
    told = {"problem": "p", **{name: info[name] for name in ("op", "shape", "dim", "dtype")}}
    for card, refused in ((A, True), (B, False), (None, False)):
        old = Old(write([entry(FAST, us=5.0, gpu=card, data=[5.0 + i / 1e4 for i in range(9)])]))
        (held,) = old.hold(told, [new], [], 0.05)
        assert ("measured on card GPU-a, this on GPU-b" in held.refusal) is refused and (held.ratio is None) is refused


def of_card(entry: Any, device: str, slower: float, shapes: Any, *ids: str, **more: Any) -> list[Any]:
    """With a limit of 2 µs on (125, 1000), of 3 µs on (125, 2000)."""
    return [entry(id, shape, slower * (1 + shape[1] / 1000), device=device, **more) for id in ids for shape in shapes]


def test_cards_stand_side_by_side_on_the_problems_that_all_measured(entry, write, made) -> None:
    short, long = (125, 1000), (125, 2000)
    rates = {"ceiling_gb_per_s": 1000.0, "floor_us": 1.0}
    a = of_card(entry, "Card <A>", 2.0, [short, long], EAGER, FAST, "cute/softmax/auto", **rates)
    b = of_card(entry, "Card B", 1.25, [short], EAGER, FAST, "cupy/softmax/auto", **rates)
    b += of_card(entry, "Card B", 4.0, [(125, 3000)], FAST, **rates | {"versions": {"driver": "600.1"}})
    b += of_card(entry, "Card B", 1.25, [short], "triton/min/auto", **rates)
    results = load([write(a, "a.json"), write(b, "b.json")])
    scores, facts = cards.tables(results).values()
    assert [[cell.text for cell in row] for row in scores.rows] == [
        ["torch/eager", "0.50", "0.80"],
        ["triton/auto", "0.50", "0.80"],
    ]
    assert [cell.text for cell in facts.rows[0]] == ["driver", "580.95", "580.95, 600.1"]
    text = cards.markdown(results)
    assert "| Card &lt;A&gt; | Card B |" in text and "softmax: problems that all cards measured (1), device" in text
    page = made(results)
    assert page.source.index('id="cards"') < page.source.index('id="explorer"')
    assert 'data-op="softmax"' in page.source and page.tables["Measured with, device clock, cold cache"][0][1:] == [
        *("Card <A>", "Card B")
    ]
    assert cards.markdown(load([write(a)])) == ""


def test_of_three_cards_a_line_needs_two_and_fewer_problems_are_told(entry, write) -> None:
    shapes = [(125, 1000), (125, 2000)]
    rates = {"ceiling_gb_per_s": 1000.0, "floor_us": 1.0}
    rows = [row for card in "ABC" for row in of_card(entry, card, 2.0, shapes, EAGER, **rates)]
    rows += of_card(entry, "A", 2.0, shapes, FAST, **rates) + of_card(entry, "C", 1.0, shapes[1:], FAST, **rates)
    (scores, _) = cards.tables(load([write(rows)])).values()
    assert [cell.text for cell in scores.rows[1]] == ["triton/auto (1 of 2)", "0.50", "-", "1.00"]


def test_merge_names_the_command_for_files_of_several_cards(entry, write) -> None:
    a, b = (write([entry(device=card)], f"{card}.json") for card in "AB")
    with pytest.raises(shards.ShardError, match=f"is no shard; .* kernelzoo report {a} {b} -o cards.html"):
        shards.merged([a, b])
    with pytest.raises(shards.ShardError, match=r"--shard K/N writes one$"):
        shards.merged([a])
