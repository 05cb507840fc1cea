"""Machine code on disk: shared by processes that compile at once, and never trusted when it is damaged or strange."""

import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warm

pytest.importorskip("numba", reason="the cpu backend is written in Numba")

import kernelzoo
from kernelzoo.kernels.cpu import launch  # needs Numba

pytestmark = pytest.mark.slow

# Of one kernel, the loop that shares its work out and what does the work, in an order of the process's own; prints how
# many signatures came from the disk.
COMPILE = """
import sys, torch, kernelzoo
from kernelzoo.kernels.cpu.min import rows
given = [(torch.int8, 400_000), (torch.uint8, 4_000)]
turn = int(sys.argv[1])
for dtype, count in given[turn:] + given[:turn]:
    x = torch.arange(count).remainder(100).to(dtype).view(-1, 2)
    assert torch.equal(kernelzoo.get("cpu").min(x), torch.amin(x, -1)), dtype
print(sum(one.stats.cache_hits.total() for one in (rows._columns, rows._columns.py_func.__globals__["_task"])))
"""


def start(folder: Path, turn: int, **changes: str) -> Any:
    """A process that has imported torch, and nothing of Numba."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **changes}
    subprocess = warm.forking()
    return subprocess.Popen(
        [sys.executable, "-c", COMPILE, str(turn)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )


def hits(process: Any) -> int:
    printed, _ = process.communicate()
    assert process.returncode == 0
    return int(printed)


def files(folder: Path, stamp: object = "source", base: str = "kernel") -> launch._CodeFiles:
    return launch._CodeFiles(folder, base, stamp)


def test_processes_compile_at_once(tmp_path):
    for process in [start(tmp_path, turn) for turn in (0, 1)]:
        hits(process)
    # The loop for one dtype, with which its task comes; the task for another. The source, installed elsewhere later.
    installed, ignored = tmp_path / "elsewhere" / "kernelzoo", shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(kernelzoo.__file__).parent, installed, ignore=ignored, copy_function=shutil.copyfile)
    assert hits(start(tmp_path, 0, PYTHONPATH=str(installed.parent))) == 2
    # Damaged or cut short: compiled anew, and kept again.
    kept = sorted(tmp_path.rglob("*.nbc"))
    for number, path in enumerate(kept):
        content = bytearray(path.read_bytes())
        content[-100] ^= 1
        path.write_bytes(content if number % 2 else content[:100])
    assert hits(start(tmp_path, 0)) == 0
    assert hits(start(tmp_path, 0)) == 2
    assert not list(tmp_path.rglob("*.tmp"))


def test_signatures_never_share_a_file(tmp_path):
    # Both wrote before either had read what the other wrote.
    one, other = files(tmp_path), files(tmp_path)
    one.save("int8", "code for int8")
    other.save("uint8", "code for uint8")
    for each in (one, other, files(tmp_path)):
        assert (each.load("int8"), each.load("uint8")) == ("code for int8", "code for uint8")
    assert files(tmp_path).load("int16") is None


def test_other_source_is_compiled_anew(tmp_path):
    files(tmp_path, "one").save("int8", "old")
    assert files(tmp_path, "two").load("int8") is None
    files(tmp_path, "two").save("int8", "new")
    assert files(tmp_path, "two").load("int8") == "new"
    assert len(list(tmp_path.iterdir())) == 1


def test_every_file_of_the_backend_counts_as_source(tmp_path):
    """A kernel is made of functions in several files, and in folders of operations."""
    folder = tmp_path / "cpu"
    shutil.copytree(Path(launch.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    paths = sorted(folder.rglob("*.py"))
    assert {path.parent for path in paths} == {folder, *(found for found in folder.iterdir() if found.is_dir())}
    stamps = {launch.code_cache.digest_sources(folder)}
    for path in paths:
        path.write_text(path.read_text(encoding="utf-8") + "# another\n", encoding="utf-8")
        stamps.add(launch.code_cache.digest_sources(folder))
    assert len(stamps) == 1 + len(paths)


def test_a_file_moved_over_another_is_refused(tmp_path):
    kept = files(tmp_path)
    kept.save("int8", "code for int8")
    (tmp_path / kept._name("int8")).rename(tmp_path / kept._name("uint8"))
    assert kept.load("uint8") is None


def test_flush_forgets_this_function_alone(tmp_path):
    kept, other = files(tmp_path), files(tmp_path, base="other")
    kept.save("int8", 1)
    other.save("int8", 2)
    kept.flush()
    assert kept.load("int8") is None and other.load("int8") == 2


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EACCES], ids=errno.errorcode.get)
def test_nothing_is_kept_where_nothing_can_be_written(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(launch.numba.config, "CACHE_DIR", str(tmp_path))

    @launch.cached_njit()
    def kernel(a, out):
        out[0] = a[0]

    def full(*arguments: object, **folders: int) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(launch.code_cache.os, "replace", full)
    array = np.zeros(1, "f4")
    with pytest.warns(RuntimeWarning, match=f"each process compiles for itself: {os.strerror(fault)}"):
        kernel(array, array)
    assert not list(tmp_path.rglob("*.nbc")) and not list(tmp_path.rglob("*.tmp"))
