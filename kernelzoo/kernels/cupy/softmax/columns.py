from typing import NamedTuple

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type, columns_of, split_strips
from kernelzoo.layout import Columns, Rows, cdiv, power_of_two
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

HELD = {8: 4, 4: 16, 2: 16}  # packs of a thread, by the bytes of an element: double's exponential takes many registers
FEWEST = 4  # of those, where columns are short
LONGEST = 65536  # elements of a column that a block adds up alone: in order, more that are equal round too far
LEAST_THREADS = 64  # of a block, where columns are of a few elements
BLOCKS = 2  # of 256 threads on an SM, which always fit: the kernel is bound to 128 registers
WORKSPACE_LINE = 128  # bytes ahead of the pairs, for a counter: see columns.cu


@numbers
class Numbers:
    columns_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="an SM, below which columns are shared")
    columns_long: int = knob(1024, among=(512, 1024, 2048), unit="elements", why="of a column for that")


class Strip(NamedTuple):
    """How a block takes neighbouring columns: lanes along them, threads, and packs that each holds of its columns."""

    lanes: int
    threads: int
    items: int

    @property
    def elements(self) -> int:
        """Elements of each column that the block holds."""
        return self.threads // self.lanes * self.items

    def kernel(self, columns: Columns, shared: bool) -> str:
        sizes = f"{columns.vector}, {self.items}, {self.lanes}, {self.threads}"
        return f"columns<{c_type(columns)}, {sizes}, {'true' if shared else 'false'}>"


@register("cupy", "softmax", "columns")
@planned(Numbers)
def columns(rows: Rows, device: Device, numbers: Numbers) -> Plan:
    """Neighbouring columns by a block whose lanes run along them, or by several, which exchange pairs."""
    columns = columns_of("cupy/softmax/columns", rows)
    strip = whole(columns)
    strips = columns.strips(strip.lanes * columns.vector)
    if columns.vector > 1 and columns.itemsize < 8:
        alone = strip.elements >= columns.n
    else:  # shared where they are long, and strips don't give each SM its blocks
        many = strips >= numbers.columns_blocks * device.multiprocessors and columns.n <= LONGEST
        alone = many or columns.n <= numbers.columns_long
    if not alone:
        return _shared(columns, device)
    no_other: tuple[Argument, ...] = ((I64, 0), (I32, 1))  # block of the strip
    return Plan(columns, (Step(strip.kernel(columns, False), strips, strip.threads, no_other),))


def _shared(columns: Columns, device: Device) -> Plan:
    """As few blocks to a strip as hold it, more where there is room for them."""
    strip, resident = _widest(columns), BLOCKS * device.multiprocessors
    wide = strip.lanes * columns.vector
    strips = columns.strips(wide)
    cut = split_strips(strips, columns.n, cdiv(columns.n, strip.elements), resident)
    strip = _fewer(strip, cut.span)
    arguments: tuple[Argument, ...] = ("counters", (I32, cut.parts))
    step = Step(strip.kernel(columns, True), cut.blocks, strip.threads, arguments, cooperative=True)
    pair_bytes = 16 if columns.itemsize == 8 else 8
    return Plan(columns, (step,), counter_bytes=WORKSPACE_LINE + 2 * strips * cut.parts * wide * pair_bytes)


def whole(columns: Columns) -> Strip:
    """The strip whose columns a block holds whole, narrower ones for longer columns; the last of them if none does."""
    strip = _widest(columns)
    least = 4 if columns.vector > 1 and columns.itemsize < 8 else 2 if columns.vector > 1 else 8
    while strip.elements < columns.n and strip.lanes > least:
        strip = strip._replace(lanes=strip.lanes // 2)
    if columns.vector > 1 and columns.n <= strip.elements // 2:
        strip = strip._replace(threads=strip.threads // 2)
    strip = _fewer(strip, columns.n)
    while columns.vector == 1 and strip.threads > LEAST_THREADS and columns.n <= strip.elements // 2:
        strip = strip._replace(threads=strip.threads // 2)
    return strip


def _widest(columns: Columns) -> Strip:
    """A strip of 128 bytes of neighbouring columns, or of 32 single elements, by a whole block."""
    lanes = min(8 if columns.vector > 1 else 32, power_of_two(cdiv(columns.inner, columns.vector)))
    return Strip(lanes, 256, HELD[columns.itemsize])


def _fewer(strip: Strip, elements: int) -> Strip:
    """The strip with no more packs to a thread than so many elements of a column take."""
    while strip.items > FEWEST and elements <= strip.elements // 2:
        strip = strip._replace(items=strip.items // 2)
    return strip
