"""Cases of companion inputs, scalars and named axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelzoo import operations
from kernelzoo.check.case import Case, Inputs, on, plain, sample
from kernelzoo.check.special import rules, special_rows

if TYPE_CHECKING:
    import torch


def others(operation: operations.Operation) -> Iterator[Case]:
    """Cases of companion inputs and scalars: special values, stepped layouts, and scalar values."""
    op, shape = operation.name, (5, 300)
    for dtype in [d for d in ("float32", "bfloat16") if d in operation.dtypes] or operation.dtypes[:1]:
        for number, (name, declared) in enumerate(operation.inputs.items()):
            if not number:
                continue
            own = operation.dtype_of(name, dtype)
            for rule in rules(own) if declared.low is None and declared.high is None else ():
                make = partial(_special_other, op, number, rule, shape, dtype)
                yield Case(op, f"{dtype}-{name}-{rule.replace(' ', '-')}", make, elements=math.prod(shape))
            if declared.names:
                make = partial(_stepped_other, op, number, shape, dtype)
                yield Case(op, f"{dtype}-{name}-stepped", make, elements=math.prod(shape))
        for name, scalar in operation.scalars.items():
            for value in scalar.also:
                make = partial(plain, op, shape, dtype, scalars={name: value})
                yield Case(op, f"{dtype}-{name}={value}", make, elements=math.prod(shape), scalars=((name, value),))


def _special_other(
    op: str, number: int, rule: str, shape: tuple[int, ...], dtype: str, device: str, generator: torch.Generator
) -> Inputs:
    inputs = sample(op, shape, dtype, generator=generator)
    special_rows(operations.dtype_name(inputs[number].dtype))[rule](inputs[number].view(-1))
    operations.OPERATIONS[op].confined(number, inputs[number], shape[-1])
    return on(device, inputs)


def _stepped_other(
    op: str, number: int, shape: tuple[int, ...], dtype: str, device: str, generator: torch.Generator
) -> Inputs:
    import torch

    inputs = list(on(device, sample(op, shape, dtype, generator=generator)))
    x = inputs[number]
    inputs[number] = torch.stack((x, x), -1)[..., 0]
    return tuple(inputs)


# Sizes of axes: one, odd sizes, and sizes around the blocks in use.
_SIZES = (1, 3, 16, 17, 33, 64, 65, 127, 130, 2, 31, 256, 100, 5)


def by_axes(operation: operations.Operation) -> Iterator[Case]:
    """Cases of an operation with named axes: sizes, special values in each input, scalars."""
    first = operation.axes[0]
    axes = [axis for axis in dict.fromkeys((*first, *operation.sizes)) if not axis.isdigit()]
    for dtype in operation.dtypes:
        for turn in range(len(_SIZES)):
            sizes = {axis: _SIZES[(turn + 5 * place) % len(_SIZES)] for place, axis in enumerate(axes)}
            said = ",".join(f"{axis}={size}" for axis, size in sizes.items())
            shape = tuple(int(a) if a.isdigit() else sizes[a] for a in first)
            make = partial(_sized, operation.name, shape, sizes, dtype, None)
            yield Case(operation.name, f"{dtype}-{said}", make, core=turn in (1, 3), elements=math.prod(shape))
            if turn != 4:
                continue
            for number, name in enumerate(operation.inputs):
                declared = operation.inputs[name]
                rules = special_rows(operation.dtype_of(name, dtype)) if declared.low is None else {}
                for rule in rules if declared.high is None else ():
                    make = partial(_sized, operation.name, shape, sizes, dtype, (number, rule))
                    yield Case(
                        operation.name, f"{dtype}-{name}-{rule.replace(' ', '-')}", make, elements=math.prod(shape)
                    )
            for name, scalar in operation.scalars.items():
                for value in scalar.also:
                    make = partial(_sized, operation.name, shape, sizes, dtype, None, scalars={name: value})
                    yield Case(
                        operation.name,
                        f"{dtype}-{name}={value}",
                        make,
                        elements=math.prod(shape),
                        scalars=((name, value),),
                    )


def _sized(
    op: str,
    shape: tuple[int, ...],
    sizes: dict[str, int],
    dtype: str,
    special: tuple[int, str] | None,
    device: str,
    generator: torch.Generator,
    scalars: Mapping[str, Any] | None = None,
) -> Inputs:
    operation = operations.OPERATIONS[op]
    inputs = operation.sample(shape, dtype, generator=generator, sizes=sizes, scalars=scalars)
    if special is not None:
        number, rule = special
        special_rows(operations.dtype_name(inputs[number].dtype))[rule](inputs[number].view(-1))
        operation.confined(number, inputs[number], 0)
    return on(device, inputs)
