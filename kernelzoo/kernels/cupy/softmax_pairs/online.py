"""Pairs of a softmax's rows by a running (max, sum) pair over a row of any length and strides.

After M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type, packs, width
from kernelzoo.kernels.cupy.softmax.held import threads
from kernelzoo.layout import Rows, Strides
from kernelzoo.registry import register

MOST_THREADS = 512


@register("cupy", "softmax_pairs", "online")
@planned()
def online(rows: Rows, maximum: Strides, device: Device, _: None) -> Plan:
    """A running (max, sum) pair over a row of any length, which is read once."""
    items = 2 if rows.dtype == "float64" else 4  # double's exp takes the registers of the other two
    kernel = f"online<{c_type(rows)}, {width(rows)}, {items}>"
    step = Step(kernel, rows.total, min(MOST_THREADS, threads(packs(rows), items)))
    return Plan(rows, (step,), others=(maximum,), wide=(1, 2), written=2)
