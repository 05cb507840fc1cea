"""The gradient of a softmax with one block per row, both of whose inputs stay in registers: two reads and a write."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.gradients.rows import packs, threads, width
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register

PACKS_HELD = 4
"""Packs of each input that a thread has at most: 32 registers, and as many for the rest."""

PACKS_HELD_NEW = 2
"""The same of half precision for newer devices than Hopper's, for which the compiler would spill more."""


@register("cupy", "softmax_backward", "fused")
@planned()
def fused(rows: Rows, y: Strides, device: Device, _: None) -> Plan:
    """One block per row, both of whose inputs stay in registers: two reads and a write."""
    wide = width(rows, y)
    count = packs(rows, wide)
    held = packs_held(rows, device)
    if count > 1024 * held:
        raise UnsupportedProblemError(
            "cupy/softmax_backward/fused",
            f"a row of {rows.n} elements doesn't fit in the registers of one block, which hold {1024 * held * wide}",
        )
    items = 1 if count <= 64 else 2 if count <= 256 else held
    kernel = f"fused<{c_type(rows)}, {wide}, {items}>"
    return Plan(rows, (Step(kernel, rows.total, threads(count, items)),), others=(y,))


def packs_held(rows: Rows, device: Device) -> int:
    """Packs of each input that a thread has at most; 1024 threads have the longest row."""
    return PACKS_HELD_NEW if rows.itemsize == 2 and device.capability >= 100 else PACKS_HELD
