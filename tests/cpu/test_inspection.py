"""The host's kernels inspected: source and assembly, of this processor whatever architecture is named."""

import pytest

pytest.importorskip("numba", reason="numba is not installed")

import kernelzoo
from kernelzoo import inspect
from kernelzoo.inspect import Request

pytestmark = pytest.mark.slow

IMPLEMENTATIONS = kernelzoo.implementations("cpu")
OPERATIONS = dict.fromkeys(i.op for i in IMPLEMENTATIONS)


NIGHTLY, SOME = pytest.mark.nightly, pytest.mark.sampled(20)
# A kernel whose work is shared out; at night one with a loop of its own too, and some of the others.
MARKS = {"min": (), "rms_norm_backward": NIGHTLY}


@pytest.mark.parametrize("op", [pytest.param(op, marks=MARKS.get(op, (NIGHTLY, SOME))) for op in OPERATIONS])
def test_every_cpu_implementation_is_shown(op: str) -> None:
    variants = [i.variant for i in IMPLEMENTATIONS if i.op == op]
    requests = [Request("cpu", op, variant, (64, 4096), "float32", -1, "sm_90") for variant in variants]
    for request, kernels in zip(requests, inspect.ask(requests), strict=True):
        assert not isinstance(kernels, kernelzoo.KernelZooError), kernels
        assert kernels[0].constants["n"] == 4096
        for kernel in kernels:
            assert kernel.arch != "sm_90" and kernel.language == "Numba"
            # The kernel shares out the work, and what does it is a function that it calls.
            assert kernel.source is not None and f"def {kernel.name}(" in kernel.source
            assert ("def _shared_out(" in kernel.source) != (f"def {kernel.name}_task(" in kernel.source)
            assert kernel.source_file is not None and f"cpu/{op}/" in kernel.source_file
            assert kernel.sass is not None and kernel.name in kernel.sass and "ret" in kernel.sass
            assert kernel.ptx is kernel.registers is kernel.occupancy is kernel.grid is None
            if request.variant == "auto":
                assert kernel.implementation in {i.id for i in IMPLEMENTATIONS if i.variant != "auto"}
            else:
                assert kernel.implementation == request.id
