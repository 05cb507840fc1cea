"""From any tensor to the canonical form: a strided view with three axes, ``(outer, n, inner)``, without a copy.

``n`` is the reduced axis, and one *row* is a pair (outer, inner). Any axis of a tensor, and most sliced, stepped,
transposed or expanded ones, is such a view. All strides are free, offsets need 64 bits, no size is zero. ``inner`` is 1
for a reduction over the last axis of a contiguous tensor. A layout that three axes can't say is first copied, inside
the launch, and so in its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kernelzoo.launch import Launch, owning, sequence, void

if TYPE_CHECKING:
    import torch


Group: TypeAlias = "tuple[int, int, int, bool]"
"""Some neighbouring axes seen as one: size, stride in x, stride in out, and a mark that must agree to merge."""


def runs_of(axes: Sequence[Group]) -> list[Group]:
    """Merge neighbouring axes of one mark where both strides allow it; axes of size 1 drop out."""
    merged: list[Group] = []
    for size, stride, out_stride, mark in axes:
        if size == 1:
            continue
        if merged:
            size0, stride0, out_stride0, mark0 = merged[-1]
            if mark0 == mark and stride0 == size * stride and out_stride0 == size * out_stride:
                merged[-1] = (size0 * size, stride, out_stride, mark)
                continue
        merged.append((size, stride, out_stride, mark))
    return merged


def merge(kept: Sequence[Group]) -> list[Group]:
    """Like runs_of, for kept axes marked by whether they follow the reduced one. Two on both sides may still merge
    when the reduced axis doesn't stand between them in memory; if not, that only costs the name of an axis."""
    runs = runs_of(kept)
    return runs if len(runs) <= 2 else runs_of([(*run[:3], False) for run in runs])


def outer_inner(groups: list[Group]) -> tuple[Group, Group]:
    one: Group = (1, 1, 1, False)
    if len(groups) == 2:
        return groups[0], groups[1]
    if not groups:
        return one, one
    return (one, groups[0]) if groups[0][3] else (groups[0], one)


def readable(x: torch.Tensor) -> tuple[torch.Tensor, Launch | None]:
    """X as plain memory: a lazily negated view (the imaginary part of a conjugate) is negated by a copy."""
    if not x.is_neg():
        return x, None
    import torch

    plain = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return plain, owning(lambda: void(plain.copy_(x)), plain)


def through_copies(
    launched: Callable[[torch.Tensor, torch.Tensor], Launch], x: torch.Tensor, out: torch.Tensor
) -> Launch:
    """Copy x in and the result out, where their layouts need it, around the launch of contiguous tensors."""
    steps: list[Launch] = []
    staged = x if x.is_contiguous() else x.new_empty(x.shape)
    if staged is not x:
        steps.append(lambda: void(staged.copy_(x)))
    target = out if out.is_contiguous() else out.new_empty(out.shape)
    steps.append(launched(staged, target))
    if target is not out:
        steps.append(lambda: void(out.copy_(target)))
    launch, own = sequence(*steps), [tensor for tensor in (staged, target) if tensor is not x and tensor is not out]
    return owning(launch, *own) if own else launch
