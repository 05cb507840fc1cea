"""The probe asks what Numba's first parallel loop will: whether there is a layer to start threads with."""

import sys

import numba
import pytest

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.cpu import probe


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
