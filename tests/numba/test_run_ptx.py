"""Kernels as Numba's compiler has made them for sm_90, run on the host against the contract."""

import os

import pytest

if os.environ.get("KERNELZOO_EMULATE_PTX") != "numba":
    pytest.skip("emulator only: run with KERNELZOO_EMULATE_PTX=numba", allow_module_level=True)

import host_compiler
import torch

import kernelzoo
from kernelzoo.testing import Case, cases, check

if not host_compiler.compiler():
    pytest.skip("needs a C++ compiler", allow_module_level=True)

CHOSEN = {
    **{i.id: ("special-values-300", "dim0") for i in kernelzoo.implementations("numba") if i.variant == "rows"},
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
    """Its blocks reach each other's shared memory, which the simulator has nothing for."""
    x = torch.randn(2, 20000, generator=torch.Generator().manual_seed(0)).to(dtype)
    backend = kernelzoo.get("numba")
    made = backend.softmax(x, variant="split_cluster")
    kernelzoo.operations.OPERATIONS["softmax"].assert_close((made,), (x,))
