"""Triton's key of its own files, which is kept on disk: the same key, of these very files, and made again of others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="the triton backend needs the package triton")

from triton.runtime import cache

from kernelzoo import user_cache
from kernelzoo.kernels.shared import triton_key


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("compiler/code.py", "_C/libtriton.so", "backends/nvidia/driver.py"):
        path = tmp_path / "triton" / name
        path.parent.mkdir(parents=True)
        path.write_text(name)
    return tmp_path / "triton"


def test_a_key_is_made_once_of_the_same_files(root: Path, tmp_path: Path) -> None:
    made: list[str] = []

    def make() -> str:
        made.append(f"key {len(made)}")
        return made[-1]

    def found() -> str:
        return triton_key.kept(make, root, tmp_path / "cache")

    assert [found(), found()] == ["key 0", "key 0"]
    library = root / "_C" / "libtriton.so"
    library.write_text("of as many letters")
    assert [found(), found()] == ["key 1", "key 1"]
    about = library.stat()
    library.write_text("of as many LETTERS")
    os.utime(library, ns=(about.st_atime_ns, about.st_mtime_ns))  # an installer sets this time as it likes
    assert found() == "key 2"
    (root / "backends" / "nvidia" / "more.py").write_text("")
    assert found() == "key 3"
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert found() == "key 4", "what was cut short is no key"


def test_triton_gets_the_key_that_it_would_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = cache.triton_key
    if getattr(own, "__wrapped__", None) is triton_key.kept:
        pytest.skip("this process's Triton has it from disk already")
    expected = own()
    monkeypatch.setattr(cache, "triton_key", own)
    monkeypatch.setattr(user_cache, "folder", lambda name: tmp_path / name)
    triton_key.keep()
    triton_key.keep()
    assert cache.triton_key is not own and cache.triton_key() == expected
    (kept,) = (tmp_path / "triton").iterdir()
    assert kept.read_bytes().endswith(expected.encode())


def test_a_user_without_a_home_gets_tritons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def folder(name: str) -> Path:
        raise RuntimeError("no home")

    own = cache.triton_key
    monkeypatch.setattr(user_cache, "folder", folder)
    triton_key.keep()
    assert cache.triton_key is own
