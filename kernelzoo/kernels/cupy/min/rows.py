"""The simple form: a block to a row, and each tile of the row reduced to a scalar before the next is read."""

from __future__ import annotations

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, Step, bind
from kernelzoo.kernels.cupy.min.blocks import ITEMS, THREADS, threads
from kernelzoo.kernels.cupy.rows import c_type, packs, width
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One block per row; each tile of it is reduced to a scalar before the next is read."""
    return bind(__file__, plan, None, x, out)


def plan(rows: Rows, device: Device, numbers: None) -> Plan:
    kernel = f"rows<{c_type(rows)}, {width(rows)}, {ITEMS}>"
    return Plan(rows, (Step(kernel, rows.total, threads(packs(rows), THREADS)),))
