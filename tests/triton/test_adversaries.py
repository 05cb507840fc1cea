"""The adversaries in Triton, interpreted or compiled ahead of time: right when cold, lazy when warm."""

import os

import adversaries_triton as given
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
KERNELS = {one.name: one for one in given.TRITON}


@triton.jit
def stopped():
    return tl.full((), 1000, tl.int64)


@pytest.mark.skipif(not INTERPRETED, reason="interpreter only: run with TRITON_INTERPRET=1")
@pytest.mark.parametrize("name", KERNELS)
def test_it_is_right_when_cold_and_lazy_when_warm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock, which is the device's, stands still here."""
    monkeypatch.setattr(given, "now", stopped)
    monkeypatch.setattr(given, "WARM", tl.constexpr(4))
    one, rows = KERNELS[name], 11
    bind, dtype = one.made(), getattr(torch, one.problem.dtype)
    torch.manual_seed(1)
    inputs = torch.randn(2, rows, 37, 1, dtype=dtype) * 3
    outs = torch.zeros_like(inputs)
    launches = [bind(x, out) for x, out in zip(inputs, outs, strict=True)]

    def wrong(x: torch.Tensor, out: torch.Tensor) -> bool:
        return not torch.allclose(out.float(), torch.softmax(x.float(), 1), rtol=8e-3 if dtype.itemsize == 2 else 1e-5)

    for launch, x, out in zip(launches, inputs, outs, strict=True):
        launch()
        assert not wrong(x, out)
    for launch in launches:
        for _ in range(4):
            launch()
    inputs[:, :, 5], inputs[:, :, 6] = inputs[:, :, 6].clone(), inputs[:, :, 5].clone()  # which no sum tells
    for launch in launches:
        launch()
    assert any(wrong(x, out) for x, out in zip(inputs, outs, strict=True))


@pytest.mark.skipif(INTERPRETED, reason="an interpreter compiles nothing")
@pytest.mark.parametrize("name", [*KERNELS, "honest"])
def test_it_compiles(name: str) -> None:
    kernel = getattr(given, name.replace(" ", "_"))
    dtype = "*bf16" if name == "honest" or KERNELS[name].problem.dtype == "bfloat16" else "*fp32"
    pointers = {"x": dtype, "out": dtype, "count": "*i64", "kept": "*fp32", "first": dtype}
    source = ASTSource(kernel, {**pointers, "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 1024})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 16})
    assert compiled.asm["cubin"]
    assert ("globaltimer" in compiled.asm["ptx"]) == ("clock" in name)
