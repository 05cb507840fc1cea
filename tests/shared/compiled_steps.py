"""What the binds of a backend compile for a device that is described, step by step. Memory is never touched."""

from typing import Any, NamedTuple

import torch

from kernelzoo import operations, registry
from kernelzoo.device import ARCHITECTURES, plan_launches_for_device
from kernelzoo.launch import Compiled, LaunchStep, record_binds


class Program(NamedTuple):
    """One step of a launch, compiled."""

    compiled: Compiled
    step: LaunchStep

    @property
    def ptx(self) -> str:
        assert self.compiled.ptx is not None
        return self.compiled.ptx

    @property
    def spilled(self) -> int:
        return self.compiled.local_bytes or 0

    def __str__(self) -> str:
        made = self.compiled
        return f"{made.name}{made.constants}: {made.local_bytes} bytes spilled, {made.registers} registers"


class Binds:
    """The forms of one backend."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def bind(self, op: operations.Operation, form: str) -> Any:
        registry.import_kernels(self.backend, f"kernelzoo.kernels.{self.backend}")
        return registry._registered[self.backend, op.name, form]

    def bound(self, op: operations.Operation, form: Any, x: torch.Tensor, axis: int, arch: str) -> list[Program]:
        """The programs of what a form, a name or a bind, launches for x, in order; other inputs are contiguous."""
        with plan_launches_for_device(ARCHITECTURES[arch]), record_binds(can_compile=True) as steps:
            found = op.meta_arguments(tuple(x.shape), str(x.dtype).removeprefix("torch."), axis, {})
            others = [torch.empty_like(other, device=x.device) for other in found.inputs[1:]]
            args = operations.Arguments((x, *others), (axis % x.ndim,), False, op.scalars_of(()))
            op.make_launch(self.bind(op, form) if isinstance(form, str) else form, args, op.allocate(args))()
            return [Program(step.build(), step) for step in steps]

    def programs(
        self, op: operations.Operation, form: str, shape: tuple[int, ...], axis: int, dtype: Any, arch: str
    ) -> list[Program]:
        """The same for contiguous inputs."""
        return self.bound(op, form, torch.empty(shape, dtype=dtype, device="meta"), axis, arch)
