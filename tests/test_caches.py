"""Machine code on disk is a program: taken only from where nobody else can write, and only whole."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelzoo.kernels.shared import code_cache

ROOT = os.geteuid() == 0
SOMEBODY = 12345  # a user's number


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "_warned", set())


def refused(folder: Path, words: str) -> None:
    """It is not read from, and not written to, and that is said once."""
    there = sorted(folder.iterdir())
    with pytest.warns(RuntimeWarning, match=f"{re.escape(str(folder))}.*({words})"):
        assert code_cache.read_code(folder, "kernel") is None
    code_cache.write_code(folder, "kernel", b"other code")  # without another word: a warning is an error here
    assert code_cache.read_code(folder, "kernel") is None
    assert sorted(folder.iterdir()) == there


def test_what_is_kept_is_whole_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "kernels"
    assert code_cache.read_code(folder, "kernel") is None
    before = os.umask(0)  # whatever a user's own is
    try:
        code_cache.write_code(folder, "kernel", b"code")
    finally:
        os.umask(before)
    assert code_cache.read_code(folder, "kernel") == b"code"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "kernel").stat().st_mode) == 0o600
    assert os.listdir(folder) == ["kernel"]


BITS, LENGTHS = (0, 3, 8 * 31 + 7, 8 * 32, -1), (0, 1, 31, 32, 33, 43)


@pytest.mark.parametrize(("bit", "length"), [*((bit, None) for bit in BITS), *((None, length) for length in LENGTHS)])
def test_a_flipped_bit_or_a_file_cut_short_is_seen(tmp_path: Path, bit: int | None, length: int | None) -> None:
    code_cache.write_code(tmp_path, "kernel", b"machine code")
    path = tmp_path / "kernel"
    content = bytearray(path.read_bytes()[:length])
    if bit is not None:
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    assert code_cache.read_code(tmp_path, "kernel") is None
    code_cache.write_code(tmp_path, "kernel", b"machine code")
    assert code_cache.read_code(tmp_path, "kernel") == b"machine code"


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    code_cache.write_code(tmp_path, "kernel", b"planted")
    tmp_path.chmod(mode)
    refused(tmp_path, "others may write to it")


@pytest.mark.skipif(not ROOT, reason="only root can give a folder away")
def test_a_folder_or_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    code_cache.write_code(tmp_path, "kernel", b"planted")
    os.chown(tmp_path / "kernel", SOMEBODY, SOMEBODY)
    assert code_cache.read_code(tmp_path, "kernel") is None
    os.chown(tmp_path / "kernel", 0, 0)
    assert code_cache.read_code(tmp_path, "kernel") == b"planted"
    os.chown(tmp_path, SOMEBODY, SOMEBODY)
    refused(tmp_path, f"it belongs to user {SOMEBODY}")


def test_links_are_not_followed(tmp_path: Path) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    code_cache.write_code(theirs, "kernel", b"planted")
    link.symlink_to(theirs)
    refused(link, "Too many levels of symbolic links|Not a directory")
    ours = tmp_path / "ours"
    ours.mkdir(0o700)
    (ours / "kernel").symlink_to(theirs / "kernel")
    with pytest.warns(RuntimeWarning, match="symbolic links"):
        assert code_cache.read_code(ours, "kernel") is None
    code_cache.write_code(ours, "kernel", b"our own")  # replaces the link, and writes nothing through it
    assert code_cache.read_code(ours, "kernel") == b"our own" and code_cache.read_code(theirs, "kernel") == b"planted"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kernel", 0o600)
    assert code_cache.read_code(tmp_path, "kernel") is None


def test_a_file_where_the_folder_should_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.warns(RuntimeWarning, match="each process compiles for itself: (File exists|Not a directory)"):
        code_cache.write_code(tmp_path / "taken", "kernel", b"code")


def test_a_full_disk_keeps_nothing(full_disk: Path) -> None:
    code_cache.write_code(full_disk, "small", b"code")
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        code_cache.write_code(full_disk, "large", b"code" * 10_000)
    assert os.listdir(full_disk) == ["small"] and code_cache.read_code(full_disk, "small") == b"code"


# The languages' own caches.


def test_a_language_keeps_its_folder_where_that_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_CACHE", raising=False)
    default = tmp_path / "home" / "kernels"
    assert code_cache.check_cache_folder("A_CACHE", default) is None and "A_CACHE" not in os.environ
    assert stat.S_IMODE(default.stat().st_mode) == 0o700
    default.chmod(0o775)  # what a umask of 002 leaves
    assert code_cache.check_cache_folder("A_CACHE", default) is None
    link = tmp_path / "link"  # a user's own, to a larger disk
    link.symlink_to(default)
    monkeypatch.setenv("A_CACHE", str(link))
    assert code_cache.check_cache_folder("A_CACHE", tmp_path) is None and os.environ["A_CACHE"] == str(link)


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def somebody_elses(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, SOMEBODY, SOMEBODY)


PLANTED: dict[str, Callable[[Path], object]] = {
    "taken": lambda folder: folder.write_text(""), "around itself": lambda folder: folder.symlink_to(folder),
    "open to all": open_to_all, "somebody else's": somebody_elses,
}  # fmt: skip


@pytest.mark.parametrize("planted", [*PLANTED][: 4 if ROOT else 3])  # only root can give a folder away
def test_a_language_gets_another_folder_where_its_own_is_not_safe(tmp_path: Path, planted: str) -> None:
    code = (
        "import os, stat, sys, warnings, pathlib\n"
        "from kernelzoo.kernels.shared import code_cache\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    instead = code_cache.check_cache_folder('A_CACHE', pathlib.Path('unused'))\n"
        "assert str(instead) == os.environ['A_CACHE'] and stat.S_IMODE(instead.stat().st_mode) == 0o700\n"
        "assert len(said) == 1 and 'set A_CACHE to another' in str(said[0].message)\n"
        "(instead / 'kernel').write_text('')\n"
        "print(instead)"
    )
    PLANTED[planted](tmp_path / "planted")
    environment = {**os.environ, "A_CACHE": str(tmp_path / "planted")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()  # it went with its process


def test_processes_that_make_a_language_s_folder_at_once_all_use_it(tmp_path, monkeypatch) -> None:
    """One made it after the other had looked."""
    (tmp_path / "made").mkdir(mode=0o700)
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert code_cache.check_cache_folder("A_CACHE", tmp_path / "made") is None and "A_CACHE" not in os.environ


def test_inductor_takes_no_planted_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelzoo.kernels.torch import compiled

    planted = tmp_path / "torchinductor_somebody"
    open_to_all(planted)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(planted))
    compiled._check_inductor_cache_folder.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="others may write to it"):
            compiled._check_inductor_cache_folder()
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] != str(planted)
    finally:
        compiled._check_inductor_cache_folder.cache_clear()
