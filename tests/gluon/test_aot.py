"""Gluon's kernels, compiled without a device for each architecture at the tilings that the bind functions choose."""

from typing import Any

import pytest
import torch
import triton
from ahead import ARCHITECTURES as NAMES
from ahead import FLOATS, SOFTMAX, forms, occurrences
from compiling import OfTriton, compiled, resident

from kernelzoo import registry
from kernelzoo.device import ARCHITECTURES, plan_launches_for_device
from kernelzoo.errors import UnsupportedProblemError

if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)


programs = compiled("gluon")


class TestGluon(OfTriton):
    backend, programs = "gluon", staticmethod(programs)
    forms = forms("gluon")
    vectors = (
        *(((4096, 4096), 1, None), ((1000, 5003), 1, torch.bfloat16), ((9973, 67), 1, torch.float32)),
        *(((9973, 64), 1, torch.bfloat16), ((512, 4096), 0, torch.bfloat16)),
    )
    first_statement, least_kernels = "dev.await_last_launch()", 13

    @staticmethod
    def leaves_out(form: str, shape: tuple[int, ...], axis: int) -> bool:
        return axis == 0 and form in ("online", "rows", "persistent", "split_grid")  # which have no layout for columns


@pytest.mark.parametrize("arch", NAMES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_programs_that_wait_for_each_other_all_run_at_once(arch: str, dtype: Any) -> None:
    for shape in ((777, 50257), (1, 1 << 28)):
        (program,) = programs(SOFTMAX, "split_grid", shape, 1, dtype, arch)
        assert program.metadata.launch_cooperative_grid
        words = 2 if dtype == torch.float64 else 1  # of 64 bits, to a pair
        assert occurrences(r"atom\.global\.gpu\.relaxed\.exch\.b64", program) == words
        assert occurrences(r"ld\.relaxed\.gpu\.global\.b64", program) == words
        assert 1 < program.step.grid[0] <= resident(program, ARCHITECTURES[arch])


@pytest.mark.parametrize("arch", NAMES)
def test_persistent_has_rows_under_way_in_shared_memory(arch: str) -> None:
    for columns in (1024, 12672):
        (program,) = programs(SOFTMAX, "persistent", (4096, columns), 1, torch.float32, arch)
        groups = occurrences(r"cp\.async\.commit_group", program)
        assert occurrences(rf"cp\.async\.wait_group\s+{groups - 1}\b", program)
        assert groups * columns * 4 <= program.metadata.shared <= ARCHITECTURES[arch].shared_per_block


def test_rows_that_are_no_whole_vectors_are_refused_by_persistent() -> None:
    for shape, axis in (((512, 1001), 1), ((512, 1000), 0)):
        with pytest.raises(UnsupportedProblemError, match="16 bytes"):
            programs(SOFTMAX, "persistent", shape, axis, torch.float32, "sm_90")


def test_no_form_has_a_launch_for_no_device_at_all() -> None:
    """A described device is what binds ask, in a thread's own context."""
    with plan_launches_for_device(ARCHITECTURES["sm_90"]):
        x = torch.empty(4, 64, 1, device="meta")
        assert registry.choose_variant("gluon", "softmax", "auto", x, x) == "fused"
