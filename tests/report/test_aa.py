"""The A/A experiment: from the script to the block of a document."""

import gzip
import json
import types
from pathlib import Path
from typing import Any

import pytest
import scripts

from kernelzoo.report.aa import NOTE, aa_block, load, main
from kernelzoo.report.results import ResultsError

SCRIPT = Path(__file__).parents[2] / "bench" / "aa.py"

SAME, FASTER, SLOWER, UNCLEAR = [0.995, 1.0, 1.004], [0.9, 0.95, 0.98], [1.02, 1.05, 1.1], [0.98, 1.0, 1.02]


def entry(id: str, ratios: list[list[float]], medians: list[float] | None = None, **other: str) -> dict[str, Any]:
    medians = [20e-6] * len(ratios) if medians is None else medians
    return {"id": id, "refused": "", "failed": "", "medians": medians, "ratios": ratios} | other


def document(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": "Some <GPU>",
        "clock": "device",
        "versions": {"torch": "2.11.0", "triton": "3.6.0"},
        "datetime": "2026-01-02T03:04:05+00:00",
        "problem": {"op": "softmax", "shape": [4096, 781], "dtype": "float32"},
        "rounds": 15,
        "implementations": list(entries),
    }


def write(path: Path, content: object) -> Path:
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["aa.json", "aa.json.gz"])
def test_the_block_counts_the_verdicts_and_says_how_far_the_medians_spread(tmp_path: Path, name: str) -> None:
    medians = [20e-6] * 98 + [19.9e-6, 20.1e-6]
    made = document(
        entry("torch/softmax/eager", [SAME] * 96 + [FASTER, SLOWER, SLOWER, UNCLEAR], medians),
        entry("cupy/softmax/auto", [], refused="no <GPU>"),
    )
    assert aa_block(write(tmp_path / name, made)).split("\n\n") == [
        "**Some &lt;GPU&gt;, device clock: softmax of (4096, 781) float32, 15 rounds in a race; torch 2.11.0, "
        "triton 3.6.0; measured 2026-01-02T03:04:05+00:00**",
        "| implementation | races | same | faster or slower | unclear | median, µs | spread | sd |\n"
        "| :-- | --: | --: | --: | --: | --: | --: | --: |\n"
        "| torch/softmax/eager | 100 | 96 | 3 | 1 | 20.0 | 1.00% | 0.07% |",
        "Not raced: cupy/softmax/auto: no &lt;GPU&gt;",
        NOTE,
    ]


def test_the_block_is_printed_or_goes_between_the_markers_of_a_document(tmp_path, capsys) -> None:
    path = write(tmp_path / "aa.json", document(entry("torch/softmax/eager", [SAME])))
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == aa_block(path) + "\n"
    page = tmp_path / "measuring.md"
    page.write_bytes("é\r\n<!-- results:aa -->\r\nold\r\n<!-- /results -->\r\n".encode())
    for _ in range(2):
        assert main([str(path), "--insert", str(page)]) == 0
        block = aa_block(path).replace("\n", "\r\n")
        assert page.read_bytes().decode() == f"é\r\n<!-- results:aa -->\r\n{block}\r\n<!-- /results -->\r\n"


def test_what_cannot_be_reported_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "aa.json", document(entry("torch/softmax/eager", [SAME])))
    (tmp_path / "page.md").write_text("no markers")
    for arguments in (["nowhere.json"], [str(path), "--insert", "nowhere.md"], [str(path), "--insert", "page.md"]):
        arguments[-1] = str(tmp_path / arguments[-1])
        assert main(arguments) == 2
        assert capsys.readouterr().err.startswith("error: ")
    assert (tmp_path / "page.md").read_text() == "no markers"


def test_95_in_100_must_say_same(tmp_path: Path) -> None:
    made = document(
        entry("a/softmax/b", [SAME] * 95 + [UNCLEAR] * 5),
        entry("a/softmax/c", [SAME] * 94 + [UNCLEAR] * 6),
        entry("a/softmax/d", [], refused="not here"),
        entry("a/softmax/e", [], failed="it is wrong"),
    )
    assert [twin.passed for twin in load(write(tmp_path / "aa.json", made)).twins] == [True, False, True, False]


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {**document(), "problem": None},
        {**document(), "versions": []},
        document({"id": "torch/softmax/eager"}),
        document(entry("torch/softmax/eager", [])),
        document(entry("torch/softmax/eager", [SAME], refused="and yet raced")),
        document(entry("torch/softmax/eager", [SAME, SAME], [20e-6])),
        document(entry("torch/softmax/eager", [[1.0, 1.0]])),
    ],
)
def test_what_is_no_experiment_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(ResultsError, match=r"aa\.json is no A/A experiment .* python bench/aa\.py -o"):
        aa_block(write(tmp_path / "aa.json", content))


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="can't read"):
        aa_block(tmp_path / "nowhere.json")
    (tmp_path / "aa.json.gz").write_text("{}")
    with pytest.raises(ResultsError, match=r"is named \.gz and is not"):
        aa_block(tmp_path / "aa.json.gz")
    (tmp_path / "aa.json").write_text("not JSON")
    with pytest.raises(ResultsError, match=r"is not JSON.*python bench/aa\.py -o"):
        aa_block(tmp_path / "aa.json")


@pytest.fixture(scope="module")
def script() -> types.ModuleType:
    return scripts.loaded(SCRIPT)


TINY = ("--shape", "64x33", "--rounds", "6", "--pairs", "2", "--device", "cpu")

ENTRANTS = """
import kernelzoo
from kernelzoo import UnsupportedProblemError


@kernelzoo.register("nowhere", "softmax", "auto")
def nowhere(x, out):
    raise UnsupportedProblemError("nowhere/softmax/auto", "it never can")


@kernelzoo.register("zeros", "softmax", "auto")
def zeros(x, out):
    def launch():
        out.zero_()

    return launch
"""


@pytest.mark.slow
def test_the_script_races_implementations_with_themselves(script, tmp_path, capsys) -> None:
    """Whatever the verdicts on this machine, they are counted; what can't run, or is wrong, says why."""
    (tmp_path / "entrants.py").write_text(ENTRANTS)
    path, ids = tmp_path / "aa.json", ["torch/softmax/eager", "nowhere/softmax/auto", "zeros/softmax/auto"]
    status = script.main([*TINY, "-o", str(path), "--module", str(tmp_path / "entrants.py"), "--ids", *ids])
    raced, refused, wrong = load(path).twins
    assert status == 1
    assert (raced.id, len(raced.ratios), raced.refused) == ("torch/softmax/eager", 2, "")
    assert all(ratio.low <= ratio.mid <= ratio.high and 1 / 50 < ratio.mid < 50 for ratio in raced.ratios)
    assert "it never can" in refused.refused
    assert wrong.failed and not wrong.ratios
    printed = capsys.readouterr().out
    assert "softmax of (64, 33) float32, 6 rounds in a race" in printed and "torch/softmax/eager" in printed
    assert "| torch/softmax/eager | 2 |" in aa_block(path)


def test_the_script_takes_torch_eager_and_the_choosers_of_others(script) -> None:
    ids = [
        "torch/softmax/auto",
        "torch/softmax/eager",
        "triton/softmax/auto",
        "triton/softmax/fused",
        "triton/min/auto",
    ]
    assert script.entrants("softmax", ids) == ["torch/softmax/eager", "triton/softmax/auto"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rounds", "5"), "a verdict needs 6 at least"),
        (("--pairs", "0"), "race at least once"),
        (("--dtype", "int8"), "softmax has no dtype 'int8'; known: "),
        (("--shape", "4096*2"), "write 4096x4096"),
        (("--shape", "0x2"), "write 4096x4096"),
        (("--op", "max"), "invalid choice: 'max'"),
    ],
)
def test_options_that_make_no_sense_are_errors(script, options, words, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        script.main([*options, "-o", "aa.json"])
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err
