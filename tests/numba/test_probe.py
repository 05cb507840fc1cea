"""The probe asks what a first compilation will: libNVVM, libdevice, and NVRTC, which says what Numba compiles for."""

import pytest
import torch

nvvm = pytest.importorskip("numba.cuda.cudadrv.nvvm", reason="numba-cuda is not installed")

from numba import cuda  # noqa: E402
from numba.cuda.cudadrv import nvrtc  # noqa: E402

from kernelzoo.errors import BackendUnavailableError  # noqa: E402
from kernelzoo.kernels.numba import probe  # noqa: E402


def one_device(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    for name, value in (("is_available", True), ("device_count", 1), ("get_device_capability", capability)):
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.version, "cuda", "13.0")


@pytest.mark.parametrize(
    ("module", "name", "says"),
    [(nvvm, "NVVM", "libNVVM"), (nvvm, "LibDevice", "libdevice"), (nvrtc, "get_lowest_supported_cc", "NVRTC")],
)
def test_a_part_of_the_compiler_that_is_missing_is_named(monkeypatch, module, name, says) -> None:
    one_device(monkeypatch, (9, 0))

    def missing() -> None:
        raise RuntimeError("there is no such file")

    monkeypatch.setattr(module, name, missing)
    with pytest.raises(BackendUnavailableError, match=rf"{says}.* can't be loaded: there is no such file; install it"):
        probe()


def test_a_device_below_8_0_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    one_device(monkeypatch, (7, 5))
    with pytest.raises(BackendUnavailableError, match=r"need compute capability 8\.0, and a device here has 7\.5"):
        probe()


def test_the_simulator_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.config, "ENABLE_CUDASIM", True)
    with pytest.raises(BackendUnavailableError, match=r"NUMBA_ENABLE_CUDASIM is set, .* no warp shuffles; unset it"):
        probe()
