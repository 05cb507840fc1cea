"""Whole columns, each by one block: the rows of a strip, read in vectors across them, go down its threads."""

from kernelzoo.device import Device
from kernelzoo.kernels.numba.launch import BindView, View, planned
from kernelzoo.kernels.numba.min.strips import Numbers, by_strips
from kernelzoo.registry import register


@register("numba", "min", "columns")
@planned(Numbers)
def columns(v: View, device: Device, numbers: Numbers) -> BindView:
    """Columns by strips, each of them whole by one block."""
    return by_strips("numba/min/columns", v, device, numbers, 1)
