"""bench/test_submit.py: each language's own launch is the fastest that it documents, and says where."""

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from scripts import loaded

ROOT = Path(__file__).parents[1]


@pytest.fixture
def submit():
    return loaded(ROOT / "bench" / "test_submit.py")


def test_every_language_names_the_page_that_its_launch_is_from(submit) -> None:
    for name, own in submit.OWN.items():
        assert re.search(r'"[A-Z].+?".*\s+https://\S+\.(html|py)', own.__doc__ or "", re.DOTALL), name


@pytest.mark.parametrize("installed", [True, False])
def test_cute_is_compiled_with_tvm_ffi_or_says_that_it_is_not(submit, monkeypatch, installed: bool) -> None:
    told = {}

    def compile(host, *arguments, options: str = ""):
        told["options"] = options
        return lambda *arguments: told.setdefault("called", arguments)

    runtime = SimpleNamespace(from_dlpack=lambda x, **how: (x, how), make_fake_stream=lambda **how: "stream")
    cute = SimpleNamespace(kernel=lambda f: f, jit=lambda f: f, Tensor=object, compile=compile, runtime=runtime)
    monkeypatch.setitem(sys.modules, "cutlass", SimpleNamespace(Int32=int, cute=cute))
    monkeypatch.setitem(sys.modules, "cutlass.cute", cute)
    monkeypatch.setitem(sys.modules, "cutlass.cute.runtime", runtime)
    for name in ("cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(CUstream=lambda stream: stream))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: installed or None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    x, out = torch.zeros(2, 2), torch.zeros(2, 2)
    submit.cute_own(x, out)()
    detail = submit.told("cute/softmax/language", [1e-6], "cpu")["clock_detail"]
    assert told["options"] == "--enable-tvm-ffi" * installed
    assert told["called"] == ((x, out, 64) if installed else ((x, {}), (out, {}), 64, 7))
    assert ("without TVM FFI" in detail) is not installed
    assert "TVM" not in submit.told("cute/softmax/bound", [1e-6], "cpu")["clock_detail"]
