"""The kernels of operations whose rows are shared, in Numba's simulator; see test_simulator.py, which explains how to
run this."""

# ruff: noqa: E402 - what Numba is at import depends on the simulator, so that is asked first

import os

import pytest
import torch

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    pytest.skip("simulator only: run with NUMBA_ENABLE_CUDASIM=1, in a process of its own", allow_module_level=True)

pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

import simulator

simulator.install()

import kernelzoo
from kernelzoo.check.cases import cases

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of inf - inf, which is meant

OPS = (
    *("softmax_pairs", "softmax_merge", "softmax_finish"),
    *("vecdot", "softmax_backward_finish", "min_backward_counts", "min_backward_finish"),
)
FORMS = [i for op in OPS for i in kernelzoo.implementations("numba", op)]
LAYOUTS = {
    "rows": lambda x: (x[:, :64].contiguous(), -1),
    "edges": lambda x: (x[:, 1:78], -1),
    "stepped": lambda x: (x[:, ::3], -1),
    "columns": lambda x: (x[:, :70].reshape(70, 6), 0),
    "a middle axis": lambda x: (x[:, :72].reshape(4, 36, 3), 1),
    "one element": lambda x: (x[:, :1], -1),
}


def run(form: kernelzoo.Implementation, inputs: tuple[torch.Tensor, ...], dim: int) -> None:
    """Two launches right to the operation's own tolerance, and alike to the bit."""
    args = form.operation.arguments(inputs, dim)
    outs = tuple(out.fill_(7) for out in form.operation.allocate(args))
    launch = form.launch(*inputs, dim=dim, out=outs)
    launch()
    form.operation.assert_close(outs, inputs, dim)
    first = [out.clone() for out in outs]
    launch()
    assert all(torch.equal(out.view(torch.uint8), one.view(torch.uint8)) for out, one in zip(outs, first, strict=True))


@pytest.mark.sampled(2, "form", "layout")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("form", "dtype"),
    [pytest.param(form, dtype, id=f"{form.id}-{dtype}") for form in FORMS for dtype in form.operation.dtypes],
)
def test_layouts(form: kernelzoo.Implementation, dtype: str, layout: str) -> None:
    generator = torch.Generator().manual_seed(5)
    x, dim = LAYOUTS[layout](torch.randn(6, 80, generator=generator).to(getattr(torch, dtype)))
    others = form.operation.sample(tuple(x.shape), dtype, dim, generator=generator)[1:]
    if others:
        others = form.operation.completed((x, *others), dim, generator=generator)[1:]
    run(form, (x, *others), dim)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)
def test_special_values(form: kernelzoo.Implementation) -> None:
    taken = 0
    for case in cases(form.op):
        if case.elements <= 1000 and case.name.startswith("float32") and "special" in case.name:
            run(form, case.inputs("cpu"), case.dim)
            taken += 1
    assert taken
