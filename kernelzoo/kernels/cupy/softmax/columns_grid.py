"""Softmax of columns that several blocks of one co-operative launch share."""

from __future__ import annotations

import ctypes

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Argument, Plan, Step, bind
from kernelzoo.kernels.cupy.rows import c_type, columns_of
from kernelzoo.kernels.cupy.softmax.column_tiles import block_of, held_items, tiles_of
from kernelzoo.kernels.cupy.softmax.pairs import pair_bytes
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register

THREADS, BLOCKS = 256, 2
"""Of a block, and blocks that always fit on an SM: the kernel is bound to 128 registers."""

MOST_ITEMS = 8
"""Elements of its column that a thread holds in registers."""


@register("cupy", "softmax", "columns_grid")
def columns_grid(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Columns that several blocks share, which run side by side and meet through device memory."""
    return bind(__file__, plan, None, x, out)


def plan(rows: Rows, device: Device, table: None) -> Plan:
    columns = columns_of("cupy/softmax/columns_grid", rows)
    lanes, threads = block_of(columns, THREADS)
    tiles, resident = tiles_of(columns, THREADS), BLOCKS * device.multiprocessors
    items = min(MOST_ITEMS, held_items(columns))
    share = threads // lanes * items  # elements of one column that a block holds
    chunks = max(1, min(cdiv(columns.n, share), resident // min(tiles, resident)))
    groups = min(tiles, resident // chunks)
    kernel = f"columns<{c_type(columns)}, {columns.vector}, {items}, true>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, chunks), (ctypes.c_int32, lanes))
    step = Step(kernel, groups * chunks, threads, arguments, cooperative=True)
    return Plan(columns, (step,), tiles * chunks * lanes * columns.vector * pair_bytes(columns), tiles * 8)
