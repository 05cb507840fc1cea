"""Results of different cards never meet in one ratio; side by side stand their scores on the same problems."""

from pathlib import Path
from typing import Any

from kernelzoo.cli.against import OldResults
from kernelzoo.report import cards, compare
from kernelzoo.report.history import history
from kernelzoo.report.reading import load
from kernelzoo.report.rows import document

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
        old = OldResults(write([entry(FAST, us=5.0, gpu=card, data=[5.0 + i / 1e4 for i in range(9)])]))
        (held,) = old.compare(told, [new], [], 0.05)
        assert ("measured on card GPU-a, this on GPU-b" in held.refusal) is refused and (held.ratio is None) is refused


def test_cards_stand_side_by_side_on_the_problems_that_all_measured(entry, write, made) -> None:
    def of_card(device: str, share: float, sizes: Any, *ids: str, **more: Any) -> list[Any]:
        """With a limit of 2 µs on (125, 1000), of 3 µs on (125, 2000)."""
        more |= {"device": device, "ceiling_gb_per_s": 1000.0, "floor_us": 1.0}
        return [entry(id, (125, size), (1 + size / 1000) / share, **more) for id in ids for size in sizes]

    a = of_card("Card <A>", 0.5, [1000, 2000], EAGER, FAST, "cute/softmax/auto")
    b = of_card("Card B", 0.8, [1000, 2000], EAGER) + of_card("Card B", 0.8, [9000], FAST, versions={"driver": "600"})
    c = of_card("Card C", 1.0, [1000, 2000], EAGER) + of_card("Card C", 1.0, [2000], FAST, "triton/min/auto")
    results = load([write(rows, f"{place}.json") for place, rows in enumerate((a, b, c))])
    scores, facts = ([[cell.text for cell in row] for row in one.rows] for one in cards.compare_gpus(results).values())
    assert scores == [["torch/eager", "0.50", "0.80", "1.00"], ["triton/auto (1 of 2)", "0.50", "-", "1.00"]]
    assert facts[0] == ["driver", "580.95", "580.95, 600", "580.95"]
    assert "| Card &lt;A&gt; | Card B |" in cards.markdown(results) and cards.markdown(load([write(a)])) == ""
    page = made(results)
    assert (
        page.source.index('id="cards"') < page.source.index('id="explorer"') and "Measured with, device" in page.source
    )
    assert page.tables["softmax: problems that all cards measured (2), device clock, cold cache"][1] == scores[0]
