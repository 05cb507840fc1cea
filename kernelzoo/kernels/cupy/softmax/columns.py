"""Softmax of columns, rows that lie side by side: a block holds whole ones in registers, or reads the rest again."""

from __future__ import annotations

import ctypes

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Argument, Plan, Step, bind
from kernelzoo.kernels.cupy.rows import c_type, columns_of
from kernelzoo.kernels.cupy.softmax.column_tiles import block_of, held_items, most_threads, tiles_of
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "softmax", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Neighbouring columns by a block whose lanes run along them, in registers as far as they fit."""
    return bind(__file__, plan, None, x, out)


def plan(rows: Rows, device: Device, table: None) -> Plan:
    columns = columns_of("cupy/softmax/columns", rows)
    most = most_threads(columns)
    lanes, threads = block_of(columns, most)
    kernel = f"columns<{c_type(columns)}, {columns.vector}, {held_items(columns)}, false>"
    # No other block to meet.
    arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, 1), (ctypes.c_int32, lanes))
    return Plan(columns, (Step(kernel, tiles_of(columns, most), threads, arguments),))
