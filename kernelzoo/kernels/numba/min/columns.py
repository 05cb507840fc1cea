"""Whole columns, each by one block: the rows of a strip, read in vectors across them, go down its threads."""

from __future__ import annotations

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.numba.launch import BindView, View, planned
from kernelzoo.kernels.numba.min.strips import Numbers, by_strips
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("numba", "min", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Columns by strips, each of them whole by one block."""
    return planned(plan, Numbers, x, out)


def plan(v: View, device: Device, numbers: Numbers) -> BindView:
    return by_strips("numba/min/columns", v, device, numbers, 1)
