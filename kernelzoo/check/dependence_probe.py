"""A test of whether a launch reads all of a long row: one element of the input decides the result."""

from __future__ import annotations

from collections.abc import Sequence

from kernelzoo.check.bits import poison_like
from kernelzoo.errors import ContractError, replace_message
from kernelzoo.launch import Launch
from kernelzoo.lazy import torch
from kernelzoo.operations import Arguments, Operation
from kernelzoo.operations.sampling import random_places

PROBES = 128
"""The number of elements probed in a long row. If 1/50 of the row is unread, 128 random places miss that in 8 of 100
cases. One place in each 128th of the row never misses a contiguous 1/50."""

_LONG = 2**19


def probe_all_elements(
    operation: Operation,
    args: Arguments,
    launch: Launch,
    outs: Sequence[torch.Tensor],
    generator: torch.Generator | None = None,
) -> None:
    """Check that a launch reads all of each long row. Each round lets one element decide the result, and launches.

    A sum depends on every element anyway, so operations that round need fewer rounds. Raises ContractError. Restores x.
    """
    x = args.x
    declared = next(iter(operation.inputs.values()))
    rows = outs[0].numel()
    if not operation.reduces or not x.is_contiguous() or len(args.dims) != 1 or x.numel() // rows < _LONG:
        return
    if declared.low is not None or declared.high is not None:
        return
    low, is_bool = operation.decisive < 0, x.dtype == torch.bool
    kept = x.clone()
    if is_bool:
        x.fill_(low)
    elif not x.is_floating_point():  # leaves room for one value below and one above
        x.clamp_(torch.iinfo(x.dtype).min + 1, torch.iinfo(x.dtype).max - 1)
    most = x.amin(args.dims, keepdim=True) if low else x.amax(args.dims, keepdim=True)
    decisive = ~most if is_bool else most - 1 if low else most + 1
    generator = generator or torch.Generator(x.device).manual_seed(x.numel())
    count = -(-(PROBES // 8 if operation.rounds else PROBES) // rows)
    for i in range(count):
        place = random_places(x, args.dims, generator, (i, count))
        before = x[place]
        x[place] = decisive
        for out in outs:
            out.copy_(poison_like(out))
        launch()
        try:
            operation.expect(args).check(outs)
        except ContractError as error:
            where = tuple(int(index.expand(before.shape).flatten()[0]) for index in place)
            raise replace_message(error, f"wrong where the element at {where} of a long row decides: {error}") from None
        x[place] = before
    x.copy_(kept)
