"""Numba's machine code on disk, of this package's own keeping; tests/test_caches.py has the folder and the files."""

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("numba.cuda", reason="the numba backend is written in numba-cuda")

from numba.cuda import types  # needs numba-cuda

from kernelzoo.kernels.numba import disk
from kernelzoo.kernels.numba.source import Source, compiled
from kernelzoo.kernels.shared import code_cache


def kernel(x, n):
    pass


def source(*constants: object) -> tuple[object, ...]:
    return Source(kernel, (types.float32,), 128, constants).identity


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(code_cache, "_warned", set())


def test_kept_by_all_that_the_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    disk.store(source(1), (9, 0), "entry", b"code")
    assert disk.stored(source(1), (9, 0)) == ("entry", b"code")
    assert disk.stored(source(2), (9, 0)) is disk.stored(source(1), (8, 0)) is None
    monkeypatch.setattr(disk, "_compiler", lambda: "another version")
    assert disk.stored(source(1), (9, 0)) is None


def test_every_file_that_a_kernel_is_made_of_is_part_of_the_key(tmp_path: Path) -> None:
    package = shutil.copytree(Path(disk.__file__).parent, tmp_path / "numba")
    files = sorted(package.rglob("*.py"))
    assert {"launch.py", "softmax", "min", "machine.py"} <= {path.relative_to(package).parts[0] for path in files}
    before = disk.text_of(package)
    for file in files:
        text = file.read_bytes()
        file.write_bytes(text + b"\n# edited\n")
        assert disk.text_of(package) != before, file
        file.write_bytes(text)
    assert disk.text_of(package) == before
    (package / "softmax" / "another.py").touch()
    assert disk.text_of(package) != before


@pytest.mark.parametrize(
    "damage", [lambda c: b"", lambda c: c[:20], lambda c: c[:-1], lambda c: c[:-1] + bytes([c[-1] ^ 1])]
)
def test_damaged_it_is_compiled_anew(damage) -> None:
    disk.store(source(1), (9, 0), "entry", b"code")
    (path,) = disk.folder().iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert disk.stored(source(1), (9, 0)) is None


def test_the_folder_is_private_and_what_is_planted_is_not_taken() -> None:
    disk.store(source(1), (9, 0), "entry", b"code")
    assert os.stat(disk.folder()).st_mode & 0o777 == 0o700
    disk.folder().chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others may write to it"):
        assert disk.stored(source(1), (9, 0)) is None


def test_a_user_without_a_home_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    disk.store(source(1), (9, 0), "entry", b"code")
    assert disk.stored(source(1), (9, 0)) is None


def test_no_folder_to_keep_machine_code_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="no machine code is kept in"):
        disk.store(source(1), (9, 0), "name", b"cubin")
    assert disk.stored(source(1), (9, 0)) is None


def test_second_load_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Source(kernel, (types.float32,), 128, ())
    name, binary = compiled(made, (9, 0))
    monkeypatch.setattr("kernelzoo.kernels.numba.source.to_ptx", None)
    assert compiled(made, (9, 0)) == (name, binary)
