"""Inputs that Hypothesis draws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelzoo import operations
from kernelzoo.operations.sampling import plain

if TYPE_CHECKING:
    import torch
    from hypothesis.strategies import SearchStrategy


def tensors(op: str, largest: int = 9) -> SearchStrategy[torch.Tensor]:
    """A Hypothesis strategy: tensors on the CPU of every dtype of an operation, and of any rank to 5, each axis at most
    ``largest`` long: permuted, sliced, stepped, expanded; special values among the floats. Needs Hypothesis."""
    import torch
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: st.DrawFn) -> torch.Tensor:
        dtype = draw(st.sampled_from(operations.OPERATIONS[op].dtypes))
        shape = tuple(draw(st.lists(st.integers(1, largest), min_size=0, max_size=5)))
        while math.prod(shape) > 2000:  # what an interpreter runs in a moment
            shape = shape[:-1]
        x = plain(shape, dtype, (), generator=torch.Generator().manual_seed(draw(st.integers(0, 2**31))))
        if dtype in operations.FLOATS:
            info = torch.finfo(x.dtype)
            special = (math.nan, math.inf, -math.inf, -0.0, 0.0, info.max, -info.max, info.tiny, -info.tiny / 4)
            flat = x.view(-1)
            for _ in range(draw(st.integers(0, 3))):
                flat[draw(st.integers(0, x.numel() - 1))] = draw(st.sampled_from(special))
        if shape:
            x = x.permute(draw(st.permutations(range(len(shape)))))
            x = x[tuple(slice(draw(st.integers(0, size - 1)), None, draw(st.integers(1, 3))) for size in x.shape)]
            axis = draw(st.integers(0, x.ndim - 1))
            if x.size(axis) == 1:
                x = x.expand(*(3 if d == axis else -1 for d in range(x.ndim)))
        return x

    return drawn()
