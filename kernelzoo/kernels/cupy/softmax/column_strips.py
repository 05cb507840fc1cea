"""Strips of neighbouring columns, which the lanes of a block run along: see columns.cuh."""

from typing import NamedTuple

from kernelzoo.kernels.cupy.rows import c_type
from kernelzoo.layout import Columns, cdiv, power_of_two

HELD = {8: 4, 4: 16, 2: 16}
"""Packs, or single elements, that a thread holds of its columns, by the bytes of an element: of double few, whose
exponential takes many registers."""

FEWEST = 4
"""Of those, where columns are short."""

LEAST_THREADS = 64
"""Of a block, where columns are of a few elements."""


class Strip(NamedTuple):
    """How a block takes a strip: lanes along the columns, threads, and packs that each holds of its columns."""

    lanes: int
    threads: int
    items: int

    @property
    def elements(self) -> int:
        """Elements of each column that the block holds."""
        return self.threads // self.lanes * self.items

    def kernel(self, columns: Columns, shared: bool) -> str:
        """The kernel's instance."""
        sizes = f"{columns.vector}, {self.items}, {self.lanes}, {self.threads}"
        return f"columns<{c_type(columns)}, {sizes}, {'true' if shared else 'false'}>"


def widest(columns: Columns) -> Strip:
    """A strip of 128 bytes of neighbouring columns, or of 32 single elements, by a whole block."""
    lanes = min(8 if columns.vector > 1 else 32, power_of_two(cdiv(columns.inner, columns.vector)))
    return Strip(lanes, 256, HELD[columns.itemsize])


def whole(columns: Columns) -> Strip:
    """The strip whose columns a block holds whole, narrower ones for longer columns; the last of them if none does."""
    strip = widest(columns)
    least = 4 if columns.vector > 1 and columns.itemsize < 8 else 2 if columns.vector > 1 else 8
    while strip.elements < columns.n and strip.lanes > least:
        strip = strip._replace(lanes=strip.lanes // 2)
    if columns.vector > 1 and columns.n <= strip.elements // 2:
        strip = strip._replace(threads=strip.threads // 2)
    strip = fewer(strip, columns.n)
    while columns.vector == 1 and strip.threads > LEAST_THREADS and columns.n <= strip.elements // 2:
        strip = strip._replace(threads=strip.threads // 2)
    return strip


def fewer(strip: Strip, elements: int) -> Strip:
    """The strip with no more packs to a thread than so many elements of a column take."""
    while strip.items > FEWEST and elements <= strip.elements // 2:
        strip = strip._replace(items=strip.items // 2)
    return strip


def holds(columns: Columns) -> bool:
    """Whether a block holds whole columns."""
    return whole(columns).elements >= columns.n
