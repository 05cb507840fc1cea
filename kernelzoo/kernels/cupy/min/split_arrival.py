"""Few, long rows: several blocks to each leave partial minima behind, and the last to arrive reduces them."""

from __future__ import annotations

import ctypes

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Argument, Plan, Step, bind
from kernelzoo.kernels.cupy.min.blocks import ITEMS, THREADS, Numbers, threads
from kernelzoo.kernels.cupy.rows import c_type, packs, width
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register


@register("cupy", "min", "split_arrival")
def split_arrival(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks per row leave partial minima behind, and the last to arrive reduces them: one launch."""
    return bind(__file__, plan, Numbers, x, out)


def plan(rows: Rows, device: Device, numbers: Numbers) -> Plan:
    taken, blocks = packs(rows), numbers.blocks_per_sm * device.multiprocessors
    # One wave of blocks, each with a batch of loads at least.
    chunks = max(1, min(cdiv(taken, THREADS * ITEMS), blocks // min(blocks, rows.total)))
    kernel = f"split_arrival<{c_type(rows)}, {width(rows)}, {ITEMS}>"
    arguments: tuple[Argument, ...] = ("partial", "counters", (ctypes.c_int32, chunks))
    step = Step(kernel, rows.total * chunks, threads(cdiv(taken, chunks), THREADS), arguments)
    return Plan(rows, (step,), rows.total * chunks * 8, rows.total * 4)
