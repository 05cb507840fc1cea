"""Inputs for Hypothesis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from kernelzoo import operations
from kernelzoo.check.fuzz import placing
from kernelzoo.check.fuzz.case import Case, named_sizes
from kernelzoo.check.fuzz.drawing import choosing, layout_of, with_companions, with_values

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

_MOST = 2000
"""Most elements of a first input by rows, since an interpreter must run it quickly."""


def tensors(op: str, largest: int = 9) -> SearchStrategy[Any]:
    """A Hypothesis strategy for inputs on the CPU: every dtype of an operation, and any rank up to 5.

    Axes have at most ``largest`` elements, unless their bounds want more. Tensors are permuted, sliced, stepped or
    expanded, and floats hold special values. Several inputs come as a tuple, for a call along the last axis.
    Needs Hypothesis.
    """
    from hypothesis import strategies as st

    operation = operations.OPERATIONS[op]

    @st.composite
    def drawn(draw: DrawFn) -> torch.Tensor | tuple[torch.Tensor, ...]:
        choose = choosing(draw)
        dtype, dim = choose(operation.dtypes), -1 if operation.by_rows else None
        further = dict[str, int]()
        if operation.by_rows:
            shape = tuple(choose(range(1, largest + 1)) for _ in range(choose(range(6))))
            while math.prod(shape) > _MOST:
                shape = shape[:-1]
        else:
            sizes = operation.fitted({axis: choose(range(1, largest + 1)) for axis in operation.free_axes})
            shape, further = named_sizes(operation, sizes)
        room = 4 * max(_MOST, math.prod(shape))
        case = Case(dtype, shape, layout_of(choose, shape, room, read_alone=True), dim, sizes=tuple(further.items()))
        case = with_values(choose, op, with_companions(choose, op, case, room), plain=True)
        inputs = [x for _, x in placing.inputs(operation, case, torch.Generator())]
        return inputs[0] if len(inputs) == 1 else tuple(inputs)

    return drawn()
