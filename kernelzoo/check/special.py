"""The special values of each dtype, one for each rule of the contract."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


FLOAT_RULES = (
    "a NaN",
    "+inf",
    "-inf alone",
    "-inf in the front half",
    "a NaN with its sign bit set, at the start",
    "-inf at the start, NaN at the end",
    "-inf in the back half",
    "-inf but for the end",
    "+inf alone",
    "NaN alone",
    "zeros of both signs",
    "the largest value alone",
    "the largest value, the smallest after it",
    "normal and subnormal",
    "an offset",
    "a negative offset",
    "a negative offset, -inf in the front half",
    "a constant",
    "+inf, NaN at the end",
    "-inf at the start",
    "a ladder down to -103",
    "100 alone",
    "-100 alone",
    "500 alone",
    "-500 alone",
    "times 1e-08",
    "times 0.0001",
    "times 0.01",
    "times 100",
    "times 10000",
    "neighbours",
    "one subnormal, the least",
    "one subnormal, the greatest",
)
"""Rule names for floats up to 32 bits, for lists of cases that import no torch."""


def rules(dtype: str) -> tuple[str, ...]:
    """Names of the special values of a dtype."""
    return FLOAT_RULES if dtype in ("float16", "bfloat16", "float32") else tuple(special_rows(dtype))


def special_rows(dtype: str) -> dict[str, Callable[[torch.Tensor], object]]:
    """A function for each special value of a dtype, by name, which writes it into a plain row.

    The rules that kernels break most often come first. Where the place is free, the row's values decide it.
    """
    import torch

    from kernelzoo.check.bits import bits

    def among(row: torch.Tensor, rest: float | torch.Tensor, *values: float) -> None:
        """Fill a row with ``rest``, and put these values at places that its values decide."""
        steps = torch.arange(1, row.numel() + 1, device=row.device)
        place = int((bits(row).long() * steps).sum())
        row.copy_(rest) if isinstance(rest, torch.Tensor) else row.fill_(rest)
        for i, value in enumerate(values):
            row[(place + i * row.numel() // 2) % row.numel()] = value

    kind = getattr(torch, dtype)
    if dtype == "bool":
        return {
            "true alone": lambda row: row.fill_(True),
            "false alone": lambda row: row.fill_(False),
            "true, false at the end": lambda row: (row.fill_(True), row[-1].fill_(False)),
            "true but for one": lambda row: among(row, True, False),
            "false but for one": lambda row: among(row, False, True),
        }
    if not kind.is_floating_point:
        least, most = torch.iinfo(kind).min, torch.iinfo(kind).max
        return {
            "the largest value alone": lambda row: row.fill_(most),  # equals the identity everywhere
            "the smallest value at the end": lambda row: row[-1].fill_(least),
            "the smallest value at the start": lambda row: row[0].fill_(least),
            "the smallest value alone": lambda row: row.fill_(least),
            "zeros": lambda row: row.fill_(0),
            "neighbours of the largest": lambda row: among(row, most, most - 1),
            "neighbours of the smallest": lambda row: among(row, least + 1, least),
        }
    info, inf, nan = torch.finfo(kind), math.inf, math.nan

    def ladder(row: torch.Tensor, depth: float) -> None:
        row.copy_(torch.linspace(0, -depth, row.numel(), dtype=torch.float64, device=row.device))

    # Exponentials down to the least of float32 or float64, and equal values whose own exponential overflows or
    # vanishes.
    # Also values of other sizes, values one bit apart, and values that flush to zero.
    wider: dict[str, Callable[[torch.Tensor], object]] = {
        "a ladder down to -103": lambda row: ladder(row, 103),
        **({"a ladder down to -745": lambda row: ladder(row, 745)} if dtype == "float64" else {}),
        **{f"{value} alone": partial(_filled, value=value) for value in (100, -100, 500, -500)},
        **{f"times {scale:g}": partial(_scaled, scale=scale) for scale in (1e-8, 1e-4, 1e-2, 1e2, 1e4)},
        "neighbours": lambda row: among(row, 1, 1 - info.eps / 2, 1 + info.eps),
        "one subnormal, the least": lambda row: among(row, row.abs() + 1, info.tiny / 2),
        "one subnormal, the greatest": lambda row: among(row, -row.abs() - 1, -info.tiny / 2),
    }
    return {
        "a NaN": lambda row: row[row.numel() // 2].fill_(nan),
        "+inf": lambda row: row[row.numel() // 2].fill_(inf),
        "-inf alone": lambda row: row.fill_(-inf),
        # Whole blocks of -inf in a legal row: in front, behind, and everywhere but once.
        "-inf in the front half": lambda row: row[: row.numel() // 2].fill_(-inf),
        "a NaN with its sign bit set, at the start": lambda row: row[0].copy_(_negative_nan(kind)),
        "-inf at the start, NaN at the end": lambda row: (row[0].fill_(-inf), row[-1].fill_(nan)),
        "-inf in the back half": lambda row: row[row.numel() // 2 :].fill_(-inf),
        "-inf but for the end": lambda row: (row.fill_(-inf), row[-1].fill_(1.0)),
        "+inf alone": lambda row: row.fill_(inf),
        "NaN alone": lambda row: row.fill_(nan),
        "zeros of both signs": lambda row: (row.fill_(-0.0), row[::2].fill_(0.0)),
        "the largest value alone": lambda row: row.fill_(info.max),
        "the largest value, the smallest after it": lambda row: (row.fill_(-info.max), row[0].fill_(info.max)),
        "normal and subnormal": lambda row: (row.fill_(info.tiny), row[::2].fill_(-info.tiny / 2)),
        "an offset": lambda row: row.add_(1000.0),  # a common offset does not change a softmax
        # Below zero, a placeholder for "nothing read yet" must not become the maximum.
        "a negative offset": lambda row: row.sub_(1000.0),
        "a negative offset, -inf in the front half": lambda row: (
            row.sub_(1000.0),
            row[: row.numel() // 2].fill_(-inf),
        ),
        "a constant": lambda row: row.fill_(3.0),
        "+inf, NaN at the end": lambda row: (row[row.numel() // 2].fill_(inf), row[-1].fill_(nan)),
        "-inf at the start": lambda row: row[0].fill_(-inf),
        **wider,
    }


def _filled(row: torch.Tensor, value: float) -> None:
    row.fill_(value)


def _scaled(row: torch.Tensor, scale: float) -> None:
    import torch

    info = torch.finfo(row.dtype)
    row.mul_(scale).clamp_(-info.max, info.max)


def _negative_nan(kind: torch.dtype) -> torch.Tensor:
    """A NaN with the sign bit set and a payload: all ones."""
    import torch

    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
    return torch.tensor(-1, dtype=integer).view(kind)
