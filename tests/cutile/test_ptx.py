"""cuTile's kernels as compiled to PTX, emulated on the host, with special values in the rows."""

from typing import Any

import pytest
import torch
from ahead import forms
from compiled_cutile import Machine
from emulated import FLOATS, Emulated, special

import kernelzoo.kernels.cutile as backend
from kernelzoo import operations
from kernelzoo.kernels.cutile import compiler

if backend.stand_in is not None:
    pytest.skip("something else takes a device's place in this process", allow_module_level=True)
if why := compiler.why_cannot_compile():
    pytest.skip(why, allow_module_level=True)

MIN, SOFTMAX = operations.OPERATIONS["min"], operations.OPERATIONS["softmax"]


class TestCutile(Emulated):
    backend, machine, language = backend, Machine, "cutile"
    forms = forms("cutile")
    shapes = (*Emulated.shapes, ((5, 2501), 1))

    @pytest.mark.sampled(3, "a_form")
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8], ids=str)
    @pytest.mark.parametrize("a_form", ["rows", "rows_deferred", "split"])
    def test_minima_of_rows_that_start_anywhere(self, a_form: str, dtype: Any) -> None:
        """Several blocks of vectors and the ends of a row: the least is each element once, and a NaN too."""
        n = 2 * 8192 + 29
        places = (0, 1, 15, 16, 17, 8191, 8192, 16384, n - 17, n - 16, n - 2, n - 1)
        x = torch.full((len(places), n), 100, dtype=dtype)
        for row, place in enumerate(places):
            x[row, place] = row + 1
        if dtype.is_floating_point:
            x[5, 7] = float("nan")
        self.right(MIN, a_form, 1, (x,), rtol=0, atol=0)

    @pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
    @pytest.mark.parametrize("n", [8192, 17000, 17003], ids=str)
    def test_a_program_goes_through_a_row(self, n: int, dtype: Any) -> None:
        """With whole blocks alone and with others; NaN and infinities are any block's, and ends weigh."""
        x = special((5, n), 1, dtype)
        x[:, [0, -1]] += 7
        x[4, 0] = 100  # whose exponential is too large for float32, less another maximum
        self.right(SOFTMAX, "online", 1, (x,), rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-9)
