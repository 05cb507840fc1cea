"""Numba's machine code on disk; tests/test_caches.py has the folder and the files."""

from pathlib import Path

import pytest

pytest.importorskip("numba.cuda", reason="the numba backend is written in numba-cuda")

from numba.cuda import types  # needs numba-cuda

from kernelzoo.kernels.numba import source


def kernel(x, n):
    pass


def made(*constants: object) -> source.Source:
    return source.Source(kernel, (types.float32,), 128, constants)


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """A folder that is empty at first; what is compiled, in place of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(source, "to_ptx", lambda made, capability: asked.append(capability) or ".visible .entry name(")
    monkeypatch.setattr(source, "to_cubin", lambda ptx, capability: b"code%d" % len(asked))
    return asked


def test_kept_by_all_that_the_code_depends_on(compilations, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        assert source.load_or_build(made(1), (9, 0)) == ("name", b"code1")
    assert compilations == [(9, 0)]
    source.load_or_build(made(2), (9, 0)), source.load_or_build(made(1), (8, 0))
    monkeypatch.setattr(source, "_build_key", lambda: "another version")
    source.load_or_build(made(1), (9, 0))
    assert compilations == [(9, 0), (9, 0), (8, 0), (9, 0)]


def test_a_user_without_a_home_compiles_each_time(compilations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert [source.load_or_build(made(1), (9, 0)) for _ in range(2)] == [("name", b"code1"), ("name", b"code2")]
