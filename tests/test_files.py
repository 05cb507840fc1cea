"""Files: read within bounds, written whole whatever happens meanwhile, and claimed by one process at a time."""

import fcntl
import gzip
import json
import multiprocessing
import os
import resource
import signal
import stat
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelzoo import files
from kernelzoo.files import FileError, hold_file_lock, read_json, write_atomically

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, max_examples=40)
@given(document=JSON)
def test_what_is_written_is_read(document: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")
    text = json.dumps(document).encode()
    for name, content in (("a.json", text), ("a.json.gz", gzip.compress(text))):
        write_atomically(folder / name, content)
        assert read_json(folder / name) == document


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[NaN]", r"\[0\] must be a finite number, got nan"),
        ('{"a": {"b": [1, -Infinity]}}', r"a b\[1\] must be a finite number, got -inf"),
        ('{"a": {"b": 1e999}}', "a 'b' must be a finite number, got inf"),
        ("1" * 5000, "is not JSON"),
        ("[" * 100_000 + "]" * 100_000, "is not JSON: (maximum recursion|Stack overflow)"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "is not JSON: (maximum recursion|Stack overflow)"),
        ("[" * 40 + "]" * 40, "nested deeper than 32"),
        ('{"a"', "is not JSON"),
        ("\x00", "is not JSON"),
        ("", "is not JSON"),
    ],
    ids=range(10),
)
def test_what_no_results_hold_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(FileError, match=words):
        read_json(path)


def test_depth_is_bounded_where_the_parser_does_not(tmp_path: Path) -> None:
    """A newer Python's parser goes deeper than what walks the document afterwards."""
    path = tmp_path / "a.json"
    path.write_text("[" * 900 + "]" * 900)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    try:
        with pytest.raises(FileError, match="nested deeper than 32"):
            read_json(path)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("cut", [1, 9, 20, -9, -4, -1, None])
def test_compressed_and_cut_short_or_damaged_is_refused(tmp_path: Path, cut: int | None) -> None:
    content = bytearray(gzip.compress(json.dumps(list(range(1000))).encode())[:cut])
    content[len(content) // 2] ^= cut is None
    path = tmp_path / "a.json.gz"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"cut short or damaged|named \.gz and is not"):
        read_json(path)


def test_a_bomb_takes_no_more_memory_than_a_file_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b" " * 2**26)
    assert len(bomb) < 100_000
    path = tmp_path / "a.json.gz"
    path.write_bytes(bomb * 32)  # 2 GiB
    monkeypatch.setattr(files, "LARGEST", 2**24)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FileError, match="holds more than 16 MiB"):
        read_json(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KiB
    plain = tmp_path / "a.json"
    with plain.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match="holds more than 16 MiB"):
        read_json(plain)


def test_what_is_no_file_is_neither_waited_for_nor_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "a.json"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match="no regular file"):
        read_json(pipe)
    for special in (pipe, Path("/dev/null"), Path("/dev/full"), tmp_path):
        with pytest.raises(OSError, match="no regular file"):
            write_atomically(special, b"")
        assert not special.is_file()


# Written whole.


def test_the_old_file_keeps_its_mode_and_a_new_one_has_the_users(tmp_path: Path) -> None:
    path = tmp_path / "a"
    before = os.umask(0o027)
    try:
        write_atomically(path, b"1")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_atomically(path, b"2")
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


def test_file_and_folder_are_synced_in_that_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replaced(old: object, new: object) -> None:
        done.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_atomically(tmp_path / "a", b"1")
    assert done == ["file", "rename", "folder"]


def test_a_full_disk_leaves_the_old_file(full_disk: Path) -> None:
    path = full_disk / "a.json"
    write_atomically(path, b"old")
    with pytest.raises(OSError, match="No space left") as error:
        write_atomically(path, b"new" * 10_000)
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"old" and list(full_disk.iterdir()) == [path]


def write_on(path: Path) -> None:
    for turn in range(10**6):
        write_atomically(path, json.dumps([turn] * 20_000).encode())


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_writer_that_is_killed_leaves_a_whole_file(tmp_path: Path, end: signal.Signals) -> None:
    """And a reader beside it never sees half."""
    path = tmp_path / "a.json"
    context = multiprocessing.get_context("fork")
    for turn in range(8):
        writer = context.Process(target=write_on, args=(path,), daemon=True)
        writer.start()
        until = time.monotonic() + 0.03 + 0.005 * turn
        while time.monotonic() < until or not path.exists():
            if path.exists():
                assert len(set(read_json(path))) == 1
        os.kill(writer.pid, end)
        writer.join()
        assert len(held := read_json(path)) == 20_000 and len(set(held)) == 1
    with hold_file_lock(path):  # what was left half written is swept away by who comes next
        assert [file.name for file in tmp_path.iterdir() if "partial" in file.name] == []


# Claimed.


def claim(path: Path, answers: "multiprocessing.Queue[str]", hold: float) -> None:
    try:
        with hold_file_lock(path):
            answers.put("claimed")
            time.sleep(hold)
    except FileError as error:
        answers.put(str(error))


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.json"
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    first = context.Process(target=claim, args=(path, answers, 600), daemon=True)
    first.start()
    assert answers.get(timeout=10) == "claimed"
    with pytest.raises(FileError, match=r"another process is writing to .*r\.json"), hold_file_lock(path):
        raise AssertionError("claimed twice")
    with hold_file_lock(path.with_name("r.json.gz")):  # another file
        pass
    first.kill()
    first.join()
    with hold_file_lock(path):  # it ended with its process
        assert [file.name for file in path.parent.iterdir()] == [".r.json.lock"]
    assert list(path.parent.iterdir()) == []


def test_a_lock_on_a_file_that_was_removed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last holder removes the lock file after the next one has opened it."""
    lock, opened, flock = tmp_path / ".r.json.lock", [], fcntl.flock

    def locks(handle: int, how: int) -> None:
        opened.append(handle)
        if len(opened) == 1:
            lock.unlink()
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", locks)
    with hold_file_lock(tmp_path / "r.json"):
        assert len(opened) == 2 and lock.exists()


def test_what_others_write_meanwhile_is_not_swept_away(tmp_path: Path) -> None:
    for name in (".r.json.abc.partial", ".r.json.gz.abc.partial", ".xr.json.abc.partial", ".r.json.abc.other"):
        (tmp_path / name).write_text("")
    with hold_file_lock(tmp_path / "r.json"):
        left = {file.name for file in tmp_path.iterdir()}
    assert ".r.json.abc.partial" not in left
    assert left >= {".r.json.gz.abc.partial", ".xr.json.abc.partial", ".r.json.abc.other"}
