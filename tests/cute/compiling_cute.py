"""What a bind of CuTe compiles for a device that is described. Memory is never touched."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from kernelzoo import operations, registry
from kernelzoo.device import ARCHITECTURES, assumed
from kernelzoo.launch import Compiled, Step, recorded


class Program(NamedTuple):
    """One step of a launch, compiled."""

    compiled: Compiled
    step: Step

    @property
    def ptx(self) -> str:
        assert self.compiled.ptx is not None
        return self.compiled.ptx

    def __str__(self) -> str:
        made = self.compiled
        return f"{made.name}{made.constants}: {made.local_bytes} bytes spilled, {made.registers} registers"


def bind(op: operations.Operation, variant: str) -> Any:
    registry.import_kernels("cute", "kernelzoo.kernels.cute")
    return registry._registered["cute", op.name, variant]


def bound(op: operations.Operation, form: str, x: torch.Tensor, axis: int, arch: str) -> list[Program]:
    """The programs of what a form launches for x, in order; other inputs are contiguous."""
    with assumed(ARCHITECTURES[arch]), recorded(compiles=True) as steps:
        found = op.meta(tuple(x.shape), str(x.dtype).removeprefix("torch."), axis, {})
        others = [torch.empty_like(other, device=x.device) for other in found.inputs[1:]]
        args = operations.Arguments((x, *others), (axis % x.ndim,))
        op.launch(bind(op, form), args, op.allocate(args))()
        return [Program(step.build(), step) for step in steps]


def programs(
    op: operations.Operation, form: str, shape: tuple[int, ...], axis: int, dtype: Any, arch: str
) -> list[Program]:
    """The same for contiguous inputs."""
    return bound(op, form, torch.empty(shape, dtype=dtype, device="meta"), axis, arch)
