"""The record of one call, for the code that dispatches, binds or caches it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from kernelzoo.operations import Dims, Operation
from kernelzoo.registry import BATCH_INVARIANT

Tensors: TypeAlias = "tuple[Any, ...]"
"""Tensors, or the arrays that a caller passes in their place."""


class Call(NamedTuple):
    """A call's backend, operation and arguments, without its tensors."""

    backend: Any
    """A :class:`kernelzoo.Backend`."""
    op: Operation
    dim: Dims
    keepdim: bool
    scalars: Mapping[str, Any]
    variant: str

    def __call__(self, *inputs: Any, out: Any = None, dispatched: bool = False) -> Any:
        """Make the call as a user does; returns a tensor or a tuple. ``dispatched``: whether torch did so."""
        return self.backend._run(self.op, inputs, self.dim, self.keepdim, self.scalars, self.variant, out, dispatched)

    def gradient_variant(self, rule: Operation | None) -> str:
        """Return the variant that runs the gradient's operation ``rule``: ``auto``, batch-invariant if this call is.
        If ``rule`` is None or sums over rows, the variant is plain ``auto``."""
        invariant = rule is not None and rule.separable and self.variant.endswith(BATCH_INVARIANT)
        return "auto" + BATCH_INVARIANT * invariant
