"""Checks that a tensor's memory exists, since a kernel gets only an address.

torch frees, shrinks and moves storages under their tensors, for example FSDP by ``untyped_storage().resize_(0)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING

from kernelzoo.errors import InputTypeError, KernelZooError, OutputError

if TYPE_CHECKING:
    import torch


def span(x: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last; 0 if it is empty."""
    shape, strides = x.shape, x.stride()
    return (1 + sum(map(mul, shape, strides)) - sum(strides)) * x.element_size() if 0 not in shape else 0


def held(x: torch.Tensor, size: int) -> bool:
    """Whether a tensor's storage has the bytes that it spans."""
    address, storage = x.data_ptr(), x.untyped_storage()
    return address != 0 and address + size <= storage.data_ptr() + len(storage)


def lacking(x: torch.Tensor, size: int) -> str:
    """What is wrong with a tensor's storage, and the remedy; "" if it has the bytes that the tensor spans."""
    if not size or held(x, size):
        return ""
    return _words(len(x.untyped_storage()), int(x.storage_offset()) * x.element_size() + size)


def _words(there: int, end: int) -> str:
    return (
        f"has no memory for its elements: they end at byte {end} of a storage of {there} bytes, which was freed or "
        "shrunk; resize the storage first, or pass a tensor that has its memory"
    )


class Bound:
    """The memory of bound tensors, inputs first. A launch follows it wherever torch moves it."""

    __slots__ = ("ends", "offsets", "storages")

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.storages = [x.untyped_storage() for x in tensors]
        self.offsets = [int(x.storage_offset()) * x.element_size() for x in tensors]
        """Where each tensor begins in its storage, in bytes."""
        self.ends = [offset + span(x) for x, offset in zip(tensors, self.offsets, strict=True)]
        """Where each tensor ends in its storage, in bytes."""

    def check(self, outputs: int) -> None:
        """Raise InputTypeError or OutputError where memory is gone. ``outputs``: how many of the last tensors are
        outputs."""
        for i, storage in enumerate(self.storages):
            if len(storage) < self.ends[i]:
                raise self.lost(outputs)

    def addresses(self, outputs: int) -> list[int]:
        """The addresses of the tensors. Raises as ``check`` does."""
        self.check(outputs)
        return [storage.data_ptr() + self.offsets[i] for i, storage in enumerate(self.storages)]

    def lost(self, outputs: int) -> KernelZooError:
        """The error that names the tensor without memory."""
        inputs = len(self.ends) - outputs
        there = list(map(len, self.storages))
        place = next(i for i, end in enumerate(self.ends) if there[i] < end)
        words = _words(there[place], self.ends[place])
        if place < inputs:
            return InputTypeError(f"input {place} of {inputs} that a launch is bound to {words}")
        return OutputError(f"output {place - inputs} of {outputs} that a launch is bound to {words}")
