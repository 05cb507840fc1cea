"""The gradient of a minimum with one block per row, of whose elements a bit each stays in registers: read once."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.gradients.rows import packs, threads, width
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register

MOST_ITEMS = {1: 8, 2: 64, 4: 64, 8: 32}
"""Packs of a row that a thread has at most, by the elements of one: of a pack's eight registers of bits at most."""
MOST_ITEMS_NEW = 8

USUAL_THREADS = 512
"""Of a block, of which an SM has two: larger ones are for rows alone that need them."""


@register("cupy", "min_backward", "fused")
@planned()
def fused(rows: Rows, y: Strides, grad: Strides, device: Device, _: None) -> Plan:
    """One block per row, of whose elements a bit each stays in registers: one read and one write."""
    wide = width(rows)
    count, most = packs(rows, wide), most_items(wide, device)
    if count > 1024 * most:
        raise UnsupportedProblemError(
            "cupy/min_backward/fused",
            f"the bits of {rows.n} elements don't fit in the registers of one block, which hold {1024 * most * wide}",
        )
    items = 1 if count <= 64 else 2 if count <= 128 else 4 if count <= 256 else 8
    while items < most and count > USUAL_THREADS * items:
        items *= 2
    kernel = f"fused<{c_type(rows)}, {wide}, {items}>"
    return Plan(rows, (Step(kernel, rows.total, threads(count, items)),), others=(y, grad))


def most_items(wide: int, device: Device) -> int:
    """Packs of a thread at most. For newer devices than Hopper's the compiler would spill more."""
    return min(MOST_ITEMS[wide], MOST_ITEMS_NEW) if device.capability >= 100 else MOST_ITEMS[wide]


def most_packs(wide: int, device: Device) -> int:
    """Packs of the longest row: of the largest block."""
    return 1024 * most_items(wide, device)
