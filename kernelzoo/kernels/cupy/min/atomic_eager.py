"""The reduced axis spread over the chip: each row's minimum of a block's columns goes out by an atomic at once."""

from __future__ import annotations

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, bind
from kernelzoo.kernels.cupy.min.atomics import TILE_ROWS, chunks_of, plan_of
from kernelzoo.kernels.cupy.min.blocks import Numbers
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register


@register("cupy", "min", "atomic_eager")
def atomic_eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The reduced axis spread over the chip; each row's minimum goes out by an atomic at once."""
    return bind(__file__, plan, Numbers, x, out)


def plan(rows: Rows, device: Device, numbers: Numbers) -> Plan:
    chunks = chunks_of(rows, device, numbers)
    groups = max(1, numbers.blocks_per_sm * device.multiprocessors // chunks)
    return plan_of("atomic_eager", rows, chunks, min(cdiv(rows.total, TILE_ROWS), groups))
