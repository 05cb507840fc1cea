"""Stand-ins for torch's GPU tensors and streams, so that a user's launch can be followed without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelzoo import torch_private
from kernelzoo.device import KIB, Device
from kernelzoo.kernels.shared.absent import NoOpStub, with_stubs


class FakeGpuTensor(torch.Tensor):
    """A tensor without memory that claims to be on a GPU. Torch's own code sees it on the device ``meta``."""

    __torch_function__ = torch.nn.Parameter.__torch_function__  # does nothing, because MetaDeviceMode does the work
    is_cuda = property(lambda self: True)
    device = property(lambda self: torch.device("meta" if MetaDeviceMode.inside else "cuda:0"))

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        """Return an invented address, far from that of any other storage."""
        start = _addresses.setdefault(self.untyped_storage()._cdata, (len(_addresses) + 1) << 40)
        return start + int(self.storage_offset()) * self.element_size()


_addresses: dict[int, int] = {}


class MetaDeviceMode(TorchFunctionMode):
    """A mode in which torch runs functions on the device ``meta`` that were called for a GPU."""

    inside = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def to_meta(value: Any) -> Any:
            on_gpu = isinstance(value, str | torch.device) and str(value).partition(":")[0] == "cuda"
            return "meta" if on_gpu else value

        if func is torch.device:
            return func(*args, **(kwargs or {}))
        MetaDeviceMode.inside += 1  # torch's own code, where it is Python, asks for the device too
        try:
            found = func(*map(to_meta, args), **{name: to_meta(value) for name, value in (kwargs or {}).items()})
        finally:
            MetaDeviceMode.inside -= 1
        return _mark_as_gpu(found)


def _mark_as_gpu(found: Any) -> Any:
    if isinstance(found, torch.Tensor):
        return found.as_subclass(FakeGpuTensor) if found.is_meta else found
    return type(found)(map(_mark_as_gpu, found)) if type(found) in (list, tuple) else found


@contextmanager
def record_user_launches(device: Device) -> Iterator[None]:
    """A context in which tensors can be on a simulated GPU, without values, and streams do nothing."""
    properties = SimpleNamespace(
        name=device.name,
        major=device.capability // 10,
        minor=device.capability % 10,
        gcnArchName="" if device.is_nvidia else device.arch,
        multi_processor_count=device.multiprocessors,
        L2_cache_size=device.l2_bytes,
        max_threads_per_multi_processor=device.threads,
        shared_memory_per_block=48 * KIB if device.is_nvidia else device.shared_per_block,
        shared_memory_per_block_optin=device.shared_per_block,
        shared_memory_per_multiprocessor=device.shared_bytes,
        regs_per_multiprocessor=device.registers_per_block,
        warp_size=device.warp_size,
    )
    # Each name has a separate class, because torch's compiler, which some functions import, stores rules by object.
    classes = {name: type(name, (NoOpStub,), {}) for name in ("Stream", "ExternalStream", "Event")}
    calls = ("current_stream", "default_stream", "stream", "device", "set_device", "synchronize", "_lazy_init")
    asked = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda index=0: properties,
        "get_device_capability": lambda index=0: (properties.major, properties.minor),
        "get_device_name": lambda index=0: properties.name,
        "is_current_stream_capturing": lambda: False,
    }
    raw = with_stubs(torch_private.bindings, _cuda_getCurrentRawStream=lambda index: 0)
    with with_stubs(torch.cuda, **classes, **asked, **{name: NoOpStub() for name in calls}), raw, MetaDeviceMode():
        yield
