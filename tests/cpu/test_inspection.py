"""The host's kernels inspected: source and assembly, of this processor whatever architecture is named."""

import sys

import numba
import pytest

import kernelzoo
from kernelzoo import inspect
from kernelzoo.errors import BackendUnavailableError
from kernelzoo.inspect import Request
from kernelzoo.kernels.cpu import probe

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
    for request, kernels in zip(requests, inspect.ask_child(requests), strict=True):
        assert not isinstance(kernels, kernelzoo.KernelZooError), kernels
        assert kernels[0].constants["n"] == 4096
        for kernel in kernels:
            assert kernel.arch != "sm_90" and kernel.language == "Numba"
            # The kernel shares out the work, and what does it is a function that it calls.
            assert kernel.source is not None and f"def {kernel.name}(" in kernel.source
            assert ("def _run_tasks_in_parallel(" in kernel.source) != (f"def {kernel.name}_task(" in kernel.source)
            assert kernel.source_file is not None and f"cpu/{op}/" in kernel.source_file
            assert kernel.sass is not None and kernel.name in kernel.sass and "ret" in kernel.sass
            assert kernel.ptx is kernel.registers is kernel.occupancy is kernel.grid is None
            if request.variant == "auto":
                assert kernel.implementation in {i.id for i in IMPLEMENTATIONS if i.variant != "auto"}
            else:
                assert kernel.implementation == request.id


# The probe asks what Numba's first parallel loop will: whether there is a layer to start threads with


@pytest.mark.parametrize(
    ("setting", "value", "absent", "says"),
    [
        ("THREADING_LAYER", "tbb", ("tbbpool",), "tbb can't be loaded; pip install tbb, or unset it"),
        ("THREADING_LAYER", "TBB", ("tbbpool",), "NUMBA_THREADING_LAYER is 'tbb'"),
        ("THREADING_LAYER", "safe", ("tbbpool",), "tbb can't be loaded"),
        ("THREADING_LAYER", "omp", ("omppool",), "omp can't be loaded; unset it"),
        ("THREADING_LAYER", "threadsafe", ("tbbpool", "omppool"), "tbb or omp can't be loaded"),
        ("THREADING_LAYER", "threads", (), "unset it, or set it to one of default, tbb"),
        ("THREADING_LAYER_PRIORITY", ["omp", "tbb"], (), "PRIORITY is 'omp tbb'; unset it"),
        ("THREADING_LAYER", "default", ("tbbpool", "omppool"), ""),
        ("THREADING_LAYER", "forksafe", ("tbbpool", "omppool"), ""),
        ("THREADING_LAYER", "workqueue", (), ""),
    ],
)
def test_a_threading_layer_that_is_not_there_is_refused(monkeypatch, setting, value, absent, says) -> None:
    monkeypatch.setattr(numba.config, setting, value)
    for module in absent:
        monkeypatch.setitem(sys.modules, f"numba.np.ufunc.{module}", None)
    if not says:
        assert probe() == ("cpu",)
        return
    with pytest.raises(BackendUnavailableError, match=says) as caught:
        probe()
    assert caught.value.remedy


def test_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.np.ufunc import parallel

    monkeypatch.setattr(parallel, "_launch_threads", lambda: pytest.fail("threads were started"))
    for layer in ("default", "omp", "workqueue"):
        monkeypatch.setattr(numba.config, "THREADING_LAYER", layer)
        assert probe() == ("cpu",)
