"""Softmax of columns that several blocks of one co-operative launch share, in registers as far as they fit.

After this zoo's own columns_grid in Triton: each block holds its part of a strip while the blocks exchange pairs.
"""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, Argument, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import columns_of
from kernelzoo.kernels.cupy.softmax.column_strips import fewer, widest
from kernelzoo.kernels.cupy.softmax.pairs import pair_bytes
from kernelzoo.kernels.shared.split import split
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register

BLOCKS = 2
"""Of 256 threads on an SM, which always fit: the kernel is bound to 128 registers."""

MANY_PARTS = 64
"""Blocks to a strip, each of which awaits the pairs of all others: no more, where so many hold it."""

LEAST_SHARE = 64
"""Elements of a column that a block has at the least."""

WORKSPACE_LINE = 128
"""Bytes ahead of the pairs, for a counter: see columns.cuh."""


@register("cupy", "softmax", "columns_grid")
@planned()
def columns_grid(rows: Rows, device: Device, _: None) -> Plan:
    """Columns that several blocks share, which run side by side and exchange pairs through device memory.

    As few blocks to a strip as hold it, more where there is room for them.
    """
    columns = columns_of("cupy/softmax/columns_grid", rows)
    strip, resident = widest(columns), BLOCKS * device.multiprocessors
    wide = strip.lanes * columns.vector
    strips = columns.strips(wide)
    room = max(1, resident // min(strips, resident))
    least = cdiv(columns.n, strip.elements)
    most = MANY_PARTS if least <= MANY_PARTS else resident  # all SMs read again what blocks don't hold
    parts = max(min(least, MANY_PARTS), min(room, most))
    parts = min(parts, resident, cdiv(columns.n, LEAST_SHARE))
    cut = split(strips, columns.n, parts, 1, resident)
    strip = fewer(strip, cut.span)
    arguments: tuple[Argument, ...] = ("counters", (I32, cut.parts))
    step = Step(strip.kernel(columns, True), cut.blocks, strip.threads, arguments, cooperative=True)
    pairs = 2 * strips * cut.parts * wide * pair_bytes(columns)
    return Plan(columns, (step,), counter_bytes=WORKSPACE_LINE + pairs)
