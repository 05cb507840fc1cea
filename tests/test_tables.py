"""Launch tables: what is declared, which one is in force, and what becomes of stored ones that are no good."""

import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelzoo import tables
from kernelzoo.errors import UnknownNameError
from kernelzoo.tables import Gpu, TableError, TableWarning, knob, launch_table

CARD = Gpu("NVIDIA Toy 1", "9.9", 7)
ABOUT = {"versions": {"torch": "1"}}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Any]]:
    """A table of its own, on a card of its own, in a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(tables.ENVIRONMENT, raising=False)
    monkeypatch.setattr(tables, "card", lambda index: CARD if index == 0 else None)
    monkeypatch.setattr(tables, "_declared", {})
    tables.forget_loaded()

    @launch_table("toy", "softmax")
    class Knobs:
        tile: int = knob(4, among=(2, 4, 8), unit="rows", why="of a tile")
        fill: int = knob(50, among=(25, 50), unit="%", why="of the SMs")

    yield Knobs
    tables.forget_loaded()


def store(table: type[Any], values: dict[str, int], op: str = "softmax") -> Path:
    file = tables.store(CARD, "toy", op, tables.digest(table), values, ABOUT, [{"knob": "tile"}])
    tables.forget_loaded()
    return file


def in_force(table: type[Any], device: int = 0) -> dict[str, int]:
    return tables.changed_knobs(tables.of(table, device))


def test_what_is_declared(table: type[Any]) -> None:
    first, second = tables.knobs(table)
    assert (first.name, first.shipped, first.among, second.name) == ("tile", 4, (2, 4, 8), "fill")
    assert (first.unit, first.why) == ("rows", "of a tile")
    assert tables.table_with_values(table, {"tile": 8}) is tables.table_with_values(table, {"tile": 8, "fill": 50})
    assert tables.table_with_values(table, {"tile": 8}) is not tables.table_with_values(table, {})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tiles": 4}, "no knob 'tiles' in toy/softmax; it has tile, fill"),
        ({"tile": 3}, "toy/softmax.tile may be 2, 4, 8; got 3"),
        ({"tile": True}, "got True"),
        ({"tile": "8"}, "got '8'"),
        ({"tile": 8.0}, "got 8.0"),
    ],
)
def test_a_table_is_made_of_allowed_values_alone(table: type[Any], values: dict[str, Any], words: str) -> None:
    with pytest.raises(TableError, match=words):
        tables.table_with_values(table, values)


@pytest.mark.parametrize("among", [(2, 8), (8, 4, 2), (4, 4)])
def test_a_knob_allows_what_is_shipped(among: tuple[int, ...]) -> None:
    with pytest.raises(TableError, match="ascend and hold the shipped one"):
        knob(4, among=among, unit="rows", why="of a tile")


def test_stored_tables_are_in_force_on_their_card_alone(table: type[Any]) -> None:
    assert in_force(table) == {} and tables.table_label("toy", "softmax", 0) == "shipped"
    tables.forget_loaded()
    file = store(table, {"tile": 8})
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    assert in_force(table) == {"tile": 8}
    assert str(tables.table_label("toy", "softmax", 0)).startswith("tuned ")
    assert in_force(table, 1) == in_force(table, -1) == {}
    assert tables.table_label("toy", "min", 0) is None


def test_shipped_tables_can_be_asked_for(table: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    store(table, {"tile": 8})
    monkeypatch.setenv(tables.ENVIRONMENT, "shipped")
    assert in_force(table) == {}
    tables.forget_loaded()
    monkeypatch.setenv(tables.ENVIRONMENT, "shiped")
    with pytest.raises(UnknownNameError, match="KERNELZOO_TABLES 'shiped'; did you mean 'shipped'"):
        in_force(table)


def test_using_a_table_ends_with_its_context_and_stays_in_its_thread(table: type[Any]) -> None:
    other = []
    with tables.using(tables.table_with_values(table, {"tile": 2})):
        assert in_force(table) == in_force(table, -1) == {"tile": 2}
        thread = threading.Thread(target=lambda: other.append(in_force(table)))
        thread.start()
        thread.join()
    assert other == [{}] and in_force(table) == {}


def damaged(file: Path, document: dict[str, Any]) -> dict[str, tuple[bytes, str]]:
    """What a file may hold instead, and the words of the warning about it."""
    section = document["tables"]["softmax"]

    def changed(**changes: Any) -> bytes:
        return json.dumps({**document, **changes}).encode()

    def of_section(**changes: Any) -> bytes:
        return changed(tables={"softmax": {**section, **changes}})

    whole = file.read_bytes()
    return {
        "empty": (b"", "damaged"),
        "cut": (whole[: len(whole) // 2], "damaged"),
        "binary": (b"\xff\x00" * 50, "damaged"),
        "a list": (b"[1]", "damaged"),
        "nothing": (b"{}", "damaged"),
        "deep": (b"[" * 100000, "damaged"),
        "format": (changed(format="kernelzoo-table/9"), "its format is 'kernelzoo-table/9'"),
        "card": (changed(card={**document["card"], "multiprocessors": 8}), "it is for toy on"),
        "backend": (changed(backend="other"), "it is for other on"),
        "no tables": (changed(tables=3), "damaged"),
        "no section": (changed(tables={"softmax": None}), "damaged"),
        "declared": (of_section(declared="000000000000"), "another version of kernelzoo"),
        "value": (of_section(values={"tile": 5}), "may be 2, 4, 8; got 5"),
        "kind": (of_section(values={"tile": True}), "got True"),
        "knob": (of_section(values={"block": 5}), "no knob 'block'"),
        "no values": (of_section(values=[8]), "damaged"),
    }


def test_a_bad_file_is_ignored_with_one_warning(table: type[Any]) -> None:
    file = store(table, {"tile": 8})
    for case, (content, words) in damaged(file, json.loads(file.read_bytes())).items():
        file.write_bytes(content)
        tables.forget_loaded()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert in_force(table) == {}, case
            tables._in_force.clear()
            assert in_force(table) == {}, case
        (said,) = caught
        assert issubclass(said.category, TableWarning)
        assert words in str(said.message) and str(file) in str(said.message) and "kernelzoo tune" in str(said.message)


def test_a_file_that_cannot_be_read_is_ignored(table: type[Any]) -> None:
    file = store(table, {"tile": 8})
    file.unlink()
    file.mkdir()
    with pytest.warns(TableWarning, match="Is a directory"):
        assert in_force(table) == {}


def test_a_user_without_a_home_has_the_shipped_table(table: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", nowhere)
    assert in_force(table) == {}


def test_operations_share_a_file_and_are_reset_apart(table: type[Any]) -> None:
    launch_table("toy", "min")(type("Other", (), {"__annotations__": {}}))
    file = store(table, {"tile": 8})
    assert store(table, {}, "min") == file
    assert set(json.loads(file.read_bytes())["tables"]) == {"softmax", "min"}
    assert tables.reset(CARD, "toy", ["softmax"]) == file
    assert set(json.loads(file.read_bytes())["tables"]) == {"min"}
    assert tables.reset(CARD, "toy", ["softmax"]) is None
    assert tables.reset(CARD, "toy") == file and not file.exists()
    assert tables.reset(CARD, "toy") is None


def test_a_damaged_file_is_written_anew(table: type[Any]) -> None:
    file = store(table, {"tile": 8})
    file.write_bytes(b"{")
    store(table, {"tile": 2})
    assert in_force(table) == {"tile": 2}


WRITER = """
import sys
from kernelzoo import tables
card = tables.Gpu("NVIDIA Toy 1", "9.9", 7)
for k in range(40):
    tables.store(card, "toy", f"op{sys.argv[1]}", "digest", {"tile": k}, {}, [])
"""


def test_writers_at_the_same_time_lose_nothing(table: type[Any], tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(k)], env=environment) for k in range(4)]
    file = tables.path(CARD, "toy")
    while any(writer.poll() is None for writer in writers):
        if file.exists():
            json.loads(file.read_bytes())  # whole at any time
    assert [writer.returncode for writer in writers] == [0] * 4
    found = json.loads(file.read_bytes())["tables"]
    assert {op: section["values"] for op, section in found.items()} == {f"op{k}": {"tile": 39} for k in range(4)}
    assert {left.suffix for left in file.parent.iterdir()} == {".json", ".lock"}
