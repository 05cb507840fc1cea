"""Random inputs, drawn on the generator's device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import NARROW, ArgumentBinder, Arguments, Dims, axes_of
from kernelzoo.operations.declared import Input
from kernelzoo.operations.derived import completed_sizes
from kernelzoo.operations.rows import CanonicalInputs
from kernelzoo.operations.signature import zip_dict


def sample(
    op: ArgumentBinder,
    shape: tuple[int, ...],
    dtype: str,
    dim: Dims = -1,
    *,
    generator: torch.Generator,
    sizes: Mapping[str, int] | None = None,
    scalars: Mapping[str, Any] | None = None,
) -> tuple[torch.Tensor, ...]:
    """Draw inputs whose right results are not constant, not zero, and different from row to row.

    ``scalars``: those of the call that are not at their default, because the drawn values may depend on them.
    """
    dims, sizes = axes_of(dim, len(shape)) if op.by_rows else (), sizes or {}
    _, *others = op.inputs
    shapes = op.shapes(shape, dims, False, sizes)
    known: dict[str, Any] = {name: scalar.default for name, scalar in op.scalars.items()} | {**sizes, **(scalars or {})}
    n = math.prod(shape[d] for d in dims) if shape else 1
    known |= {"n": n} if op.by_rows else dict(zip(op.axes[0], shape, strict=True))
    known = completed_sizes(op.derived, known)
    if "draws" in op.hooks:
        return tuple(op.call("draws", {"sizes": known, "generator": generator}))
    drawn = [_draw_first(op, shape, dtype, dim, dims, known, generator)]
    for name, size in zip(others, shapes[1:], strict=False):
        drawn.append(draw_declared(op.inputs[name], size, op.dtype_of(name, dtype), known, generator))
    return match_other_inputs(op, tuple(drawn), dim, generator=generator)


def match_other_inputs(
    op: ArgumentBinder, inputs: tuple[torch.Tensor, ...], dim: Dims = -1, *, generator: torch.Generator
) -> tuple[torch.Tensor, ...]:
    """Replace all inputs but the first by ones that match the first, if the operation defines ``others``."""
    if "others" not in op.hooks or not inputs[0].numel():
        return inputs
    args = Arguments(inputs, axes_of(dim, inputs[0].ndim) if op.by_rows else ())
    rows = CanonicalInputs(op, args).inputs
    n = rows[0].size(1) if op.by_rows else 0
    made = op.call("others", {**zip_dict(op.inputs, rows), "n": n, "generator": generator})
    fitting = zip(made, inputs[1:], strict=True)
    return (inputs[0], *(found.to(drawn.dtype).reshape(drawn.shape).contiguous() for found, drawn in fitting))


def _draw_first(
    op: ArgumentBinder,
    shape: tuple[int, ...],
    dtype: str,
    dim: Dims,
    dims: tuple[int, ...],
    known: Mapping[str, Any],
    generator: torch.Generator,
) -> torch.Tensor:
    first, kind = next(iter(op.inputs.values())), getattr(torch, dtype)
    if not kind.is_floating_point or not op.rounds or dtype in NARROW:
        x = draw_declared(first, shape, dtype, known, generator, dim if op.by_rows else ())
        return place_extremes(x, dims, op.decisive, generator) if op.by_rows and first.low is first.high is None else x
    x = draw_normal(shape, dtype, generator=generator)
    if not x.numel() or not shape:
        return x.to(kind)
    if "sample" in op.hooks:
        rows = x.view(math.prod(shape[: dims[0]]), shape[dims[0]], -1) if op.by_rows else x
        drawn: torch.Tensor = op.call("sample", {**known, "x": rows, "generator": generator})
        return drawn.view(shape).to(kind)
    if op.by_rows:  # each row has its own scale and offset, so that no row equals another
        row = row_shape(shape, dim)
        width, place = (torch.rand(row, dtype=x.dtype, generator=generator, device=generator.device) for _ in range(2))
        x.mul_(width.mul_(1.5).add_(0.5)).add_(place.mul_(4).sub_(2))
        place_extremes(x, dims, op.decisive, generator)
    return x.to(kind)


def place_extremes(x: torch.Tensor, dims: tuple[int, ...], decisive: float, generator: torch.Generator) -> torch.Tensor:
    """Put a new maximum (or minimum, if ``decisive`` < 0) at a random place in each row. So a skipped part shows."""
    if not x.numel():
        return x
    place = random_places(x, dims, generator)
    if x.dtype == torch.bool:
        x[place] &= torch.rand(x[place].shape, generator=generator, device=generator.device) < 0.5
        return x
    most = x.amin(dims, keepdim=True) if decisive < 0 else x.amax(dims, keepdim=True)
    beyond = torch.ones_like(most)
    if x.is_floating_point():
        beyond += torch.rand(most.shape, generator=generator, device=generator.device).to(x.dtype)
    x[place] = most - beyond if decisive < 0 else most + beyond
    return x


def random_places(
    x: torch.Tensor, dims: tuple[int, ...], generator: torch.Generator, part: tuple[int, int] = (0, 1)
) -> tuple[torch.Tensor, ...]:
    """Draw the index of one element of each row. ``part``: (i, count) draws from part i of ``count``."""
    row = [1 if d in dims else size for d, size in enumerate(x.shape)]
    found = []
    for d, size in enumerate(x.shape):
        if d in dims:
            first, end = (size * (part[0] + i) // part[1] for i in range(2))
            drawn = torch.randint(first, max(end, first + 1), row, generator=generator, device=generator.device)
        else:
            shape = [-1 if other == d else 1 for other in range(x.ndim)]
            drawn = torch.arange(size, device=generator.device).view(shape)
        found.append(drawn.to(x.device))
    return tuple(found)


def draw_declared(
    declared: Input,
    shape: tuple[int, ...],
    dtype: str,
    known: Mapping[str, Any],
    generator: torch.Generator,
    dim: Dims = (),
) -> torch.Tensor:
    """Draw values in the declared range, or by ``draw_without_range`` if no range is declared."""

    def value(said: Any) -> Any:
        return known[said] if isinstance(said, str) else said

    kind = getattr(torch, dtype)
    if declared.low is None and declared.high is None:
        x = draw_without_range(shape, dtype, dim, generator=generator)
    else:
        info = torch.iinfo(kind)
        low = info.min if declared.low is None else value(declared.low)
        high = info.max if declared.high is None else value(declared.high)
        x = torch.randint(low, max(high, low + 1), shape, dtype=kind, generator=generator, device=generator.device)
    for said in declared.also:
        rare = torch.rand(shape, generator=generator, device=generator.device) < 0.1
        if x.numel() > 1:  # at least one
            rare.view(-1)[torch.randint(x.numel(), (1,), generator=generator, device=generator.device)] = True
        x.masked_fill_(rare, value(said))
    return x


def row_shape(shape: tuple[int, ...], dim: Dims) -> list[int]:
    """Return the shape with size 1 for the reduced axes."""
    dims = axes_of(dim, len(shape))
    return [1 if d in dims else size for d, size in enumerate(shape)]


def draw_normal(shape: tuple[int, ...], dtype: str, *, generator: torch.Generator) -> torch.Tensor:
    """Draw standard normal values, in float64 for float64, and in float32 for every other dtype."""
    wide = torch.float64 if dtype == "float64" else torch.float32
    return torch.randn(shape, dtype=wide, generator=generator, device=generator.device)


def draw_without_range(shape: tuple[int, ...], dtype: str, dim: Dims, *, generator: torch.Generator) -> torch.Tensor:
    """Draw normal floats, or integers in a different range for each row. Of bool rows, about half are all true."""
    kind = getattr(torch, dtype)
    if dtype.startswith("float4"):
        return torch.randint(256, shape, dtype=torch.uint8, generator=generator, device=generator.device).view(kind)
    row = row_shape(shape, dim)
    if dtype == "bool":
        each = torch.rand(shape, generator=generator, device=generator.device) < 0.9
        return each.logical_or_(torch.rand(row, generator=generator, device=generator.device) < 0.5)
    if not kind.is_floating_point:
        info = torch.iinfo(kind)
        lowest, step = info.min // 2 if info.min else 0, min(info.max // 2, 2**30)
        # Each row's range leaves a number below and one above.
        base = torch.randint(lowest + 1, info.max // 2, row, dtype=kind, generator=generator, device=generator.device)
        return base + torch.randint(0, step, shape, dtype=kind, generator=generator, device=generator.device)
    return draw_normal(shape, dtype, generator=generator).to(kind)
