"""Strips of neighbouring columns, which the lanes of a block run along: see columns.cuh."""

from typing import NamedTuple

from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy import rows as one
from kernelzoo.kernels.cupy.launch import I32, Argument, Plan, Step
from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.kernels.shared.split import split
from kernelzoo.layout import Columns, Rows, Strides, cdiv, power_of_two

THREADS = 256
"""Of a block, of which an SM has two."""

MANY_PARTS = 64
"""Blocks to a strip, each of which adds up the sums of all others: no more, where so many hold it."""

LEAST_SHARE = 64
"""Elements of a column that a block has at the least."""

LONG = 1024
"""Elements of a column, above which blocks share it where strips are too few for all SMs."""


class Holding(NamedTuple):
    """What a thread holds: packs in registers, packs of a batch in shared memory, and bytes that such a batch takes."""

    items: int
    batch: int
    batch_bytes: int


class Strip(NamedTuple):
    """How a block takes a strip: elements that a thread reads at once, lanes along the columns, what a thread holds,
    and how many batches of it are in shared memory."""

    vector: int
    lanes: int
    held: Holding
    saved: int

    @property
    def wide(self) -> int:
        """Columns."""
        return self.lanes * self.vector

    @property
    def elements(self) -> int:
        """Elements of each column that the block holds."""
        return THREADS // self.lanes * (self.held.items + self.saved * self.held.batch)

    @property
    def shared_bytes(self) -> int:
        return self.saved * self.held.batch_bytes * THREADS

    def kernel(self, name: str, columns: Columns) -> str:
        """The kernel's instance."""
        sizes = self.vector, self.held.items, self.held.batch, self.lanes, THREADS
        return f"{name}<{c_type(columns)}, {', '.join(map(str, sizes))}>"


def columns_of(id: str, rows: Rows, *others: Strides) -> tuple[Columns, tuple[Strides, ...]]:
    """The problem by columns, and the other tensors likewise. Raises UnsupportedProblemError of a form where rows don't
    lie across memory."""
    columns = one.columns_of(id, rows)
    if rows.inner > 1:
        return columns, others
    return columns, tuple(Strides(0, tensor.n, tensor.outer, tensor.phase) for tensor in others)


def vector(columns: Columns, *along: Strides) -> int:
    """Neighbouring columns that can be moved at once: all of a vector of 16 bytes in every tensor that has columns."""
    whole = columns.whole_vector
    alike = all(
        tensor.inner == 1 and tensor.phase == 0 and tensor.outer % whole == 0 and tensor.n % whole == 0
        for tensor in along
    )
    return columns.vector if alike else 1


def whole(columns: Columns, vector: int, held: Holding, device: Device) -> Strip:
    """The strip whose columns a block holds whole: in registers if it can, narrower ones for longer columns; else a
    strip of which the block holds what two to an SM can."""
    wider, narrower = (8, 4) if vector > 1 else (32, 16)
    for lanes, part in ((wider, 0.0), (narrower, 0.0), (wider, 0.5), (narrower, 0.5), (narrower, 1.0)):
        strip = _strip(columns, vector, lanes, held, device, part, columns.n)
        if strip.elements >= columns.n:
            return strip if part else _short(strip, columns)
    return _strip(columns, vector, wider, held, device, 0.5, columns.n)


def shared(columns: Columns, vector: int, held: Holding, device: Device, n: int) -> Strip:
    """A strip of which several blocks have n elements a column each, two of them to an SM."""
    return _strip(columns, vector, 8 if vector > 1 else 32, held, device, 0.5, n)


def plan_columns(columns: Columns, others: tuple[Strides, ...], strip: Strip) -> Plan:
    """A block to each strip."""
    arguments: tuple[Argument, ...] = ((I32, strip.saved),)
    kernel = strip.kernel("columns", columns)
    step = Step(kernel, columns.strips(strip.wide), THREADS, arguments, strip.shared_bytes)
    return Plan(columns, (step,), others=others)


def plan_split(
    columns: Columns, others: tuple[Strides, ...], vector: int, held: Holding, device: Device, sum_bytes: int
) -> Plan:
    """Several blocks to each strip: as few as hold it, more where there is room for them."""
    resident = 2 * device.multiprocessors
    strip = shared(columns, vector, held, device, columns.n)
    strips = columns.strips(strip.wide)
    least, room = cdiv(columns.n, strip.elements), max(1, resident // min(strips, resident))
    most = MANY_PARTS if least <= MANY_PARTS else resident  # all SMs read again what blocks don't hold
    parts = max(min(least, MANY_PARTS), min(room, most))
    cut = split(strips, columns.n, min(parts, resident, cdiv(columns.n, LEAST_SHARE)), 1, resident)
    strip = shared(columns, vector, held, device, cut.span)
    arguments: tuple[Argument, ...] = ("partial", "counters", (I32, cut.parts), (I32, strip.saved))
    kernel = strip.kernel("columns_grid", columns)
    step = Step(kernel, cut.blocks, THREADS, arguments, strip.shared_bytes, cooperative=True)
    return Plan(columns, (step,), strips * cut.parts * strip.wide * sum_bytes, strips * 8, others)


def suits_split(columns: Columns, strip: Strip, device: Device) -> bool:
    """Whether blocks should share columns: no single one holds them, or there are too few of them for all SMs."""
    few = columns.strips(strip.wide) < 2 * device.multiprocessors
    return columns.n > LONG and (few or strip.elements < columns.n)


def _strip(columns: Columns, vector: int, lanes: int, held: Holding, device: Device, part: float, n: int) -> Strip:
    """A strip of so many lanes, which holds n elements of each column or what that part of an SM's memory lets."""
    lanes = min(lanes, max(2 if vector > 1 else 1, power_of_two(cdiv(columns.inner, vector))))
    wide = lanes * vector
    slots = 8 * (max(THREADS // 32 * wide, THREADS) + wide)
    room = int(part * device.shared_per_block) - (slots + 2 * KIB)
    missing = max(0, cdiv(n, THREADS // lanes) - held.items)
    saved = min(cdiv(missing, held.batch), max(0, room // (held.batch_bytes * THREADS)))
    return Strip(vector, lanes, held, saved)


def _short(strip: Strip, columns: Columns) -> Strip:
    """For short columns fewer packs a thread, and then more lanes along the columns."""
    items, batch, _ = strip.held
    while items > 1 and columns.n <= strip.elements // 2:
        items //= 2
        strip = strip._replace(held=Holding(items, min(batch, items), 0))
        if items == 2 and strip.lanes < 32 and columns.n <= strip.elements // 2 and 2 * strip.wide <= columns.inner:
            strip = strip._replace(lanes=2 * strip.lanes)
    return strip
