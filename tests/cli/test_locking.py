"""``--lock-clocks``, over a stand-in for NVML."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kernelzoo.cli import locking
from kernelzoo.cli.options import OptionError

TWO = [{"uuid": "GPU-a"}, {"uuid": "GPU-b"}]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """NVML as far as it is used. ``calls``: what was locked and freed; ``refused``: the GPU that can't be."""

    def lock(handle: str, *between: int) -> None:
        if handle == made.refused:
            raise made.NVMLError("Insufficient Permissions")
        assert between == (0xFFFFFF01, 0xFFFFFF01)
        made.calls.append(f"lock {handle}")

    made = SimpleNamespace(calls=[], refused="", NVMLError=type("NVMLError", (Exception,), {}), nvmlInit=lambda: None)
    made.nvmlDeviceGetHandleByUUID, made.nvmlDeviceSetGpuLockedClocks = str, lock
    made.nvmlDeviceResetGpuLockedClocks = lambda handle: made.calls.append(f"free {handle}")
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


@pytest.mark.parametrize("ending", [None, ValueError, KeyboardInterrupt])
def test_clocks_are_free_at_the_end_whatever_ends_it(nvml, ending) -> None:
    with pytest.raises(ending) if ending else nullcontext(), locking.locked(TWO):
        assert nvml.calls == ["lock GPU-a", "lock GPU-b"]
        if ending:
            raise ending
    assert nvml.calls[2:] == ["free GPU-a", "free GPU-b"]
    nvml.calls, nvml.refused = [], "GPU-b"  # the refusal says why, and frees the others alone
    with pytest.raises(OptionError, match="GPU-b: Insufficient Permissions"), locking.locked(TWO):
        pass
    assert nvml.calls == ["lock GPU-a", "free GPU-a"]


@pytest.mark.parametrize("command", ["bench", "compare torch/min/eager"])
def test_the_commands_lock_and_free(nvml, command, kernelzoo, answer, stub, small) -> None:
    named = *command.split(), "--op", "min", *small, "--lock-clocks"
    assert kernelzoo(*named, "-o", "a.json", CUDA_VISIBLE_DEVICES="GPU-a").returncode == 0
    assert nvml.calls == ["lock GPU-a", "free GPU-a"]
    status, told = answer(*named, "-o", "b.json", CUDA_VISIBLE_DEVICES="")
    assert status == 2 and told["error"].endswith("it is for the GPUs of this machine") and len(nvml.calls) == 2
