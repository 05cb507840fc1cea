"""Cases of companion inputs, scalars and named axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kernelzoo import operations
from kernelzoo.check.case import Case, Inputs, Sampler, sampler_of
from kernelzoo.check.special import special_rows
from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import NARROW


def companion_input_cases(operation: operations.Operation) -> Iterator[Case]:
    """Yield cases of companion inputs and scalars: special values, stepped layouts, and scalar values."""
    op, shape = operation.name, (5, 300)
    for dtype in [d for d in ("float32", "bfloat16") if d in operation.dtypes] or operation.dtypes[:1]:
        for number, (name, declared) in enumerate(operation.inputs.items()):
            if not number:
                continue
            own = operation.dtype_of(name, dtype)
            for rule in special_rows(own) if declared.low is None and declared.high is None else ():
                make = partial(_draw_special, shape, None, (number, rule))
                yield Case(op, f"{dtype}-{name}-{rule.replace(' ', '-')}", make, elements=math.prod(shape))
            if declared.names:
                make = partial(_draw_stepped_companion, number, shape)
                yield Case(op, f"{dtype}-{name}-stepped", make, elements=math.prod(shape))
        for name, scalar in operation.scalars.items():
            for value in scalar.also:
                scalars = ((name, value),)
                yield Case(op, f"{dtype}-{name}={value}", sampler_of(shape), elements=math.prod(shape), scalars=scalars)


def _draw_stepped_companion(number: int, shape: tuple[int, ...], draw: Sampler) -> Inputs:
    inputs = list(draw.to_device(draw.sample(shape)))
    x = inputs[number]
    inputs[number] = torch.stack((x, x), -1)[..., 0]
    return tuple(inputs)


# Sizes of axes: one, odd sizes, and sizes around the blocks in use.
_SIZES = (1, 3, 16, 17, 33, 64, 65, 127, 130, 2, 31, 256, 100, 5)
_CORE = (1, 3)
"""Indices in ``axis_sizes`` of the sizes for core cases."""
_SPECIAL = 4
"""Index in ``axis_sizes`` of the sizes for special values and scalars."""
_TIES = (2, 4, 8)
"""Indices in ``axis_sizes`` of the sizes for equal elements."""

_LARGE = 2**27
"""The most elements of an input that are drawn on the host, as for every small case."""

TIES = "ties"
"""A name in place of a special value's: the input then repeats a few elements."""

_Special = tuple[int, str]
"""The index of an input, and the name of a special value for it."""


def axis_sizes(operation: operations.Operation) -> tuple[dict[str, int], ...]:
    """Return small sizes to try for all named axes, within their bounds."""
    if "sizes" in operation.hooks:
        return tuple(operation.hooks["sizes"])
    axes = operation.free_axes
    return tuple(
        operation.clamp_sizes({axis: _SIZES[(turn + 5 * place) % len(_SIZES)] for place, axis in enumerate(axes)})
        for turn in range(len(_SIZES))
    )


def named_axis_cases(operation: operations.Operation) -> Iterator[Case]:
    """Yield cases of an operation with named axes: sizes, scalars, and special values or equal elements in an input."""
    op, turns, meant = operation.name, axis_sizes(operation), "sizes" in operation.hooks
    larger = tuple(operation.hooks.get("workloads", ()))
    for dtype in operation.dtypes:

        def case(name: str, turn: int, special: _Special | None = None, *, dtype: str = dtype) -> Case:
            sizes = turns[turn % len(turns)] if turn < len(_SIZES) else larger[turn - len(_SIZES)]
            shape = operation.first_input_shape(sizes)
            core = special is None and sizes in [turns[place % len(turns)] for place in _CORE]
            elements = max(map(math.prod, operation.shapes(shape, (), False, sizes))) if meant else math.prod(shape)
            large = elements > _LARGE
            make = (
                partial(_draw_special, shape, sizes, special)
                if special
                else sampler_of(shape, sizes=sizes, large=large)
            )
            beyond = meant and special is not None
            scalars = tuple(operation.scalars_for(sizes).items())
            return Case(op, f"{dtype}-{name}", make, core=core, elements=elements, beyond=beyond, scalars=scalars)

        said = {_sizes_text(sizes): turn for turn, sizes in enumerate(turns)}
        said |= {_sizes_text(sizes): turn for turn, sizes in enumerate(larger, len(_SIZES))}
        yield from (case(name, turn) for name, turn in said.items())
        for number, (name, declared) in enumerate(operation.inputs.items()):
            own = operation.dtype_of(name, dtype)
            if declared.low is not None or declared.high is not None or own in NARROW:
                continue
            for rule in special_rows(own):
                yield case(f"{name}-{rule.replace(' ', '-')}", _SPECIAL, (number, rule))
            if number and operation.relates_inputs:
                continue  # its values follow those of the first
            for turn in _TIES[: len(turns)]:
                yield case(f"{name}-ties-{turn}", turn, (number, TIES))
        for name, scalar in operation.scalars.items():
            for value in scalar.also:
                made = case(f"{name}={value}", _SPECIAL)
                yield replace(made, scalars=tuple({**dict(made.scalars), name: value}.items()))


def _sizes_text(sizes: dict[str, int]) -> str:
    return ",".join(f"{axis}={size}" for axis, size in sizes.items())


def _draw_special(shape: tuple[int, ...], sizes: dict[str, int] | None, special: _Special, draw: Sampler) -> Inputs:
    inputs = draw.sample(shape, sizes=sizes)
    number, rule = special
    if rule == TIES:
        inputs[number].copy_(_repeat_few_elements(inputs[number], draw.generator))
    else:
        special_rows(operations.dtype_name(inputs[number].dtype))[rule](inputs[number].view(-1))
    draw.operation.clamp_to_domain(number, inputs[number], 0 if sizes else shape[-1])
    if not number:
        inputs = draw.operation.match_other_inputs(inputs, generator=draw.generator)
    return draw.to_device(inputs)


def _repeat_few_elements(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a tensor of x's shape that repeats at most three of x's elements."""
    flat = x.reshape(-1)
    return flat[torch.randint(min(3, flat.numel()), x.shape, generator=generator)] if flat.numel() else x
