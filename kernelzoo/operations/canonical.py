"""Strided views of any tensors in canonical form: axes ``(outer, n, inner)`` or ``(outer, inner)``, without a copy.

A *row* is all elements with the same indices in ``outer`` and ``inner``, and ``n`` is its length. Most sliced, stepped,
transposed or expanded tensors have such a view for any axis. Strides are arbitrary, offsets need 64 bits, and no size
is zero. For the last axis of a contiguous tensor, ``inner`` is 1. Other layouts are copied first, within the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

from kernelzoo.launch import (
    Bind,
    ContiguousFallback,
    Launch,
    RebindableLaunch,
    WorkspaceLaunch,
    chain_launches,
    chain_under_lock,
    keeping_alive,
    void,
)
from kernelzoo.layout import VECTOR_BYTES, cdiv, fills_whole_vectors
from kernelzoo.lazy import torch

Group: TypeAlias = "tuple[int, tuple[int, ...], bool]"
"""Neighbouring axes merged into one: size, stride in each tensor, and a mark. Only equal marks merge."""


def merge_axes(axes: Sequence[Group]) -> list[Group]:
    """Merge neighbouring axes if all strides allow it and their ``Group`` marks are equal. Drop axes of size 1."""
    merged: list[Group] = []
    for size, strides, mark in axes:
        if size == 1:
            continue
        if merged:
            size0, strides0, mark0 = merged[-1]
            if mark0 == mark and all(a == size * b for a, b in zip(strides0, strides, strict=True)):
                merged[-1] = (size0 * size, strides, mark)
                continue
        merged.append((size, strides, mark))
    return merged


def merge_row_axes(kept: Sequence[Group]) -> list[Group]:
    """Merge neighbouring axes on each side of the row's axis. Merge across that only if three or more would remain."""
    runs = merge_axes(kept)
    return runs if len(runs) <= 2 else merge_axes([(*run[:2], False) for run in runs])


def outer_and_inner_axis_groups(groups: list[Group], tensor_count: int) -> tuple[Group, Group]:
    one: Group = (1, (1,) * tensor_count, False)
    if len(groups) == 2:
        return groups[0], groups[1]
    if not groups:
        return one, one
    return (one, groups[0]) if groups[0][2] else (groups[0], one)


def resolve_negation(x: torch.Tensor) -> tuple[torch.Tensor, Launch | None]:
    """Return a plain tensor for a lazily negated view, and the launch that copies x into it. Else return x and None."""
    if not x.is_neg():
        return x, None
    plain = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return plain, keeping_alive(lambda: void(plain.copy_(x)), plain)


Launched: TypeAlias = "Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Launch]"
"""A function that binds inputs and outputs."""


def with_copies(bind_contiguous: Launched, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]) -> Launch:
    """Make a launch that also copies non-contiguous tensors, before and after the launch of ``bind_contiguous``."""
    own: list[torch.Tensor] = []

    def contiguous(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() and tensor.is_contiguous():  # without elements, any strides count as contiguous
            return tensor
        own.append(tensor.new_empty(tensor.shape))
        return own[-1]

    staged, targets = [contiguous(x) for x in inputs], [contiguous(out) for out in outs]
    before = [_copy_launch(to, x) for to, x in zip(staged, inputs, strict=True) if to is not x]
    after = [_copy_launch(out, target) for out, target in zip(outs, targets, strict=True) if target is not out]
    launch = chain_launches(*before, bind_contiguous(staged, targets), *after)
    return ContiguousFallback(keeping_alive(launch, *own) if own else launch)


def _copy_launch(to: torch.Tensor, x: torch.Tensor) -> Launch:
    return lambda: void(to.copy_(x))


def bind_rows(
    bind: Bind, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor], axes: Sequence[tuple[str, ...]], dim: int
) -> Launch:
    """Bind the canonical views of tensors. Rows are along the axis ``dim`` of the first input.

    ``axes`` names the axes of every input and output: ``outer n inner``, or ``outer inner`` (``n`` may have size 1).
    Tensors with other axes are bound as they are.
    """
    tensors = [*inputs, *outs]
    x = inputs[0]
    n = x.size(dim)
    kept_dims = [d for d in range(x.ndim) if d != dim]
    strides = [_kept_strides(tensor, names, dim, x.ndim) for tensor, names in zip(tensors, axes, strict=True)]
    rows = [i for i, s in enumerate(strides) if s is not None]
    # With one element per row, axes before and after the row's axis may merge.
    reduces = not any("n" in names for names in axes[len(inputs) :])
    after = [d > dim and not (reduces and n == 1) for d in kept_dims]
    kept: list[Group] = [
        (x.size(d), tuple((strides[i] or ())[j] for i in rows), after[j]) for j, d in enumerate(kept_dims)
    ]
    # Without rows, any strides will do, and copies would not change them.
    groups = merge_row_axes(kept) if all(size for size, *_ in kept) else [(0, (0,) * len(rows), False)]
    if len(groups) > 2:
        # More row axes than the canonical form has: copy the tensors that have no such view.
        return with_copies(lambda xs, to: bind_rows(bind, xs, to, axes, dim), inputs, outs)
    outer, inner = outer_and_inner_axis_groups(groups, len(rows))
    views = []
    for i, (tensor, names) in enumerate(zip(tensors, axes, strict=True)):
        if i not in rows:
            views.append(tensor)
            continue
        place = rows.index(i)
        if "n" in names:
            step = 1 if reduces and n == 1 else tensor.stride(dim)
            views.append(tensor.as_strided((outer[0], n, inner[0]), (outer[1][place], step, inner[1][place])))
        else:
            views.append(tensor.as_strided((outer[0], inner[0]), (outer[1][place], inner[1][place])))
    return bind(*views)


def bind_batch_invariant_rows(
    bind: Bind,
    inputs: Sequence[torch.Tensor],
    outs: Sequence[torch.Tensor],
    axes: Sequence[tuple[str, ...]],
    dims: tuple[int, ...],
) -> Launch:
    """Bind tensors of a batch-invariant call, so that the layout of a row depends on no other row.

    Each row is contiguous. The first row begins at a multiple of 16 bytes. If a row's bytes are a multiple of 16, every
    row begins at one. A tensor with another layout is copied.
    """
    x, before, after = inputs[0], list[Launch](), list[Launch]()
    kept = [d for d in range(x.ndim) if d not in dims]
    rows, n = prod(x.size(d) for d in kept), prod(x.size(d) for d in dims)
    views: list[torch.Tensor] = []
    own: list[torch.Tensor] = []
    single = not fills_whole_vectors(n, x.element_size())
    for i, (tensor, names) in enumerate(zip([*inputs, *outs], axes, strict=True)):
        if "outer" not in names:
            plain, copy = resolve_negation(tensor)
            views.append(plain)
            before += [] if copy is None else [copy]
            continue
        lies = tensor.permute((*kept, *dims)) if tensor.ndim == x.ndim else tensor
        each = n if "n" in names else 1
        vector = 1 if single or each == 1 else VECTOR_BYTES // tensor.element_size()
        step = cdiv(each, vector) * vector
        off = tensor.data_ptr() % VECTOR_BYTES > 0
        if not lies.is_contiguous() or each < step or off or tensor.is_neg():
            own.append(tensor.new_empty(rows, step))
            place = own[-1][:, :each].view(lies.shape)
            if i < len(inputs):
                before.append(_copy_launch(place, lies))
            else:
                after.append(_copy_launch(lies, place))
            lies = place
        views.append(lies.as_strided(*(((rows, n, 1), (step, 1, 1)) if "n" in names else ((rows, 1), (1, 1)))))
    launch = chain_launches(*before, bind(*views), *after)
    return keeping_alive(launch, *own) if own else launch


def _kept_strides(tensor: torch.Tensor, names: tuple[str, ...], dim: int, ndim: int) -> tuple[int, ...] | None:
    """Return the strides of all axes but ``dim``; None for a tensor without the axes outer and inner."""
    if "outer" not in names:
        return None
    strides = tensor.stride()
    return strides[:dim] + strides[dim + 1 :] if tensor.ndim == ndim else strides


def bind_reduction(
    bind: Bind, x: torch.Tensor, out: torch.Tensor, dims: tuple[int, ...], stage_dtype: torch.dtype
) -> Launch:
    """Bind a reduction over any number of axes of one tensor, in any order.

    ``out`` has no reduced axes. Reduced axes that do not merge in memory are reduced one after the other, with
    intermediate tensors of ``stage_dtype``. The axis with the smallest stride is first, since it is cheapest to read.
    """
    if not x.numel():  # one reduced axis, since an empty axis merges with no other
        x, dims = x.new_empty((*out.shape, 0)), (out.ndim,)
    out_strides = iter(out.stride())
    axes: list[Group] = [
        (x.size(d), (x.stride(d), 0) if d in dims else (x.stride(d), next(out_strides)), d in dims)
        for d in range(x.ndim)
    ]
    runs = merge_axes(axes)
    reduced = [run for run in runs if run[2]] or [(1, (1, 0), True)]
    first = min(reduced, key=lambda run: (run[1][0] == 0, run[1][0]))
    position = runs.index(first) if first in runs else len(runs)
    kept: list[Group] = [(size, strides, i > position) for i, (size, strides, _) in enumerate(runs) if i != position]
    staged = len(reduced) > 1
    if staged:
        stage = x.new_empty([size for size, *_ in kept], dtype=stage_dtype)
        kept = [
            (size, (strides[0], own), after) for (size, strides, after), own in zip(kept, stage.stride(), strict=True)
        ]
    groups = merge_row_axes(kept)
    if len(groups) > 2:
        return with_copies(lambda xs, to: bind_reduction(bind, xs[0], to[0], dims, stage_dtype), (x,), (out,))
    outer, inner = outer_and_inner_axis_groups(groups, 2)
    target = stage if staged else out
    launch = bind(
        x.as_strided((outer[0], first[0], inner[0]), (outer[1][0], first[1][0], inner[1][0])),
        target.as_strided((outer[0], inner[0]), (outer[1][1], inner[1][1])),
    )
    if not staged:
        return launch
    rest = [run for i, run in enumerate(runs) if i != position]
    rest_out = out.as_strided(
        [size for size, _, is_reduced in rest if not is_reduced],
        [strides[1] for _, strides, is_reduced in rest if not is_reduced],
    )
    rest_dims = tuple(i for i, run in enumerate(rest) if run[2])
    further = bind_reduction(bind, stage, rest_out, rest_dims, stage_dtype)
    if not (isinstance(launch, RebindableLaunch) and isinstance(further, RebindableLaunch)):
        return keeping_alive(chain_launches(launch, further), stage)
    into, out_of = launch.at, further.at
    # The address is looked up each time, since on the host only a launch keeps the buffer.
    at = chain_under_lock(lambda x, out: into(x, stage.data_ptr()), lambda x, out: out_of(stage.data_ptr(), out))
    own = [tensor for step in (launch, further) if isinstance(step, WorkspaceLaunch) for tensor in step.workspace]
    return WorkspaceLaunch(at, launch.tensors[0], further.tensors[-1], workspace=(stage, *own))


def split_in_two(
    bind: Callable[..., Launch], tensors: Sequence[torch.Tensor], axes: Sequence[tuple[str, ...]]
) -> Launch:
    """Bind canonical tensors in two halves, if a grid is too small for all rows. ``axes``: names per tensor."""
    x = tensors[0]
    axis = 0 if x.size(0) >= x.size(2) else 2
    half = x.size(axis) // 512 * 256  # keeps both halves equally aligned
    name = ("outer", "", "inner")[axis]
    parts = ((0, half), (half, x.size(axis) - half))

    def part(tensor: torch.Tensor, names: tuple[str, ...], start: int, size: int) -> torch.Tensor:
        return tensor.narrow(names.index(name), start, size) if name in names else tensor

    return chain_launches(*(bind(*(part(t, names, *p) for t, names in zip(tensors, axes, strict=True))) for p in parts))
