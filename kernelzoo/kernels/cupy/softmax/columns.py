from typing import NamedTuple

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import c_type, require_columns, split_strips
from kernelzoo.layout import Columns, Rows, cdiv, next_power_of_two
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

HELD = {8: 4, 4: 16, 2: 16}  # packs in a thread's registers, by element size: in double, exp needs many registers
FEWEST = 4  # packs per thread, at least, if columns are short
LONGEST = 65536  # elements of a column per block, at most: a longer sum would lose too much to rounding
LEAST_THREADS = 64  # per block, at least, if columns are short
BLOCKS = 2  # per SM, of 256 threads: they always fit, because a thread has at most 128 registers
WORKSPACE_LINE = 128  # bytes before the pairs, for a counter: see columns.cu


@form_knobs
class Knobs:
    columns_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="an SM, below which columns are shared")
    columns_long: int = knob(1024, among=(512, 1024, 2048), unit="elements", why="of a column for that")


class Strip(NamedTuple):
    """A strip of adjacent columns: its block's threads, the lanes across it, and the packs per thread (``items``)."""

    lanes: int
    threads: int
    items: int

    @property
    def elements(self) -> int:
        """The number of elements per column that fit in a block's registers."""
        return self.threads // self.lanes * self.items

    def kernel(self, columns: Columns, shared: bool) -> str:
        sizes = f"{columns.load_width}, {self.items}, {self.lanes}, {self.threads}"
        return f"columns<{c_type(columns)}, {sizes}, {'true' if shared else 'false'}>"


@register("cupy", "softmax", "columns")
@plan_once(Knobs)
def columns(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """One block processes a strip of adjacent columns, or several blocks share it and exchange (max, sum) pairs."""
    columns = require_columns("cupy/softmax/columns", rows)
    strip = one_block_strip(columns)
    strips = columns.strip_count(strip.lanes * columns.load_width)
    if columns.load_width > 1 and columns.itemsize < 8:
        unshared = strip.elements >= columns.n
    else:  # several blocks share a strip if columns are long and strips are few
        many = strips >= knobs.columns_blocks * device.multiprocessors and columns.n <= LONGEST
        unshared = many or columns.n <= knobs.columns_long
    if not unshared:
        return _plan_multi_block_strips(columns, device)
    arguments: tuple[Argument, ...] = ((I64, 0), (I32, 1))  # no counter, and one block per strip
    return Plan(columns, (Step(strip.kernel(columns, False), strips, strip.threads, arguments),))


def _plan_multi_block_strips(columns: Columns, device: Device) -> Plan:
    """Plan the fewest blocks whose registers can store a strip of columns, or more if SMs are free."""
    strip, resident = _widest_strip(columns), BLOCKS * device.multiprocessors
    wide = strip.lanes * columns.load_width
    strips = columns.strip_count(wide)
    cut = split_strips(strips, columns.n, cdiv(columns.n, strip.elements), resident)
    strip = _with_fewer_packs(strip, cut.span)
    arguments: tuple[Argument, ...] = ("counters", (I32, cut.parts))
    step = Step(strip.kernel(columns, True), cut.blocks, strip.threads, arguments, cooperative=True)
    pair_bytes = 16 if columns.itemsize == 8 else 8
    return Plan(columns, (step,), counter_bytes=WORKSPACE_LINE + 2 * strips * cut.parts * wide * pair_bytes)


def one_block_strip(columns: Columns) -> Strip:
    """Return the widest strip whose columns fit in a block's registers, or the narrowest if none fits."""
    strip = _widest_strip(columns)
    least = 4 if columns.load_width > 1 and columns.itemsize < 8 else 2 if columns.load_width > 1 else 8
    while strip.elements < columns.n and strip.lanes > least:
        strip = strip._replace(lanes=strip.lanes // 2)
    if columns.load_width > 1 and columns.n <= strip.elements // 2:
        strip = strip._replace(threads=strip.threads // 2)
    strip = _with_fewer_packs(strip, columns.n)
    while columns.load_width == 1 and strip.threads > LEAST_THREADS and columns.n <= strip.elements // 2:
        strip = strip._replace(threads=strip.threads // 2)
    return strip


def _widest_strip(columns: Columns) -> Strip:
    """Return a strip for 256 threads: 128 bytes of adjacent columns, or 32 single elements."""
    lanes = min(8 if columns.load_width > 1 else 32, next_power_of_two(cdiv(columns.inner, columns.load_width)))
    return Strip(lanes, 256, HELD[columns.itemsize])


def _with_fewer_packs(strip: Strip, elements: int) -> Strip:
    """Return the strip with as few packs per thread as ``elements`` elements per column need."""
    while strip.items > FEWEST and elements <= strip.elements // 2:
        strip = strip._replace(items=strip.items // 2)
    return strip
