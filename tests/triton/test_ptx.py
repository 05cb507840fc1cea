"""Kernels as Triton's compiler has made them for sm_90, run on the host against the contract."""

import os
import re
from typing import Any

import pytest

triton = pytest.importorskip("triton", reason="the triton backend needs the package triton")
if os.environ.get("KERNELZOO_EMULATE_PTX") != "triton":
    pytest.skip("emulator only: run with KERNELZOO_EMULATE_PTX=triton", allow_module_level=True)

import host_compiler  # noqa: E402  (after the skips)
import ptx  # noqa: E402
import torch  # noqa: E402

import kernelzoo  # noqa: E402
from kernelzoo.testing import Case, cases, check  # noqa: E402

if not host_compiler.compiler():
    pytest.skip("needs a C++ compiler", allow_module_level=True)

FORMS = ("triton/softmax/fused", "triton/min/rows")
CASES = ("3x1", "3x17", "37x129", "2x4097", "special-values-300", "rows-stepped", "unaligned-odd", "middle")


def chosen(op: str) -> list[Case]:
    names = [f"{dtype}-{case}" for dtype in ("float32", "bfloat16") for case in CASES]
    return [case for case in cases(op) if str(case) in names]


@pytest.mark.parametrize(
    ("id", "case"), [pytest.param(id, c, id=f"{id}-{c}") for id in FORMS for c in chosen(id.split("/")[1])]
)
def test_compiled_kernels_keep_the_contract(id: str, case: Case) -> None:
    check(kernelzoo.implementation(id), case, "cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_row_of_special_values_is_what_torch_says(dtype: torch.dtype) -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.linspace(-5, 5, 6 * 100).reshape(6, 100).to(dtype)
    x[1, 3], x[2, 50], x[3, 99], x[4] = nan, inf, -inf, -inf
    backend = kernelzoo.get("triton")
    made = backend.softmax(x, variant="fused").float()
    torch.testing.assert_close(made, torch.softmax(x.float(), 1), rtol=2**-7, atol=1e-6, equal_nan=True)
    assert made[1:3].isnan().all() and made[3, 99] == 0 and made[4].isnan().all()
    least = backend.min(x, dim=1, variant="rows")
    torch.testing.assert_close(least, x.amin(1), rtol=0, atol=0, equal_nan=True)


def test_a_kernel_that_reads_beyond_its_rows_is_caught() -> None:
    """The launch of one more program than there are rows."""
    import compiled_triton

    x = torch.zeros(4, 64)
    real = compiled_triton.Program.launch

    def more(self: compiled_triton.Program, programs: int, *rest: object) -> None:
        real(self, programs + 1, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_triton.Program, "launch", more)
        with pytest.raises(
            ptx.PtxError, match=r"fused_kernel, seed \d+: block \(4, 0, 0\), .*reads \d+ bytes, -?\d+ bytes"
        ):
            kernelzoo.get("triton").softmax(x, variant="fused")


def test_a_barrier_that_is_missing_is_found() -> None:
    """Of a row that several warps share, in what the compiler made: each barrier in turn is taken out."""
    import compiled_triton

    x = torch.randn(3, 2000, generator=torch.Generator().manual_seed(0))
    launches: list[tuple[Any, ...]] = []
    real = compiled_triton.Program.launch

    def noted(self: Any, *arguments: Any) -> None:
        launches.append((self, *arguments))
        real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_triton.Program, "launch", noted)
        out = kernelzoo.get("triton").softmax(x, variant="fused")
    right = out.clone()
    program, programs, values, memory = launches[-1]
    text = program.compiled.asm["ptx"]
    barriers = [found.span() for found in re.finditer(r"bar\.sync\s+0;", text)]
    assert len(barriers) >= 2
    passed, metadata = compiled_triton.parameters(program.compiled, values), program.metadata

    def breaks(kernel: ptx.Kernel, seed: int) -> bool:
        out.zero_()
        threads = 32 * metadata.num_warps
        kernel.launch(programs, threads, passed, shared_bytes=metadata.shared, memory=memory, seed=seed)
        return not torch.equal(out, right)

    for start, end in barriers:
        kernel = ptx.load(text[:start] + text[end:])[program.name]
        assert any(breaks(kernel, seed) for seed in range(64)), text[start - 300 : end]
    assert not any(breaks(ptx.load(text)[program.name], seed) for seed in range(8))
