"""CuTe's kernels as compiled to PTX, emulated on the host, with special values in the rows."""

from typing import Any

import pytest
import torch
from ahead import forms, name
from compiled_cute import Machine
from emulated import Emulated, inputs_of

import kernelzoo.kernels.cute as backend
from kernelzoo import operations
from kernelzoo.kernels.cute import compiler, tiles

if backend.stand_in is not None:
    pytest.skip("something else takes a device's place in this process", allow_module_level=True)
if why := compiler.missing_requirement():
    pytest.skip(why, allow_module_level=True)

FORMS = forms("cute")
TURNED = ("fused", "rows_deferred", "split")
"""Forms whose threads are laid out along columns where rows lie across memory."""
AXES = [(op, form, axis) for op, form in FORMS for axis in (1, 0) if axis == 1 or form in TURNED]
IN_BLOCKS = [one for one in AXES if one[1] not in ("fused", "split_cluster")]


class TestCute(Emulated):
    backend, machine, language = backend, Machine, "cute"
    forms = FORMS

    @pytest.mark.parametrize(("op", "form", "axis"), IN_BLOCKS, ids=name)
    def test_rows_of_several_blocks(self, op: operations.Operation, form: str, axis: int) -> None:
        """Parts of which the last has fewer blocks, and sums of which many are equal."""
        shape = (1408, 160) if axis == 0 else (10, 10240 if op.name == "softmax_backward" else 20480)
        x = torch.randint(0, 500, shape, generator=torch.Generator().manual_seed(3)) / 50
        x.select(axis, 700).fill_(-1)  # what another warp than the one that writes has, in the first block
        self.right(op, form, axis, inputs_of(op, x, axis), rtol=1e-5, atol=1e-6, times=4)

    def test_what_lies_past_a_row_is_no_minimum(self) -> None:
        """Whose gradient would be shared with it, were it counted."""
        x = torch.ones(5, 37)
        x[:, 3] = x[:, 36] = 0
        for form in ("fused", "online", "split_two_launches"):
            launch, out = self.bound(operations.OPERATIONS["min_backward"], form, 1, (x, x.amin(1), torch.ones(5)))
            launch()
            assert torch.equal(out, (1 - x) / 2)

    @pytest.mark.parametrize(("op", "form", "axis"), AXES, ids=name)
    def test_numbers_of_64_bits(self, op: Any, form: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """The kernels of rows, and of numbers of rows, past 2^30: here every problem is taken for such a one."""
        monkeypatch.setattr(tiles, "FAR", 2)
        shape = (100, 36) if axis == 0 else (7, 2060 if "cluster" in form or "split" in form else 100)
        x = torch.randn((2, *shape), generator=torch.Generator().manual_seed(4)).half()[:, :, ::2]
        given = x.repeat(1, 1, 2) if form == "split_cluster" else x
        self.right(op, form, axis + 1, inputs_of(op, given, axis + 1), rtol=2e-3, atol=1e-4, times=1)
        assert tiles.long_row_tile(tiles.make_problem(x, x)).far

    @pytest.mark.sampled(2, "op", "form", "short")
    @pytest.mark.parametrize(
        ("op", "form", "short"), [(*f, False) for f in FORMS] + [(*f, True) for f in FORMS if f[1] == "fused"], ids=name
    )
    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
    def test_rows_that_start_anywhere(self, op: operations.Operation, form: str, short: bool, dtype: Any) -> None:
        """Vectors over the ends of rows: of neighbours' elements none is taken in, and none is written."""
        # Of a long row, one block by its length and two by where it starts.
        count, n = (19, 141) if short else (8, 16384 // dtype.itemsize - 1)
        x = torch.randint(1, 9, (count, n), generator=torch.Generator().manual_seed(5)).to(dtype)
        x[::3] -= 8.5
        x[::5, 0] = x[::5, -1] = -float("inf")  # neither is a neighbour's
        x[7, 3] = float("nan")
        assert tiles.make_problem(x.unsqueeze(2), x.unsqueeze(2)).has_partial_vectors
        inputs = inputs_of(op, x, 1, x.nan_to_num(0, 0, 0))
        rtol, atol = (2e-3, 1e-4) if dtype == torch.float16 else (1e-5, 1e-6)
        self.right(op, form, 1, inputs, rtol, atol, times=1)
