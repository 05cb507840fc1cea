"""A rank's own computation: launches of a backend's kernels, cached for repeated calls.

A pass is an operation before or after an exchange. Only Triton and torch have kernels for passes. For other backends,
:func:`implementation_of` selects one of these two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from kernelzoo import registry, tables
from kernelzoo.calls import backend as backends
from kernelzoo.device import on_device_of
from kernelzoo.launch import RebindableLaunch

T = TypeVar("T")

KEPT = 256
"""The most cached plans. Each has a few numbers per row."""

_kept: dict[tuple[object, ...], Any] = {}


def is_capturing(x: torch.Tensor) -> bool:
    """Whether work on x is being captured into a CUDA graph."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def cached_by_layout(make: Callable[..., T], x: torch.Tensor, *args: Any, beside: Sequence[torch.Tensor] = ()) -> T:
    """Return ``make(x, *args)``, cached by ``args``, stream, thread and the layouts of x and ``beside``.

    Nothing is cached while other launch tables are set, or during a CUDA graph's capture, which owns new memory."""
    from kernelzoo.torch_private import current_stream

    if is_capturing(x) or tables.chosen.get():
        return make(x, *args)
    stream = current_stream(x.get_device()) if x.is_cuda else 0
    looks = ((one.dtype, one.shape, one.stride(), one.device, one.data_ptr() % 16) for one in (x, *beside))
    key = (make, *looks, stream, threading.get_ident(), *args)
    found: T | None = _kept.get(key)
    if found is None:
        if len(_kept) >= KEPT:
            _kept.clear()
        found = _kept[key] = make(x, *args)
    return found


registry.on_change.append(lambda _: _kept.clear())


def implementation_of(op: str, backend: str, x: torch.Tensor) -> registry.Implementation:
    """Return the backend's implementation; without one, Triton's on a GPU, else torch's. Raises DeviceError."""
    found = registry.implementations(backend, op)
    if not found:
        found = registry.implementations(backends.best(op, x).name, op)
    return found[0] if len(found) == 1 else registry.implementation(f"{found[0].backend}/{op}/auto")


class BoundOperation:
    """One operation of a backend on tensors of one layout. The first call binds the operation; later calls launch
    on new addresses if possible. The object keeps no reference to tensors."""

    def __init__(self, backend: str, op: str, x: torch.Tensor) -> None:
        self._implementation = implementation_of(op, backend, x)
        self._at: Callable[..., None] | None = None
        self._workspace: tuple[torch.Tensor, ...] = ()

    def __call__(self, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor], dim: int) -> None:
        with on_device_of(inputs[0]):
            # Implementation.launch is not used, because its launch can't run on other addresses.
            operation = self._implementation.operation
            args = operation.arguments(tuple(inputs), dim, False, {})
            registry.language(self._implementation.backend).check_inputs(*args.inputs)
            launch = operation.make_launch(self._implementation.bind, args, tuple(outs))
            if isinstance(launch, RebindableLaunch) and len(launch.tensors) == len(inputs) + len(outs):
                self._workspace = launch.workspace
                self._at = launch.at
            launch()

    def run_on_addresses(self, *addresses: int) -> bool:
        """Run the operation on other addresses, inputs first, or return False if it is not bound. Tensors at these
        addresses must be on the current device, with the bound tensors' layout and 16-byte alignment."""
        if self._at is None:
            return False
        self._at(*addresses)
        return True
