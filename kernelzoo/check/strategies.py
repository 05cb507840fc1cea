"""Inputs for Hypothesis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelzoo import operations
from kernelzoo.operations.sampling import as_declared, plain

if TYPE_CHECKING:
    import torch
    from hypothesis.strategies import DrawFn, SearchStrategy


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
        dtype = draw(st.sampled_from(operation.dtypes))
        if operation.by_rows:
            shape = tuple(draw(st.lists(st.integers(1, largest), min_size=0, max_size=5)))
            while math.prod(shape) > 2000:  # an interpreter must run it quickly
                shape = shape[:-1]
            x = _viewed(draw, _drawn(draw, operation, 0, shape, dtype, {}))
            sizes = {"n": x.size(-1) if x.ndim else 1}
        else:
            sizes = operation.fitted({axis: draw(st.integers(1, largest)) for axis in operation.free_axes})
            shape = operation.first_shape(sizes)
            x = _laid_out(draw, _drawn(draw, operation, 0, shape, dtype, sizes))
        if len(operation.inputs) == 1:
            return x
        dims = operations.axes_of(-1, x.ndim) if operation.by_rows else ()
        shapes = operation.shapes(tuple(x.shape), dims, False, sizes)
        others = [
            _laid_out(draw, _drawn(draw, operation, number, shapes[number], operation.dtype_of(name, dtype), sizes))
            for number, name in enumerate(operation.inputs)
            if number
        ]
        return x, *others

    return drawn()


def _drawn(
    draw: DrawFn,
    operation: operations.Operation,
    number: int,
    shape: tuple[int, ...],
    dtype: str,
    sizes: dict[str, int],
) -> torch.Tensor:
    """A contiguous input, with special values."""
    import torch
    from hypothesis import strategies as st

    declared = list(operation.inputs.values())[number]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    if declared.low is not None or declared.high is not None or declared.also:
        known = {**sizes, **{name: scalar.default for name, scalar in operation.scalars.items()}}
        return as_declared(declared, shape, dtype, known, generator)
    x = plain(shape, dtype, (), generator=generator)
    if dtype in operations.FLOATS:
        info = torch.finfo(x.dtype)
        special = (math.nan, math.inf, -math.inf, -0.0, 0.0, info.max, -info.max, info.tiny, -info.tiny / 4)
        flat = x.view(-1)
        for _ in range(draw(st.integers(0, 3))):
            flat[draw(st.integers(0, x.numel() - 1))] = draw(st.sampled_from(special))
    # No view of it has a longer row.
    return operation.confined(number, x, 3 * max(1, x.numel()) if operation.by_rows else 0)


def _viewed(draw: DrawFn, x: torch.Tensor) -> torch.Tensor:
    """A view of a tensor: permuted, sliced, stepped or expanded."""
    from hypothesis import strategies as st

    if x.ndim:
        x = x.permute(draw(st.permutations(range(x.ndim))))
        x = x[tuple(slice(draw(st.integers(0, size - 1)), None, draw(st.integers(1, 3))) for size in x.shape)]
        axis = draw(st.integers(0, x.ndim - 1))
        if x.size(axis) == 1:
            x = x.expand(*(3 if d == axis else -1 for d in range(x.ndim)))
    return x


def _laid_out(draw: DrawFn, x: torch.Tensor) -> torch.Tensor:
    """A tensor of that shape and values: permuted, stepped and not at the start of its memory."""
    import torch
    from hypothesis import strategies as st

    order = draw(st.permutations(range(x.ndim)))
    steps = [draw(st.integers(1, 3)) for _ in order]
    start = draw(st.integers(0, 3))
    memory = torch.zeros(start + math.prod(x.size(d) * step for d, step in zip(order, steps, strict=True)))
    whole = memory.to(x.dtype)[start:].view([x.size(d) * step for d, step in zip(order, steps, strict=True)])
    view = whole[tuple(slice(None, None, step) for step in steps)].permute([order.index(d) for d in range(x.ndim)])
    return view.copy_(x)
