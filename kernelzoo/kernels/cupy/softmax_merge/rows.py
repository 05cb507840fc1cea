"""Pairs merged, a warp to a row."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import WARP, c_type
from kernelzoo.layout import Rows, Strides, cdiv
from kernelzoo.registry import register

THREADS = 128


@register("cupy", "softmax_merge", "rows")
@planned()
def rows(rows: Rows, total: Strides, largest: Strides, device: Device, _: None) -> Plan:
    """A warp to a row, whose lanes take its parts in turn: the largest maximum, then the sum."""
    step = Step(f"rows<{c_type(rows)}>", cdiv(rows.total, THREADS // WARP), THREADS)
    return Plan(rows, (step,), others=(total, largest), written=2)
