"""Memory for the tensors of a case, with guard elements that reveal reads or writes out of bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch

from kernelzoo.check.bits import bits
from kernelzoo.check.case import copy_rows_far_apart
from kernelzoo.check.fuzz import values
from kernelzoo.check.fuzz.case import Case, CompanionInput, Layout, dense_strides, families_of_input, span
from kernelzoo.operations import Operation
from kernelzoo.operations.memory import overlaps_itself
from kernelzoo.operations.sampling import draw_declared

_GUARD = 256
"""Guard elements on either side of a tensor, in whole 16-byte vectors of any dtype."""

Placed: TypeAlias = "tuple[torch.Tensor, torch.Tensor]"
"""A range of memory, and the tensor in it."""

Draw: TypeAlias = "Callable[[tuple[int, ...]], torch.Tensor]"


def place_inputs(op: Operation, case: Case, generator: torch.Generator) -> list[Placed]:
    """Return every input of a case, on the generator's device. Raises NoRoomError."""
    from kernelzoo.torch_private import negated

    placed = list[Placed]()
    for number, (described, shape) in enumerate(case.each_input(op.name)):
        dtype = described.dtype or op.dtype_of(described.name, case.dtype)
        draw = partial(_draw_values, op, case, number, described, dtype, generator, placed[0][1] if number else None)
        if case.has_far_rows and not number:
            placed.append(copy_rows_far_apart(draw(case.shape), case.x.strides[0], _GUARD))
            continue
        layout = described.layout or Layout(dense_strides(shape))
        memory, x = _place_input(shape, layout, getattr(torch, dtype), draw, generator.device)
        placed.append((memory, negated(x) if described.negated else x))
    return placed


def _draw_values(
    op: Operation,
    case: Case,
    number: int,
    described: CompanionInput,
    dtype: str,
    generator: torch.Generator,
    first: torch.Tensor | None,
    shape: tuple[int, ...],
) -> torch.Tensor:
    """Draw the values of one input, within the operation's domain. ``first``: the first input, once it is drawn."""
    generator.manual_seed(case.seed ^ number * 0x9E3779B9)  # a seed of its own, so that no two inputs are equal
    family = described.values or families_of_input(op.name, described.name, dtype)[0]
    if (
        family == values.DECLARED
        and first is not None
        and "others" in op.hooks
        and shape == case.shapes(op.name)[number]
    ):
        drawn = _all_inputs(op, case, first, generator)[number].to(getattr(torch, dtype))
    elif family == values.DECLARED:
        drawn = draw_declared(op.inputs[described.name], shape, dtype, _sizes_and_scalars(op, case), generator)
    else:
        drawn = values.draw(family, shape, dtype, generator)
    if described.specials:
        drawn = drawn.contiguous()
        flat = bits(drawn.view(-1))
        for name, place in described.specials:
            flat[place % flat.numel()] = values.bits_of(name, dtype)
    return op.clamp_to_domain(number, drawn.contiguous(), _row_length(op, case))


def _all_inputs(op: Operation, case: Case, first: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Draw companion inputs that match the first input; returns all inputs."""
    companions = [name for name in op.inputs if name != next(iter(op.inputs))]
    shapes = case.shapes(op.name)[1 : 1 + len(companions)]
    drawn = (
        draw_declared(op.inputs[name], shape, op.dtype_of(name, case.dtype), _sizes_and_scalars(op, case), generator)
        for name, shape in zip(companions, shapes, strict=True)
    )
    return op.match_other_inputs((first, *drawn), case.dim, generator=generator)


def _row_length(op: Operation, case: Case) -> int:
    """Return a row's length, or 0 if the operation has no rows. An empty row gives 1, as limits are divided by it."""
    if not op.by_rows:
        return 0
    return max(1, math.prod(case.shape[d] for d in case.axes) if case.shape else 1)


def _sizes_and_scalars(op: Operation, case: Case) -> dict[str, Any]:
    """Return the values of the axes and scalars that an input's declared range may name."""
    scalars = {name: scalar.default for name, scalar in op.scalars.items()} | dict(case.scalars)
    if op.by_rows:
        return {**scalars, "n": _row_length(op, case)}
    return {**scalars, **dict(case.sizes), **dict(zip(op.axes[0], case.shape, strict=True))}


def _place_input(shape: tuple[int, ...], layout: Layout, kind: torch.dtype, draw: Draw, device: torch.device) -> Placed:
    """Return memory with a tensor in it. All other elements are NaN or the least integer, to reveal wrong reads."""
    extent = span(shape, layout.strides)
    memory = torch.empty(2 * _GUARD + layout.offset + extent, dtype=kind, device=device)
    memory.fill_(math.nan if kind.is_floating_point else kind != torch.bool and torch.iinfo(kind).min)
    start = _GUARD + layout.offset
    x = memory.as_strided(shape, layout.strides, start)
    if not extent:
        return memory, x
    # Write each element in memory once: for an expanded axis one element, for overlapping windows their whole range.
    sizes = [size if stride else 1 for size, stride in zip(shape, layout.strides, strict=True)]
    core = memory.as_strided(sizes, layout.strides, start)
    if overlaps_itself(core):
        core = memory[start : start + extent]
    core.copy_(draw(tuple(core.shape)))
    return memory, x


def place_out(shape: tuple[int, ...], layout: Layout, dtype: torch.dtype, pattern: int, device: torch.device) -> Placed:
    """Return memory filled with the byte ``pattern``, and an output in its middle."""
    extent = span(shape, layout.strides)
    board = torch.empty(2 * _GUARD + layout.offset + extent, dtype=dtype, device=device)
    if dtype == torch.bool:
        board.fill_(pattern == 0x5A)
    else:
        board.view(torch.uint8).fill_(pattern)
    return board, board.as_strided(shape, layout.strides, _GUARD + layout.offset)
