"""What a rank computes itself: launches of a backend's kernels, kept for a repeated call.

A pass is an operation that a rank runs before or after an exchange. Triton and torch alone have kernels of passes; for
other backends :func:`implementation_of` takes theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kernelzoo import registry, tables
from kernelzoo.calls import backend as backends
from kernelzoo.device import on_device_of
from kernelzoo.launch import Movable, WithWorkspace

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

KEPT = 256
"""Plans kept at most, with a few numbers a row each."""

_kept: dict[tuple[object, ...], Any] = {}


def capturing(x: torch.Tensor) -> bool:
    """Whether what runs on x now goes into a CUDA graph."""
    import torch

    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def kept(make: Callable[..., T], x: torch.Tensor, *rest: Any, beside: Sequence[torch.Tensor] = ()) -> T:
    """``make(x, *rest)``, kept for tensors that look the same, those beside x too, on the same stream and thread.

    In a CUDA graph's capture nothing is kept, since its memory must be the graph's own; nor under a launch table on
    trial.
    """
    from kernelzoo.torch_private import current_stream

    if capturing(x) or tables.chosen.get():
        return make(x, *rest)
    stream = current_stream(x.get_device()) if x.is_cuda else 0
    looks = ((one.dtype, one.shape, one.stride(), one.device, one.data_ptr() % 16) for one in (x, *beside))
    key = (make, *looks, stream, threading.get_ident(), *rest)
    found: T | None = _kept.get(key)
    if found is None:
        if len(_kept) >= KEPT:
            _kept.clear()
        found = _kept[key] = make(x, *rest)
    return found


def _forget(_: str) -> None:
    _kept.clear()


registry.on_change.append(_forget)


def implementation_of(op: str, backend: str, x: torch.Tensor) -> registry.Implementation:
    """What runs an operation on a rank's own tensors, which are on x's device: the backend's own, if it has one; else
    that of the best backend that has: Triton on a GPU, torch elsewhere. Raises DeviceError if none has."""
    found = registry.implementations(backend, op)
    if not found:
        found = registry.implementations(backends.best(op, x).name, op)
    return found[0] if len(found) == 1 else registry.implementation(f"{found[0].backend}/{op}/auto")


class Step:
    """One operation for a backend on tensors of one layout and x's device: bound when it is called, and moved to other
    addresses after that, where its launch can be. Of the tensors that it was bound to it keeps none."""

    def __init__(self, backend: str, op: str, x: torch.Tensor) -> None:
        self._implementation = implementation_of(op, backend, x)
        self._at: Callable[..., None] | None = None
        self._workspace: tuple[torch.Tensor, ...] = ()

    def __call__(self, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor], dim: int) -> None:
        """Bind it, and run it."""
        with on_device_of(inputs[0]):
            # Not Implementation.launch, whose launch brings its device along, and can't be moved then.
            operation = self._implementation.operation
            args = operation.arguments(tuple(inputs), dim, False, {})
            registry.language(self._implementation.backend).check(*args.inputs)
            launch = operation.launch(self._implementation.bind, args, tuple(outs))
            if isinstance(launch, Movable) and len(launch.tensors) == len(inputs) + len(outs):
                self._workspace = launch.workspace if isinstance(launch, WithWorkspace) else ()
                self._at = launch.at
            launch()

    def moved(self, *addresses: int) -> bool:
        """Run it on other tensors, inputs first, and say whether it could: once it is bound. Their device is current,
        and they lie as the first ones did, 16-byte alignment included."""
        if self._at is None:
            return False
        self._at(*addresses)
        return True
