"""``--lock-clocks``: GPUs at one clock while they are measured."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from kernelzoo.cli.options import OptionError, flag
from kernelzoo.cli.output import console
from kernelzoo.interrupts import uninterrupted

LockClocks = Annotated[
    bool, flag("--lock-clocks", "Hold the GPU at its base clock, if you may; none is locked afterwards.")
]

_BASE = 0xFFFFFF01  # NVML_CLOCK_LIMIT_ID_TDP: what the card holds within its power


@contextmanager
def locked(gpus: Sequence[Mapping[str, Any] | None]) -> Iterator[None]:
    """A context in which these GPUs run at their base clock. Whatever ends it, their clocks are free then.

    SIGKILL alone leaves them locked, until ``nvidia-smi -rgc``. ``gpus``: as in
    :attr:`kernelzoo.measure.worker_process.About.gpu`. Raises OptionError if one can't be locked; then none is.
    """
    if not gpus:
        yield
        return
    try:
        import pynvml as nvml
    except ImportError:
        raise _refusal("the package nvidia-ml-py is not installed; pip install nvidia-ml-py") from None
    held = dict[str, Any]()
    try:
        for gpu in gpus:
            if gpu is None or gpu.get("host"):
                raise _refusal("it is for the GPUs of this machine")
            _lock(nvml, gpu["uuid"], held)
        yield
    finally:
        with uninterrupted():
            for uuid, handle in held.items():
                try:
                    nvml.nvmlDeviceResetGpuLockedClocks(handle)
                except nvml.NVMLError as error:
                    console(errors=True).print(f"{uuid} keeps its locked clock: {error}; nvidia-smi -rgc frees it")


def _lock(nvml: Any, uuid: str, held: dict[str, Any]) -> None:
    try:
        nvml.nvmlInit()
        held[uuid] = nvml.nvmlDeviceGetHandleByUUID(uuid)  # before the call: Ctrl-C may come at its end
        nvml.nvmlDeviceSetGpuLockedClocks(held[uuid], _BASE, _BASE)
    except nvml.NVMLError as error:
        held.pop(uuid, None)
        raise _refusal(f"NVML does not lock the clock of {uuid}: {error}") from error


def _refusal(why: str) -> OptionError:
    return OptionError(f"--lock-clocks is not available here: {why}")
