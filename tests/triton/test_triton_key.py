"""Triton's key of its own files, which is kept on disk: the same key, of these very files, and made again of others."""

import importlib
import os
from pathlib import Path

import pytest
import torch
import triton
from triton.compiler import compiler
from triton.runtime import cache

from kernelzoo import user_cache
from kernelzoo.kernels.shared import jit, triton_key, triton_needs


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
        return triton_key.cached_key(make, root, tmp_path / "cache")

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


def test_only_our_own_compilations_get_the_key_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = cache.triton_key
    expected = own()
    monkeypatch.setattr(user_cache, "folder", lambda name: tmp_path / name)
    with triton_key.use_cached_key():
        quick = cache.triton_key
        with triton_key.use_cached_key():
            assert cache.triton_key is quick is not own and quick() == expected
    assert cache.triton_key is own and getattr(compiler, "triton_key", own) is own
    (kept,) = (tmp_path / "triton").iterdir()
    assert kept.read_bytes().endswith(expected.encode())
    with pytest.raises(ValueError, match="of the compiler"), triton_key.use_cached_key():
        raise ValueError("of the compiler")
    assert cache.triton_key is own


def test_a_user_without_a_home_gets_tritons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def folder(name: str) -> Path:
        raise RuntimeError("no home")

    own = cache.triton_key
    monkeypatch.setattr(user_cache, "folder", folder)
    with triton_key.use_cached_key():
        assert cache.triton_key is own


def test_a_kernel_is_compiled_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    class Kernel:
        def warmup(self, *args: object, **options: object) -> None:
            seen.append(getattr(cache.triton_key, "__wrapped__", None) is triton_key.cached_key)

    own = cache.triton_key
    jit.compile_program(torch.empty(1), Kernel(), (), {})
    assert seen == [True] and cache.triton_key is own


@pytest.mark.parametrize("name", ["triton", "gluon"])
def test_a_backend_that_is_asked_for_leaves_triton_alone(name, tmp_path, monkeypatch) -> None:
    own = cache.triton_key
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    monkeypatch.setattr(triton_needs, "find_missing_requirement", lambda triton: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index=0: (9, 0))
    assert importlib.import_module(f"kernelzoo.kernels.{name}").probe() == ("cuda",)
    assert cache.triton_key is own
