"""Numbers and tables as people read them, and JSON as machines do."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from kernelzoo.cli import output, rows
from kernelzoo.cli.progress import Bar
from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError

RESULTS = Path(__file__).parents[2] / "bench" / "results" / "h200-dtypes.json.gz"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0.0123456, "0.0123"), (1.0, "1.00"), (9.999, "10.00"), (123.4, "123"), (98765.4, "98765"),
        (0.0, "0"), (1e-25, "1e-25"), (5.43e-6, "5.43e-06"), (0.000123, "0.000123"),
    ],
)  # fmt: skip
def test_numbers(value, text) -> None:
    assert output.number(value) == text


def test_intervals_that_have_no_end_are_left_out() -> None:
    assert output.format_interval(1.0, 2.0) == " [1.00, 2.00]"
    assert output.format_interval(-math.inf, math.inf) == ""
    assert output.format_interval(None, None) == output.format_interval(1e-10, 1e20) == ""


def test_json_has_no_infinity(capsys) -> None:
    output.print_json({"a": [1.5, math.inf, (math.nan, {"b": -math.inf})], "c": True})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None, [None, {"b": None}]], "c": True}


def test_brackets_are_printed_as_they_are(capsys) -> None:
    table = output.make_table("a", ">b")
    table.add_row("[bold]x[/]", "[1, 2]")
    output.show(output.console(), table)
    assert "[bold]x[/]" in (out := capsys.readouterr().out) and "[1, 2]" in out


def test_nothing_commands_the_terminal(capsys) -> None:
    evil = "\x1b[31m\x1b]0;title\x07\x9b1m\u202e\r\x00"
    table = output.make_table(f"a{evil}")
    table.add_row(f"b{evil}")
    output.show(output.console(), table)
    output.console().print(f"c{evil}")
    out = capsys.readouterr().out
    assert not set(evil) - set("[]31m0;title") & set(out)
    assert all(letter in out for letter in "abc") and out.count("[31m") == 3


def test_a_reason_is_cut_in_its_middle() -> None:
    assert output.shorten_reason("a\nb") == "a b"
    told = output.shorten_reason("start " + "x" * 5000 + " end")
    assert told.startswith("start x") and told.endswith("x end") and " ... " in told and len(told) < 420


def test_a_long_line_is_not_broken(capsys) -> None:
    line = "kernelzoo bench " + "--module a/file.py " * 20
    output.console().print(line)
    assert capsys.readouterr().out == f"{line}\n"


def test_rows_are_ordered_and_paired(raced) -> None:
    base = [float(i) for i in range(10, 22)]
    half = [time / 2 for time in base]
    entries = [raced("torch/min/eager", base), raced("cpu/min/auto", half), raced("x/y/z", base, race="s")]
    failed = [{"id": "bad/min/a", "outcome": "wrong", "reason": "why"}]
    found = rows.rows(entries, failed, "torch/min/eager")
    assert [row["id"] for row in found] == ["cpu/min/auto", "torch/min/eager", "x/y/z", "bad/min/a"]
    fast, itself, other, wrong = found
    assert (fast["ratio"], fast["verdict"]) == (pytest.approx(0.5), "FASTER")
    assert fast["ratio_interval"] == pytest.approx([0.5, 0.5])  # the drift of the rounds cancels, as they are paired
    assert (itself["ratio"], itself["verdict"]) == (1.0, None)
    assert (other["ratio"], other["verdict"]) == (None, None)  # of another race
    assert wrong["outcome"] == "wrong"


def test_what_has_no_result_is_told_by_reason() -> None:
    refused = [{"id": f"a/min/{i}", "outcome": "refused", "reason": "no GPU"} for i in range(5)]
    failed = [{"id": "b/min/c", "outcome": "failed", "reason": "crashed"}]
    lines = rows.without_result_lines([{"problem": "p", "rows": refused + failed}, {"problem": "q", "rows": refused}])
    assert lines == ["FAILED b/min/c on p: crashed", "refused by 5 implementations, 10 times: no GPU"]


def test_forms_that_do_not_take_a_problem_are_one_line_by_reason(monkeypatch, capsys) -> None:
    def problem(columns: int) -> rows.Row:
        why = [UnsupportedProblemError(f"a/softmax/{form}", f"no row of {columns}") for form in ("fused", "one", "two")]
        why.append(UnsupportedProblemError("a/softmax/columns", "it takes columns"))
        return {"problem": "p", "rows": [{"id": e.implementation, "outcome": "refused", "reason": str(e)} for e in why]}

    shown = "a/softmax/fused, a/softmax/one, a/softmax/two"
    assert rows.describe_refusals([problem(7)]) == [
        f"not taken by {shown}: no row of 7",
        "not taken by a/softmax/columns: it takes columns",
    ]
    assert rows.describe_refusals([problem(7), problem(8)])[0] == f"not taken by {shown}, 6 times: for one, no row of 7"
    assert rows.without_result_lines([problem(7)]) == []
    monkeypatch.setenv("COLUMNS", "60")
    rows.print_without_result([problem(7)])
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 60 and {"a/softmax/fused,", "a/softmax/two:"} <= {*said.split()}


def test_backends_that_are_not_here_are_named_in_one_line() -> None:
    errors = [BackendUnavailableError(name, "it is not installed", "install it") for name in ("d", "b", "c", "a")]
    refused = [{"id": f"{e.backend}/min/auto", "outcome": "refused", "reason": str(e)} for e in errors]
    few = rows.without_result_lines([{"problem": "p", "rows": refused[:3]}])
    assert few[0] == "refused by d/min/auto: backend 'd' can't run here: it is not installed; install it"
    assert len(few) == 3
    many = rows.without_result_lines([{"problem": problem, "rows": refused} for problem in ("p", "q")])
    assert many == ["4 backends can't run here: a, b, c, d; kernelzoo doctor says what they need"]


def test_the_bar_is_there_before_anyone_knows_how_much_there_is_to_do(monkeypatch) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=100)
    monkeypatch.setattr(output, "console", lambda errors=False: terminal)
    with Bar() as bar:
        bar._bar.refresh()
        assert "starting the measuring process" in shown.getvalue()
        bar.set_total(10, 2)
        for name in ("first", "second"):
            bar.begin_item(5)
            bar.show_step(name)
        bar._bar.refresh()
        assert "2/2 second" in shown.getvalue() and "60%" in shown.getvalue()


@pytest.mark.parametrize(
    "command",
    [
        "compare torch/min/eager", "bench --op min", "bench --op min --first-call", "fuzz torch/min/eager",
        "accuracy torch/min/eager", "tune", "merge {folder}/a.json", "report {results}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["r.json", "r.html"])
def test_no_command_makes_the_folder_of_its_output(command, name, answer, tmp_path) -> None:
    given = command.format(folder=tmp_path, results=RESULTS).split()
    status, told = answer(*given, "-o", Path("missing", name))
    assert status == 2 and told["error"] == (
        f"no folder {str(tmp_path / 'missing')!r} for {name!r}; make it, or name another one with -o"
    )
    assert list(tmp_path.iterdir()) == []
