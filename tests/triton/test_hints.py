"""bench/hints.py: what its kernel asks of the cache and computes, and what is made of the times."""

import os
import re
from pathlib import Path
from types import ModuleType

import pytest
import scripts
import torch
import triton

from kernelzoo.report import findings

SCRIPT = Path(__file__).parents[2] / "bench" / "hints.py"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture(scope="module")
def hints() -> ModuleType:
    return scripts.loaded(SCRIPT)


def test_a_hint_asks_for_what_its_name_says(hints: ModuleType) -> None:
    for hint, (read, write) in hints.HINTS.items():
        which, _, when = hint.partition(" evicted ")
        assert read == (f"evict_{when}" if which in ("reads", "both") else "")
        assert write == (f"evict_{when}" if which in ("writes", "both") else "")


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled under TRITON_INTERPRET")
@pytest.mark.parametrize("copy", [False, True])
def test_each_hint_is_in_the_machine_s_words(hints: ModuleType, copy: bool) -> None:
    asked = {}
    for hint, (read, write) in hints.HINTS.items():
        constants = {"BLOCK": 8192, "READ": read, "WRITE": write, "COPY": copy}
        source = triton.compiler.ASTSource(
            fn=hints.row_kernel,
            signature={"x": "*fp32", "out": "*fp32"} | dict.fromkeys(constants, "constexpr"),
            constexprs=constants,
            attrs={(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
        )
        target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
        ptx = triton.compile(source, target=target, options={"num_warps": 8}).asm["ptx"]
        loads = {"L1::" in line or "cache_hint" in line for line in re.findall(r"\bld\.global.*", ptx)}
        stores = {"L1::" in line or "cache_hint" in line for line in re.findall(r"\bst\.global.*", ptx)}
        asked[hint] = loads, stores
        assert not ("evict_last" in ptx and "evict_first" in ptx)
        assert ("evict_first" in ptx, "evict_last" in ptx) == ("evict_first" in (read, write), read == "evict_last")
    assert asked == {hint: ({bool(read)}, {bool(write)}) for hint, (read, write) in hints.HINTS.items()}


@pytest.mark.skipif(not INTERPRETED, reason="there is no GPU, and this isn't the interpreter")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_hint_s_kernel_is_right(hints: ModuleType, dtype: str) -> None:
    x = torch.randn(3, 256).to(getattr(torch, dtype))
    for hint in hints.HINTS:
        hints.check(x, hint)


@pytest.mark.skipif(not INTERPRETED, reason="there is no GPU, and this isn't the interpreter")
def test_a_pipeline_does_what_its_name_says(hints: ModuleType) -> None:
    x, out, hot = torch.randn(3, 256), torch.full((3, 256), -1.0), torch.ones(4)
    expected = {kind: x.softmax(-1) for kind in hints.PIPELINES} | {hints.COPY: x}
    for kind in hints.PIPELINES:
        out.fill_(-1)
        hints.pipeline(kind, hints.NO_HINT, x, out, hot)()
        torch.testing.assert_close(out, expected[kind])


def test_ratios_are_to_the_same_round_without_a_hint(hints: ModuleType) -> None:
    drift = [1.0, 1.5, 2.0, 1.2, 1.1, 1.3, 1.4]
    factors = {hint: 1 + index / 10 for index, hint in enumerate(hints.HINTS)}
    by_kind = {kind: {hint: [1e-5 * f * d for d in drift] for hint, f in factors.items()} for kind in hints.PIPELINES}
    made = hints.table({"float32": {4: by_kind, 8: by_kind}})
    assert len(made) == len(hints.PIPELINES) * len(hints.HINTS)
    none, first, *_ = made
    assert none["4 MB"] == "13.0 µs" and "widest 95 % interval" not in none
    assert (first["hint"], first["4 MB"], first["8 MB"]) == ("reads evicted first", "1.100", "1.100")
    assert first["widest 95 % interval"] == "0.000"
    environment = {"device": "a card", "versions": {"torch": "2"}}
    document = {"format": hints.FORMAT, "environment": environment, "started": "2026-11-22T00:00", "seconds": 1}
    table = findings._parse_record(document | {"rows": made}, "f").table()
    assert "| float32 | softmax alone | reads evicted first | 1.100 |" in table.markdown()


def test_without_a_gpu_nothing_is_measured(hints, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        hints.main(["-o", str(tmp_path / "h.json")])
    assert "no GPU" in capsys.readouterr().err and not list(tmp_path.iterdir())
