"""Random values, drawn on the generator's device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelzoo.operations.operation import Dims, axes_of

if TYPE_CHECKING:
    import torch


def row_shape(shape: tuple[int, ...], dim: Dims) -> list[int]:
    """The shape with the reduced axes at 1."""
    dims = axes_of(dim, len(shape))
    return [1 if d in dims else size for d, size in enumerate(shape)]


def normal(shape: tuple[int, ...], dtype: str, *, generator: torch.Generator) -> torch.Tensor:
    """Standard normal, in float64 for float64 and in float32 for every other dtype."""
    import torch

    wide = torch.float64 if dtype == "float64" else torch.float32
    return torch.randn(shape, dtype=wide, generator=generator, device=generator.device)


def plain(shape: tuple[int, ...], dtype: str, dim: Dims, *, generator: torch.Generator) -> torch.Tensor:
    """Normal for floats; for integers and bool, each row has a range of its own."""
    import torch

    kind = getattr(torch, dtype)
    row = row_shape(shape, dim)
    if dtype == "bool":
        each = torch.rand(shape, generator=generator, device=generator.device) < 0.9
        return each.logical_or_(torch.rand(row, generator=generator, device=generator.device) < 0.5)
    if not kind.is_floating_point:
        info = torch.iinfo(kind)
        lowest, step = info.min // 2 if info.min else 0, min(info.max // 2, 2**30)
        base = torch.randint(lowest, info.max // 2, row, dtype=kind, generator=generator, device=generator.device)
        return base + torch.randint(0, step, shape, dtype=kind, generator=generator, device=generator.device)
    return normal(shape, dtype, generator=generator).to(kind)
