"""What stands in for a device that is described and not there, while a user's own launch is followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

from kernelzoo.device import ARCHITECTURES, Device


def allowed_from(least: tuple[int, int], arch: str, words: str) -> str:
    """The words and what is allowed, for an architecture that is not NVIDIA's of that compute capability at the least;
    "" for one that is."""
    allowed = [name for name, device in ARCHITECTURES.items() if device.capability >= 10 * least[0] + least[1]]
    return "" if arch in allowed else f"{words}; allowed: {', '.join(allowed)}"


def target(device: Device) -> AbstractContextManager[object]:
    """Within the context, kernels are compiled for that device: they ask what is assumed by themselves."""
    return nullcontext()


class Idle:
    """A stream, an event, a device, or the class of one: whatever it is asked to do, it does nothing."""

    cuda_stream = ptr = 0

    def __init__(self, *args: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __call__(self, *args: Any, **named: Any) -> Idle:
        return self

    def __getattr__(self, name: str) -> Idle:
        return self


IDLE = Idle()

_NONE = object()


@contextmanager
def replaced(owner: Any, **by: Any) -> Iterator[None]:
    """Within the context, these attributes of a module or a class are others."""
    before = {name: vars(owner).get(name, _NONE) for name in by}
    for name, value in by.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _NONE:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
