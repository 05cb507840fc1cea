"""Stand-ins for a simulated GPU's objects, so that a user's launch can be recorded without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

from kernelzoo.device import ARCHITECTURES, Device


def explain_refusal_below(least: tuple[int, int], arch: str, reason: str) -> str:
    """Return "" if the architecture ``arch`` is NVIDIA's, of compute capability ``least`` or higher. Otherwise
    return the text ``reason``, followed by the architectures that are allowed."""
    allowed = [name for name, device in ARCHITECTURES.items() if device.capability >= 10 * least[0] + least[1]]
    return "" if arch in allowed else f"{reason}; allowed: {', '.join(allowed)}"


def target(device: Device) -> AbstractContextManager[object]:
    """Return a context that does nothing, because kernels ask for the simulated device themselves."""
    return nullcontext()


class NoOpStub:
    """A stand-in for a stream, an event, a device or its class. All calls and methods do nothing."""

    cuda_stream = ptr = 0

    def __init__(self, *args: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __call__(self, *args: Any, **named: Any) -> NoOpStub:
        return self

    def __getattr__(self, name: str) -> NoOpStub:
        return self


IDLE = NoOpStub()

_NONE = object()


@contextmanager
def with_stubs(owner: Any, **stubs: Any) -> Iterator[None]:
    """A context in which attributes of a module or class have the values that ``stubs`` gives by name."""
    before = {name: vars(owner).get(name, _NONE) for name in stubs}
    for name, value in stubs.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _NONE:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
