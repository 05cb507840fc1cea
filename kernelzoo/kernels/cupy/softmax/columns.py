"""Softmax of columns, rows that lie side by side: a block holds whole ones in registers, or reads the rest again."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import columns_of
from kernelzoo.kernels.cupy.softmax.column_strips import whole
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "softmax", "columns")
@planned()
def columns(rows: Rows, device: Device, _: None) -> Plan:
    """Neighbouring columns by a block whose lanes run along them, in registers as far as they fit."""
    columns = columns_of("cupy/softmax/columns", rows)
    strip = whole(columns)
    no_other: tuple[Argument, ...] = ((I64, 0), (I32, 1))  # block to meet
    step = Step(strip.kernel(columns, False), columns.strips(strip.lanes * columns.vector), strip.threads, no_other)
    return Plan(columns, (step,))
