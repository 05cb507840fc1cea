"""The special values of each dtype, a rule of the contract each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def special_rows(dtype: str) -> dict[str, Callable[[torch.Tensor], object]]:
    """The special values that a dtype has, one rule of the contract each: its name, and what writes it into a plain
    row, a tensor of one axis. The rules that kernels break most often come first."""
    import torch

    kind = getattr(torch, dtype)
    if dtype == "bool":
        return {
            "true alone": lambda row: row.fill_(True),
            "false alone": lambda row: row.fill_(False),
            "true, false at the end": lambda row: (row.fill_(True), row[-1].fill_(False)),
        }
    if not kind.is_floating_point:
        least, most = torch.iinfo(kind).min, torch.iinfo(kind).max
        return {
            "the largest value alone": lambda row: row.fill_(most),  # the identity itself, everywhere
            "the smallest value at the end": lambda row: row[-1].fill_(least),
            "the smallest value at the start": lambda row: row[0].fill_(least),
            "the smallest value alone": lambda row: row.fill_(least),
            "zeros": lambda row: row.fill_(0),
        }
    info, inf, nan = torch.finfo(kind), math.inf, math.nan
    return {
        "a NaN": lambda row: row[row.numel() // 2].fill_(nan),
        "+inf": lambda row: row[row.numel() // 2].fill_(inf),
        "-inf alone": lambda row: row.fill_(-inf),
        # Whole blocks of -inf in a legal row, in front, behind, and everywhere but once.
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
        "an offset": lambda row: row.add_(1000.0),  # common to the row, it changes nothing in a softmax
        # Below zero, what stands for "nothing read yet" must not pass for the maximum.
        "a negative offset": lambda row: row.sub_(1000.0),
        "a negative offset, -inf in the front half": lambda row: (
            row.sub_(1000.0),
            row[: row.numel() // 2].fill_(-inf),
        ),
        "a constant": lambda row: row.fill_(3.0),
        "+inf, NaN at the end": lambda row: (row[row.numel() // 2].fill_(inf), row[-1].fill_(nan)),
        "-inf at the start": lambda row: row[0].fill_(-inf),
    }


def _negative_nan(kind: torch.dtype) -> torch.Tensor:
    """A NaN with the sign bit set and a payload: all ones."""
    import torch

    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
    return torch.tensor(-1, dtype=integer).view(kind)
