"""Tensors in canonical form for references: reshaped, copied where needed, and cut into parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import ArgumentBinder, Arguments
from kernelzoo.operations.declared import ROW


class CanonicalInputs:
    """The inputs of a call in canonical form. :meth:`restore_shape` restores an output to its own shape."""

    def __init__(self, op: ArgumentBinder, args: Arguments) -> None:
        self._shapes = op.out_shapes(args)
        inputs = [x.resolve_neg() for x in args.inputs]
        self.inputs: list[torch.Tensor] = inputs
        self.out_shapes = list(self._shapes)
        """Shapes of the outputs in canonical form."""
        if not op.by_rows:
            return
        x, dims = inputs[0], args.dims
        shape = tuple(x.shape)
        if len(dims) > 1 or not dims:  # move the reduced axes to the end, and merge them
            kept = [d for d in range(x.ndim) if d not in dims]
            x = x.permute((*kept, *dims))
            outer, n, inner = math.prod(shape[d] for d in kept), math.prod(shape[d] for d in dims), 1
        elif not shape:
            outer, n, inner = 1, 1, 1
        else:
            (dim,) = dims
            outer, n, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
        sizes = {ROW: (outer, n, inner), ("outer", "inner"): (outer, inner)}
        self.inputs = [
            (x if i == 0 else tensor).reshape(sizes.get(names, tensor.shape))
            for i, (names, tensor) in enumerate(zip(op.axes, inputs, strict=False))
        ]
        outs = zip(op.axes[len(inputs) :], self._shapes, strict=True)
        self.out_shapes = [sizes.get(names, shape) for names, shape in outs]

    def restore_shape(self, number: int, out: torch.Tensor) -> torch.Tensor:
        """Return an output in canonical form in its own shape."""
        return out.reshape(self._shapes[number])


_PART = {"cpu": 2**20, "cuda": 2**24}
"""The most elements of a float64 temporary: 8 MB on the host, 128 MB on a GPU. There are about five at once."""


def split_rows(
    by_rows: bool, axes: Sequence[tuple[str, ...]], tensors: Sequence[torch.Tensor], inputs: int
) -> Iterable[list[torch.Tensor]]:
    """Split tensors in canonical form into groups of rows: at most _PART elements of the first tensor, or one row.

    ``inputs``: the number of input tensors. If an output is a sum over rows, there is just one group.
    """
    x = tensors[0]
    count = -(-x.numel() // _PART.get(x.device.type, _PART["cpu"]))
    over_rows = any("outer" not in names for names in axes[inputs:])
    if not by_rows or count <= 1 or over_rows:
        return [list(tensors)]
    axis = "outer" if x.size(0) >= x.size(2) else "inner"
    chunks = [
        list(t.chunk(count, names.index(axis))) if axis in names else None
        for names, t in zip(axes, tensors, strict=True)
    ]
    pieces = max(len(chunk) for chunk in chunks if chunk is not None)
    return ([t if chunk is None else chunk[i] for t, chunk in zip(tensors, chunks, strict=True)] for i in range(pieces))
