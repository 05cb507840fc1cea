"""Calls with one fault each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kernelzoo import operations
from kernelzoo.check.fuzz.case import Case, dense_strides, span
from kernelzoo.lazy import torch
from kernelzoo.operations import Operation
from kernelzoo.operations.tensors import same_memory


class FaultMaker:
    """A valid call, with methods that return arguments which make the call faulty."""

    def __init__(self, op: Operation, case: Case, inputs: Sequence[torch.Tensor]) -> None:
        self.op, self.case, self.inputs = op, case, inputs
        self.x, self.seed = inputs[0], case.seed
        self.first = next(iter(op.inputs))

    def allocate_outs(self) -> list[torch.Tensor]:
        args = self.op.arguments(self.inputs, -1 if self.case.dim is None else self.case.dim, self.case.keepdim)
        return list(self.op.allocate(args))

    def change_out(self, change: Callable[[torch.Tensor], object]) -> dict[str, Any]:
        """Return an argument ``out`` in which ``change`` replaces one output."""
        outs: list[Any] = list(self.allocate_outs())
        place = self.seed % len(outs)
        outs[place] = change(outs[place])
        return {"out": outs[0] if len(outs) == 1 else tuple(outs)}

    def change_companion(self, change: Callable[[int], torch.Tensor]) -> dict[str, Any]:
        """Return an argument that replaces a companion input. ``change`` makes the tensor from the input's index."""
        number = 1 + self.seed % (len(self.inputs) - 1)
        return {list(self.op.inputs)[number]: change(number)}

    def with_gradient(self) -> dict[str, Any]:
        """Return an argument for one floating-point input, which requires a gradient."""
        able = [name for name, x in zip(self.op.inputs, self.inputs, strict=True) if x.is_floating_point()]
        name = able[self.seed % len(able)]
        return {name: dict(zip(self.op.inputs, self.inputs, strict=True))[name].detach().requires_grad_()}

    def out_overlapping_input(self, like: torch.Tensor) -> object:
        """Return an output like ``like`` that overlaps an input illegally. If none exists, return the string "out"."""
        number = self.seed % len(self.inputs)
        number = number if self.inputs[number].numel() else 0
        x, shape, wide = self.inputs[number], tuple(like.shape), like.element_size()
        storage = x.untyped_storage()
        # An out that begins at the second element overlaps x, too.
        for further in (0, 1):
            start = x.storage_offset() * x.element_size() // wide + further
            fits = (start + span(shape, dense_strides(shape))) * wide <= storage.nbytes()
            strides = dense_strides(shape) if fits else [0] * len(shape)
            out = torch.empty(0, dtype=like.dtype, device=x.device).set_(storage, start, shape, strides)
            if not self._allows_in_place(number, out):
                return out
            if x.numel() < 2:
                break
        return "out"

    def _allows_in_place(self, number: int, out: torch.Tensor) -> bool:
        allowed = {declared.inplace for declared in self.op.outputs.values()}
        return list(self.op.inputs)[number] in allowed and same_memory(out, self.inputs[number])

    def outs_at_one_address(self) -> dict[str, Any]:
        """Return an argument ``out`` whose outputs begin at the same address."""
        outs = self.allocate_outs()
        memory = torch.empty(sum(16 + out.numel() * out.element_size() for out in outs), dtype=torch.uint8)
        storage = memory.to(self.x.device).untyped_storage()
        same = [out.new_empty(0).set_(storage, 0, out.shape, dense_strides(out.shape)) for out in outs]
        return {"out": tuple(same)}

    def input_of_wrong_shape(self, number: int) -> torch.Tensor:
        """Return an input of a wrong shape: an extra axis, or a size that contradicts an earlier input."""
        x, names = self.inputs[number], self.op.axes[number]
        before = {axis for earlier in self.op.axes[:number] for axis in earlier}
        fixed = [d for d in range(x.ndim) if self.op.by_rows or names[d] in before or names[d].isdigit()]
        if not fixed or self.seed % 2:
            return x.new_empty((*x.shape, 2))
        d = fixed[self.seed // 2 % len(fixed)]
        return x.new_empty([size + (d == axis) for axis, size in enumerate(x.shape)])


def _out_overlapping_itself(out: torch.Tensor) -> object:
    """Return an expanded output, so that its elements overlap. If it has one element, return the string "out"."""
    return out.new_empty(1).expand(out.shape) if math.prod(out.shape) > 1 else "out"


def _to_complex(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.complex64)


FAULTS: dict[str, tuple[str, Callable[[FaultMaker], dict[str, Any]]]] = {
    "an axis out of range": (
        "AxisError",
        lambda call: {"dim": max(call.x.ndim, 1) if call.seed % 2 else -call.x.ndim - 2},
    ),
    "no axis": ("AxisError", lambda call: {"dim": "" if call.op.several_axes else None}),  # None would mean all axes
    "half an axis": ("AxisError", lambda call: {"dim": 0.5}),
    "an axis twice": ("AxisError", lambda call: {"dim": (0, -max(call.x.ndim, 1))}),
    "another dtype": ("InputTypeError", lambda call: {call.first: _to_complex(call.x)}),
    "a list": ("InputTypeError", lambda call: {call.first: [1.0, 2.0]}),
    "a sparse tensor": ("InputTypeError", lambda call: {call.first: torch.eye(2, device=call.x.device).to_sparse()}),
    # A call with all tensors on meta is legal in torch.
    "a tensor elsewhere": (
        "OutputError",
        lambda call: (
            call.change_out(lambda out: out)
            | {name: x.to("meta") for name, x in zip(call.op.inputs, call.inputs, strict=True)}
        ),
    ),
    "a gradient and an out": ("GradientError", lambda call: call.with_gradient() | call.change_out(lambda out: out)),
    "no such variant": ("UnknownNameError", lambda call: {"variant": "fastest"}),
    "out of another shape": ("OutputError", lambda call: call.change_out(lambda out: out.new_empty((*out.shape, 2)))),
    "out of another dtype": ("OutputError", lambda call: call.change_out(_to_complex)),
    "out within x": ("OutputError", lambda call: call.change_out(call.out_overlapping_input)),
    "out upon itself": ("OutputError", lambda call: call.change_out(_out_overlapping_itself)),
    "out that is none": ("OutputError", lambda call: {"out": [1.0]}),
    "another shape of an input": ("ShapeError", lambda call: call.change_companion(call.input_of_wrong_shape)),
    "an input elsewhere": (
        "DeviceError",
        lambda call: call.change_companion(lambda number: call.inputs[number].to("meta")),
    ),
    "another dtype of an input": (
        "InputTypeError",
        lambda call: call.change_companion(lambda number: _to_complex(call.inputs[number])),
    ),
    "outs upon each other": ("OutputError", lambda call: call.outs_at_one_address()),
}
"""By name of a fault: the error that it must raise, and a function that returns the arguments to replace."""

_OF_AXES = ("an axis out of range", "no axis", "half an axis", "an axis twice")
_OF_INPUTS = ("another shape of an input", "an input elsewhere", "another dtype of an input")


def possible_faults(op: str, dtype: str) -> tuple[str, ...]:
    """Return the faults that a call of an operation with a first input of this dtype can have."""
    operation = operations.OPERATIONS[op]
    not_for = {*(_OF_AXES if not operation.by_rows else ()), *(_OF_INPUTS if len(operation.inputs) < 2 else ())}
    not_for |= {"outs upon each other"} if len(operation.outputs) < 2 else set()
    not_for |= {"a gradient and an out"} if operation.counts or dtype not in operations.FLOATS else set()
    return tuple(name for name in FAULTS if name not in not_for)
