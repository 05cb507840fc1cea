"""That run.py catches what it claims to, on implementations that are wrong in one way each; and what it writes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import run
import sections
import warm
from registered import forget

from kernelzoo import registry

_known = set(registry._registered)
import breaking  # noqa: E402  # which registers what is wrong, and other tests list what is registered

pytestmark = pytest.mark.slow

WRONG = {key: registry._registered.pop(key) for key in set(registry._registered) - _known}

HERE = Path(__file__).parent
HOST = sections.Where("cpu", 2**18, 8_000)
FEW_SIZES = ("one row", "rows of 65", "axis 0, wide", "middle axis")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """What is wrong is registered while a test of this file runs."""
    registry._registered.update(WRONG)
    yield
    forget(*{backend for backend, _, _ in WRONG})


@pytest.fixture
def warm_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections' processes begin as forks of one that has imported torch."""
    monkeypatch.setattr(run, "subprocess", warm.forking())


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections as they are, with less to do."""
    kept = [size for size in sections.sizes_of(2**18) if size.name in FEW_SIZES]
    monkeypatch.setattr(sections, "sizes_of", lambda far: kept)
    monkeypatch.setattr(sections, "SHAPES", sections.SHAPES[:3])
    monkeypatch.setattr(sections, "PATIENCE", 1.0)


def outcomes(section: str, backend: str, *wanted: str) -> dict[str, str]:
    """Of each case of a section, or of those whose names begin so."""
    cases = sections.SECTIONS[section].cases(backend, HOST)
    return {case[1]: sections.tried(section, *case)["outcome"] for case in cases if case[1].startswith(wanted or "")}


@pytest.mark.usefixtures("brief")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("backend", "section", "case"),
    [
        ("narrow", "sizes", "int8 one row 1x266243"),
        ("narrow", "sizes", "uint8 rows of 65 8070x65"),
        ("narrow", "sizes", "int8 axis 0, wide 3x266243"),
        ("narrow", "sizes", "int8 middle axis 3x103x1699"),
        ("racy", "threads", "later calls, in any order"),
        ("lazy", "threads", "first calls, all at once"),
        ("frozen", "graphs", "a bound launch on other data"),
        ("ambient", "modes", "default dtype float64"),
        ("ambient", "modes", "default device meta"),
        ("leaky", "memory", "8000 calls of one layout"),
        ("greedy", "memory", "no memory for it"),
        ("unforkable", "processes", "called in a child by fork"),
    ],
)
def test_catches(backend: str, section: str, case: str) -> None:
    breaking._table.clear()
    assert section == breaking.CAUGHT_BY[backend]
    assert outcomes(section, backend, case, "first calls")[case] == "failed"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("section", ["sizes", "threads", "graphs"])
def test_passes_what_is_right(section: str) -> None:
    found = outcomes(section, "torch")
    assert set(found.values()) <= {"passed", "refused"} and "passed" in found.values()


@pytest.mark.usefixtures("warm_children")
def test_a_process_that_dies_costs_its_row_alone(tmp_path: Path) -> None:
    module, result = HERE / "breaking.py", tmp_path / "load.json"
    options = ["--device", "cpu", "--section", "graphs", "--backend", "deadly,frozen", "--module", str(module)]
    assert run.main([*options, "-o", str(result)]) == 1
    written = json.loads(result.read_text(encoding="utf-8"))
    assert written["format"] == run.FORMAT
    assert set(written) == {"format", "command", "environment", "started", "seconds", "rows"}
    rows = {row["implementation"]: row for row in written["rows"]}
    assert "status -6" in rows["deadly"]["detail"] and "deadly/min/auto" in rows["deadly"]["case"]
    assert rows["frozen/softmax/auto"]["outcome"] == "failed"
    assert list(tmp_path.iterdir()) == [result]


@pytest.mark.usefixtures("warm_children")
@pytest.mark.parametrize(
    ("limits", "outcome", "words"),
    [
        (["--patience", "4"], "failed", "hung: not a word for 4 s"),
        (["--timeout", "1"], "unfinished", "no end of the section within 1 s"),
    ],
)
def test_what_hangs_is_told_from_what_is_slow(limits: list[str], outcome: str, words: str, tmp_path: Path) -> None:
    result = tmp_path / "load.json"
    options = ["--device", "cpu", "--section", "graphs", "--backend", "endless", "--module", str(HERE / "breaking.py")]
    assert run.main([*options, *limits, "-o", str(result)]) == 1
    (row,) = json.loads(result.read_text(encoding="utf-8"))["rows"]
    assert row["outcome"] == outcome and row["detail"].startswith(words)


def test_an_operation_can_be_left_out() -> None:
    def tried(op: str) -> set[str]:
        return {i.op for i in sections.implementations("torch", sections.Where("cpu", 2**18, 1, op))}

    assert tried("min") == {"min"} and tried("") > {"min", "softmax"}


def test_a_section_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--section", "size"])
    assert "no section size; known: sizes" in capsys.readouterr().err


def test_every_section_has_something_to_catch() -> None:
    """But the one that asks the device alone, and is told what memory is."""
    assert {*breaking.CAUGHT_BY.values()} == set(sections.SECTIONS) - {"full"}
