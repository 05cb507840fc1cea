"""Kernels as Numba's compiler has made them for sm_90, run on the host against the contract."""

import os

import pytest

if os.environ.get("KERNELZOO_EMULATE_PTX") != "numba":
    pytest.skip("emulator only: run with KERNELZOO_EMULATE_PTX=numba", allow_module_level=True)

import host_compiler
import torch

import kernelzoo
from kernelzoo.kernels.numba import lanes
from kernelzoo.testing import Case, cases, check

if not host_compiler.compiler():
    pytest.skip("needs a C++ compiler", allow_module_level=True)

CHOSEN = {
    **{i.id: ("special-values-300", "dim0") for i in kernelzoo.implementations("numba") if i.variant == "rows"},
    **{i.id: ("special-values-300", "2x4097") for i in kernelzoo.implementations("numba") if i.variant == "split"},
    "numba/softmax/fused": ("3x17", "37x129", "2x4097", "special-values-300", "rows-stepped"),
    "numba/min/rows": ("3x17", "37x129", "special-values-300"),
    "numba/softmax/split_grid": ("2x4097",),
}


@pytest.mark.parametrize(
    ("id", "case"),
    [
        pytest.param(id, case, id=f"{id}-{case}")
        for id, names in CHOSEN.items()
        for case in cases(id.split("/")[1])
        if str(case) in [f"{dtype}-{name}" for dtype in ("float32", "bfloat16") for name in names]
    ],
)
def test_compiled_kernels_keep_the_contract(id: str, case: Case) -> None:
    check(kernelzoo.implementation(id), case, "cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_row_that_a_cluster_has_is_right(dtype: torch.dtype) -> None:
    """Its blocks reach each other's shared memory."""
    x = torch.randn(2, 20000, generator=torch.Generator().manual_seed(0)).to(dtype)
    backend = kernelzoo.get("numba")
    made = backend.softmax(x, variant="split_cluster")
    kernelzoo.operations.OPERATIONS["softmax"].assert_close((made,), (x,))


SPLIT = ("sum", "argmin", "logsumexp", "cross_entropy", "cumsum")
LONG = {"vectors": ((3, 20480), -1), "ragged": ((2, 18433), -1), "across": ((17003, 3), 0)}


@pytest.mark.parametrize(("shape", "dim"), LONG.values(), ids=LONG)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", SPLIT)
def test_a_long_row_that_blocks_share_is_right(op: str, dtype: str, shape: tuple[int, ...], dim: int) -> None:
    """Each block has its part of it; ``auto`` takes the same form, to the bit."""
    operation = kernelzoo.operations.OPERATIONS[op]
    inputs = operation.sample(shape, dtype, dim, generator=torch.Generator().manual_seed(0))
    call = getattr(kernelzoo.get("numba"), op)
    found = call(*inputs, dim=dim, variant="split")
    operation.assert_close((found,), inputs, dim)
    assert torch.equal(call(*inputs, dim=dim), found)


NORMS = ("rms_norm", "layer_norm", "add_rms_norm", "quantize_rows")
GRADIENTS = ("rms_norm_backward", "layer_norm_backward")


@pytest.mark.parametrize(
    ("op", "rows", "n", "enough"),
    [
        *((op, 2, n, lanes.ENOUGH_LANES) for op in (*NORMS, *GRADIENTS) for n in (64, 20480)),  # held, and read again
        *((op, 5, n, 1) for op in ("cumsum", *NORMS) for n in (4096, 12000)),  # fewer lanes fill a device
    ],
)
def test_rows_are_right(op: str, rows: int, n: int, enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "ENOUGH_LANES", enough)
    operation = kernelzoo.operations.OPERATIONS[op]
    inputs = operation.sample((rows, n), "bfloat16", -1, generator=torch.Generator().manual_seed(0))
    found = getattr(kernelzoo.get("numba"), op)(*inputs)
    operation.assert_close(found if isinstance(found, tuple) else (found,), inputs)
