"""The minimum along axes, as ``torch.amin``: a NaN counts as less than everything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelzoo.errors import EmptyReductionError
from kernelzoo.launch import Bind, Launch, owning, sequence
from kernelzoo.operations.canonical import merge, outer_inner, readable, runs_of, through_copies
from kernelzoo.operations.expected import Expected
from kernelzoo.operations.memory import distinct
from kernelzoo.operations.operation import FLOATS, INTEGERS, Caller, Dims, Operation, axes_of
from kernelzoo.operations.sampling import plain

if TYPE_CHECKING:
    import torch


class Min(Operation):
    """The minimum along one or several axes: the values, as ``torch.amin``."""

    name = "min"
    dtypes = FLOATS + INTEGERS
    in_torch = "amin"
    reduces = several_axes = needs_element = True
    rounds = False
    special_value = -20.0

    def check(self, x: torch.Tensor, dim: Dims) -> tuple[int, ...]:
        dims = super().check(x, dim)
        shape = tuple(x.shape)
        for d in dims:
            if d < len(shape) and shape[d] == 0:
                raise EmptyReductionError(
                    f"the minimum of nothing: axis {d} of shape {shape} is empty; a reduced axis needs an element"
                )
        return dims

    def allocate(self, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        return x.new_empty(self.out_shape(tuple(x.shape), dims, keepdim))

    def out_shape(self, shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
        if keepdim:
            return tuple(1 if d in dims else size for d, size in enumerate(shape))
        return tuple(size for d, size in enumerate(shape) if d not in dims)

    def launch(self, bind: Bind, x: torch.Tensor, dims: tuple[int, ...], out: torch.Tensor) -> Launch:
        x, before = readable(x)
        if x.ndim == 0:
            x, out, dims = x.view(1), out.view(()), (0,)
        if out.ndim == x.ndim:  # keepdim: the reduced axes, of size 1, say nothing
            kept_dims = [d for d in range(out.ndim) if d not in dims]
            out = out.as_strided([out.size(d) for d in kept_dims], [out.stride(d) for d in kept_dims])
        out_strides = iter(out.stride())
        axes = [
            (x.size(d), x.stride(d), 0, True) if d in dims else (x.size(d), x.stride(d), next(out_strides), False)
            for d in range(x.ndim)
        ]
        runs = runs_of(axes)
        reduced = [run for run in runs if run[3]] or [(1, 1, 0, True)]
        # Several reduced axes that are not one in memory are reduced in turn, the one of the smallest stride (the
        # cheapest to read) first, which leaves the least for the others; a minimum does not care for the order.
        first = min(reduced, key=lambda run: (run[1] == 0, run[1]))
        position = runs.index(first) if first in runs else len(runs)
        kept = [
            (size, stride, out_stride, i > position)
            for i, (size, stride, out_stride, _) in enumerate(runs)
            if i != position
        ]
        staged = len(reduced) > 1
        if staged:
            stage = x.new_empty([size for size, *_ in kept])
            kept = [
                (size, stride, stride2, after)
                for (size, stride, _, after), stride2 in zip(kept, stage.stride(), strict=True)
            ]
        groups = merge(kept)
        if len(groups) > 2:
            return sequence(before, through_copies(lambda x, out: self.launch(bind, x, dims, out), x, out))
        outer, inner = outer_inner(groups)
        target = stage if staged else out
        launch = bind(
            x.as_strided((outer[0], first[0], inner[0]), (outer[1], first[1], inner[1])),
            target.as_strided((outer[0], inner[0]), (outer[2], inner[2])),
        )
        if not staged:
            return sequence(before, launch)
        rest = [run for i, run in enumerate(runs) if i != position]
        rest_dims = tuple(i for i, run in enumerate(rest) if run[3])
        rest_out = out.as_strided(
            [size for size, _, _, is_reduced in rest if not is_reduced],
            [stride for _, _, stride, is_reduced in rest if not is_reduced],
        )
        return owning(sequence(before, launch, self.launch(bind, stage, rest_dims, rest_out)), stage)

    def reference(self, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> torch.Tensor:
        import torch

        return torch.amin(x, axes_of(dim, x.ndim), keepdim=keepdim)  # a minimum rounds nothing: exact in any dtype

    def expect(self, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> Expected:
        """Equal by value: -0.0 equals +0.0, NaN exactly where it must be."""
        expected = self.reference(x, dim, keepdim)
        return Expected(self.name, expected, expected)

    def bytes_moved(self, x: torch.Tensor, dim: Dims = -1) -> int:
        dims = axes_of(dim, x.ndim)
        return (distinct(x) + math.prod(self.out_shape(tuple(x.shape), dims, False))) * x.element_size()

    def sample(self, shape: tuple[int, ...], dtype: str, dim: Dims = -1, *, generator: torch.Generator) -> torch.Tensor:
        return plain(shape, dtype, dim, generator=generator)


MIN = Min()


class MinCall(Caller):
    """The method of a backend that calls it."""

    def min(
        self,
        x: torch.Tensor,
        dim: Dims = -1,
        keepdim: bool = False,
        *,
        variant: str = "auto",
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Minimum of ``x`` along one axis or a tuple of axes (an empty tuple: all of them), as ``torch.amin``.

        x: float16, bfloat16, float32, float64, bool, uint8 or int8 to int64, any rank. Returns the values only, with
        x's dtype. A NaN in the reduced axis gives NaN. Raises EmptyReductionError if the reduced axis is empty.
        """
        return self._run(MIN, x, dim, keepdim, variant, out)
