"""A test of whether an operation's bounds reject wrong results."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from kernelzoo.check.cases_others import axis_sizes
from kernelzoo.errors import ContractError, NoRoomError, OperationError, UndecidableError
from kernelzoo.lazy import torch
from kernelzoo.operations import Operation
from kernelzoo.operations.expected import bounds_dtype

_LENGTH, _ROWS = 65536, 4
"""Length and number of the rows to try. Named axes take the largest of ``axis_sizes``."""

WRONG: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zeros": lambda right: right * 0,
    "each row in the place of the next": lambda right: right.roll(1, 0) if right.ndim else right,
    "results that are 1 % too large": lambda right: right + right / 100 if right.is_floating_point() else right + 1,
}
"""Wrong results that bounds must reject, by name."""


def accepted_wrong_results(operation: Operation) -> tuple[str, ...]:
    """Return names of the :data:`WRONG` results that the bounds accept; none if a function of the operation fails."""
    with suppress(OperationError, NoRoomError, MemoryError, UndecidableError):
        kind = next((name for name in ("float32", "bfloat16") if name in operation.dtypes), operation.dtypes[0])
        shape: tuple[int, ...] = (_ROWS, _LENGTH)
        sizes: dict[str, int] = {}
        if not operation.by_rows:
            sizes = max(axis_sizes(operation), key=lambda sizes: math.prod(sizes.values()))
            shape = operation.first_input_shape(sizes)
        inputs = operation.sample(shape, kind, generator=torch.Generator().manual_seed(0), sizes=sizes)
        args = operation.arguments(inputs)
        expected = operation.expect(args)
        if operation.undecidable(args, expected):
            return ()
        results, dtypes = operation.reference(args), operation.out_dtypes(args)
        right = tuple(result.to(dtype).to(bounds_dtype(dtype)) for result, dtype in zip(results, dtypes, strict=True))
        accepted = []
        for name, wrong in WRONG.items():
            made = tuple(wrong(out).to(dtype) for out, dtype in zip(right, dtypes, strict=True))
            if all(torch.equal(a.to(b.dtype), b) for a, b in zip(made, right, strict=True)):
                continue  # it equals the right result: one row, or all zeros
            try:
                expected.check(made)
            except ContractError:
                continue
            accepted.append(name)
        return tuple(accepted)
    return ()
