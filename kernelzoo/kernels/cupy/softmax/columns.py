"""Softmax of columns, rows that lie side by side: a block holds whole ones in registers, or reads the rest again."""

from __future__ import annotations

import ctypes

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Argument, Plan, Step, bind
from kernelzoo.kernels.cupy.rows import columns_of
from kernelzoo.kernels.cupy.softmax.column_strips import whole
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "softmax", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Neighbouring columns by a block whose lanes run along them, in registers as far as they fit."""
    return bind(__file__, plan, None, x, out)


def plan(rows: Rows, device: Device, table: None) -> Plan:
    columns = columns_of("cupy/softmax/columns", rows)
    strip = whole(columns)
    no_other: tuple[Argument, ...] = ((ctypes.c_int64, 0), (ctypes.c_int32, 1))  # block to meet
    step = Step(strip.kernel(columns, False), columns.strips(strip.lanes * columns.vector), strip.threads, no_other)
    return Plan(columns, (step,))
