"""The special values of each dtype, one for each rule of the contract. No torch is imported to list them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from kernelzoo.check.bits import bits
from kernelzoo.lazy import torch

Write: TypeAlias = "Callable[[torch.Tensor], object]"
"""A function that writes a special value into a plain row."""


def special_rows(dtype: str) -> dict[str, Write]:
    """Return functions by name, each of which writes a special value of a dtype into a plain row.

    The rules that kernels break most often come first. Values that fit anywhere go to an index that old values choose.
    """
    if dtype == "bool":
        return _BOOLS
    if "float" not in dtype:
        return _INTEGERS
    return {name: write for name, write in FLOATS.items() if dtype == "float64" or name != _OF_FLOAT64}


def _info(row: torch.Tensor) -> Any:
    return torch.finfo(row.dtype) if row.is_floating_point() else torch.iinfo(row.dtype)


def _place_values(row: torch.Tensor, rest: float | torch.Tensor, *values: float) -> None:
    """Fill a row with ``rest``, and put ``values`` at indices that depend on the row's old values."""
    steps = torch.arange(1, row.numel() + 1, device=row.device)
    place = int((bits(row).long() * steps).sum())
    row.copy_(rest) if isinstance(rest, torch.Tensor) else row.fill_(rest)
    for i, value in enumerate(values):
        row[(place + i * row.numel() // 2) % row.numel()] = value


def _write_falling_steps(row: torch.Tensor, depth: float) -> None:
    row.copy_(torch.linspace(0, -depth, row.numel(), dtype=torch.float64, device=row.device))


def _scale_row(row: torch.Tensor, scale: float) -> None:
    info = _info(row)
    row.mul_(scale).clamp_(-info.max, info.max)


_OF_FLOAT64 = "a ladder down to -745"

FLOATS: dict[str, Write] = {
    "a NaN": lambda row: row[row.numel() // 2].fill_(math.nan),
    "+inf": lambda row: row[row.numel() // 2].fill_(math.inf),
    "-inf alone": lambda row: row.fill_(-math.inf),
    # Long runs of -inf in a legal row: in the front half, in the back half, and everywhere except at one element.
    "-inf in the front half": lambda row: row[: row.numel() // 2].fill_(-math.inf),
    "a NaN with its sign bit set, at the start": lambda row: bits(row[:1]).fill_(-1),  # and a payload of ones
    "-inf at the start, NaN at the end": lambda row: (row[0].fill_(-math.inf), row[-1].fill_(math.nan)),
    "-inf in the back half": lambda row: row[row.numel() // 2 :].fill_(-math.inf),
    "-inf but for the end": lambda row: (row.fill_(-math.inf), row[-1].fill_(1.0)),
    "+inf alone": lambda row: row.fill_(math.inf),
    "NaN alone": lambda row: row.fill_(math.nan),
    "zeros of both signs": lambda row: (row.fill_(-0.0), row[::2].fill_(0.0)),
    "the largest value alone": lambda row: row.fill_(_info(row).max),
    "the largest value, the smallest after it": lambda row: (row.fill_(-_info(row).max), row[0].fill_(_info(row).max)),
    "normal and subnormal": lambda row: (row.fill_(_info(row).tiny), row[::2].fill_(-_info(row).tiny / 2)),
    "an offset": lambda row: row.add_(1000.0),  # a common offset does not change a softmax
    # Below zero, a placeholder for "nothing read yet" must not become the maximum.
    "a negative offset": lambda row: row.sub_(1000.0),
    "a negative offset, -inf in the front half": lambda row: (
        row.sub_(1000.0),
        row[: row.numel() // 2].fill_(-math.inf),
    ),
    "a constant": lambda row: row.fill_(3.0),
    "+inf, NaN at the end": lambda row: (row[row.numel() // 2].fill_(math.inf), row[-1].fill_(math.nan)),
    "-inf at the start": lambda row: row[0].fill_(-math.inf),
    # Exponentials down to the least of float32 or float64, and equal values whose own exponential overflows or
    # vanishes. Also values of other sizes, values one bit apart, and values that flush to zero.
    "a ladder down to -103": lambda row: _write_falling_steps(row, 103),
    _OF_FLOAT64: lambda row: _write_falling_steps(row, 745),
    **{f"{value} alone": partial(_place_values, rest=value) for value in (100, -100, 500, -500)},
    **{f"times {scale:g}": partial(_scale_row, scale=scale) for scale in (1e-8, 1e-4, 1e-2, 1e2, 1e4)},
    "neighbours": lambda row: _place_values(row, 1, 1 - _info(row).eps / 2, 1 + _info(row).eps),
    "one subnormal, the least": lambda row: _place_values(row, row.abs() + 1, _info(row).tiny / 2),
    "one subnormal, the greatest": lambda row: _place_values(row, -row.abs() - 1, -_info(row).tiny / 2),
}
"""The special values of floats. One is for float64 only."""

_INTEGERS: dict[str, Write] = {
    "the largest value alone": lambda row: row.fill_(_info(row).max),  # equals the identity everywhere
    "the smallest value at the end": lambda row: row[-1].fill_(_info(row).min),
    "the smallest value at the start": lambda row: row[0].fill_(_info(row).min),
    "the smallest value alone": lambda row: row.fill_(_info(row).min),
    "zeros": lambda row: row.fill_(0),
    "neighbours of the largest": lambda row: _place_values(row, _info(row).max, _info(row).max - 1),
    "neighbours of the smallest": lambda row: _place_values(row, _info(row).min + 1, _info(row).min),
}

_BOOLS: dict[str, Write] = {
    "true alone": lambda row: row.fill_(True),
    "false alone": lambda row: row.fill_(False),
    "true, false at the end": lambda row: (row.fill_(True), row[-1].fill_(False)),
    "true but for one": lambda row: _place_values(row, True, False),
    "false but for one": lambda row: _place_values(row, False, True),
}
