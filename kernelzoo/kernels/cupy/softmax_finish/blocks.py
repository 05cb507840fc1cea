"""A softmax's rows by pairs that are known: a block to a share of a row, one read, one write."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type, packs, width
from kernelzoo.layout import Rows, Strides, cdiv
from kernelzoo.registry import register

MOST_THREADS, ITEMS = 256, 4
"""Of a block, and packs of a thread."""


@register("cupy", "softmax_finish", "blocks")
@planned()
def blocks(rows: Rows, maximum: Strides, total: Strides, device: Device, _: None) -> Plan:
    """A block to a share of a row: one read, one write."""
    count = packs(rows)
    threads = min(MOST_THREADS, cdiv(count, ITEMS * WARP) * WARP)
    shares = cdiv(count, threads * ITEMS)
    kernel = f"blocks<{c_type(rows)}, {width(rows)}, {ITEMS}>"
    step = Step(kernel, rows.total * shares, threads, ((I32, shares),))
    return Plan(rows, (step,), others=(maximum, total), wide=(1, 2))
