"""The probes ask what a first launch by Triton will need, and compile nothing."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from triton.backends.nvidia import driver

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels import gluon, helion
from kernelzoo.kernels import triton as own
from kernelzoo.kernels.shared import triton_needs

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def a_gpu_and_nothing_compiled(monkeypatch: Patch, tmp_path: Path) -> None:
    """As torch sees it; and an empty cache."""
    for name, value in (("is_available", True), ("device_count", 1), ("get_device_capability", (9, 0))):
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(driver, "libcuda_dirs", lambda: [str(tmp_path)])
    monkeypatch.setattr(driver, "library_dirs", lambda: [str(tmp_path)])
    monkeypatch.setattr(triton.runtime.build.subprocess, "check_call", lambda *_, **__: pytest.fail("it compiles"))
    monkeypatch.setattr(triton.runtime.driver, "_active", None)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    (tmp_path / "cc").write_text("#!/bin/sh\n")
    (tmp_path / "cc").chmod(0o755)
    (tmp_path / "Python.h").touch()
    has_headers_in(monkeypatch, str(tmp_path))
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    monkeypatch.setattr(triton, "__version__", "3.7.1")


def has_headers_in(monkeypatch: Patch, folder: str, scheme: str = "posix_prefix") -> None:
    paths = {"posix_prefix": {"include": folder}}
    here = SimpleNamespace(get_default_scheme=lambda: scheme, get_paths=paths.__getitem__)
    monkeypatch.setattr(triton_needs, "sysconfig", here)


def no_compiler(monkeypatch: Patch) -> None:
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "/nowhere")


def fails(error: Exception) -> Callable[..., Any]:
    def failing(*_: Any) -> Any:
        raise error

    return failing


LACKING: dict[str, tuple[Callable[[Patch], None], str]] = {
    "CC": (lambda patch: patch.setenv("CC", "no-such-cc"), "C compiler, and CC=no-such-cc is none; install gcc"),
    "CC with an option": (lambda patch: patch.setenv("CC", "cc -m64"), "CC=cc -m64 is none"),
    "compiler": (no_compiler, "needs a C compiler, and there is none; install gcc and Python's headers"),
    "headers": (lambda patch: has_headers_in(patch, "/no", "posix_local"), "Python.h is not in /no"),
    "ptxas": (
        lambda patch: patch.setattr(
            triton.knobs.env_nvidia_tool, "transform", fails(RuntimeError("Cannot find ptxas"))
        ),
        "Cannot find ptxas; reinstall triton, or set TRITON_PTXAS_PATH",
    ),
    "libcuda": (
        lambda patch: patch.setattr(driver, "libcuda_dirs", fails(AssertionError("libcuda.so cannot found!\n"))),
        "libcuda.so cannot found!; set TRITON_LIBCUDA_PATH",
    ),
    "ldconfig": (
        lambda patch: patch.setattr(driver, "libcuda_dirs", fails(FileNotFoundError("/sbin/ldconfig"))),
        "finds no libcuda.so.1: /sbin/ldconfig",
    ),
}


@pytest.mark.parametrize("backend", [own, gluon, helion], ids=lambda backend: backend.__name__.rpartition(".")[2])
@pytest.mark.parametrize("what", LACKING)
def test_what_is_lacking_is_named(monkeypatch: Patch, backend: Any, what: str) -> None:
    if backend is helion:
        pytest.importorskip("helion", exc_type=ImportError)
    assert backend.probe() == ("cuda",)
    take_away, says = LACKING[what]
    take_away(monkeypatch)
    with pytest.raises(BackendUnavailableError) as caught:
        backend.probe()
    assert says in str(caught.value)


def test_no_compiler_is_needed_for_what_it_made_before(monkeypatch: Patch) -> None:
    no_compiler(monkeypatch)
    monkeypatch.setattr(triton.runtime.driver, "_active", SimpleNamespace(utils=object()))
    assert triton_needs.find_missing_requirement(triton) is None
    monkeypatch.setattr(triton, "__version__", "3.6.0")  # which compiles more of them
    assert triton_needs.find_missing_requirement(triton) is not None


def test_no_compiler_is_needed_beside_one_of_the_user_s(monkeypatch: Patch) -> None:
    no_compiler(monkeypatch)
    monkeypatch.setattr(triton.knobs.build, "impl", lambda *_: "")
    assert triton_needs.find_missing_requirement(triton) is None


def test_none_is_needed_by_the_interpreter(monkeypatch: Patch) -> None:
    no_compiler(monkeypatch)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert own.probe() == ("cuda", "cpu")
