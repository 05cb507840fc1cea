"""The contract as cases, for the conformance suite (:mod:`kernelzoo.testing`) and for ``kernelzoo verify``.

A :class:`Case` makes one input; :func:`kernelzoo.check.running.check` runs it through an implementation. Nothing here
needs pytest.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kernelzoo import operations
from kernelzoo.check.special import special_rows
from kernelzoo.errors import KernelZooError
from kernelzoo.operations.memory import overlaps_itself

if TYPE_CHECKING:
    import torch


Make: TypeAlias = "Callable[[str, torch.Generator], torch.Tensor]"

_T = TypeVar("_T")


class NoRoomError(KernelZooError, MemoryError):
    """This machine has not the memory, or the address space, that a case asks for."""


@dataclass(frozen=True)
class Case:
    """One problem: how to make the input (on a device, from a seeded generator), and the arguments of the call.

    ``input`` raises NoRoomError where the machine has no room for it.
    """

    op: str
    name: str
    """Begins with the input's dtype."""
    make: Make
    dim: operations.Dims = -1
    keepdim: bool = False
    core: bool = False
    """Part of the small set that slow-to-bind implementations are checked on."""
    elements: int = 0
    """Elements of the input, for suites that must leave out the large ones."""
    place: Callable[[torch.Tensor], torch.Tensor] | None = None
    """Lays out memory for an ``out``, and is given the right result; None: a new contiguous tensor."""

    @property
    def dtype(self) -> str:
        return self.name.partition("-")[0]

    def input(self, device: str) -> torch.Tensor:
        import torch

        return self.make(device, torch.Generator().manual_seed(zlib.crc32(self.name.encode())))

    def __str__(self) -> str:
        return self.name


def cases(op: str) -> tuple[Case, ...]:
    """All the cases of one operation, smallest first."""
    found = [*_shapes(op), *_layouts(op), *_special(op), *_far_apart(op)]
    if operations.OPERATIONS[op].several_axes:
        found += _reductions(op)
    return tuple(sorted(found, key=lambda case: case.elements))


# One element either side of the powers of two and of every block size in use, odd and prime lengths, one column.
_WIDTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 781)
_LONG = (1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 5003, 8191, 8192, 8193)
_LONGER = (12672, 16383, 16384, 16385, 32767, 32768, 32769, 50257, 65535, 65536, 65537, 131072, 151936, 262144, 1048577)
_MANY = ((37, 129), (133, 65), (265, 33), (1823, 781), (4097, 3), (65537, 2), (1048576, 64), (16, 262144), (5, 3000017))


# Other axes than the last, long ones: at whole vectors and odd widths, few columns and many, of one matrix and several.
# The first of each in every floating dtype, the others in float32 and bfloat16.
_COLUMNS = (
    *(((9001, 64), 0), ((3, 2049, 37), 1), ((20011, 33), 0), ((1100, 600), 0), ((100, 4099), 0), ((1030, 517), 0)),
    *(((5, 1025, 96), 1), ((2, 4099, 40), 1)),
)
_SPECIAL_COLUMNS = ((130, 22), (2049, 33), (2049, 64), (20011, 33))


def _few(dtype: str, values: tuple[_T, ...], count: int) -> tuple[_T, ...]:
    return values if dtype in ("float32", "bfloat16") else values[:count]


def _shapes(op: str) -> Iterator[Case]:
    dtypes = operations.OPERATIONS[op].dtypes
    shapes = [(3, n) for n in _WIDTHS] + [(2, n) for n in _LONG] + [(1, n) for n in _LONGER] + list(_MANY)
    for shape in shapes:
        for dtype in dtypes:
            # Every length in float32; in the other dtypes the short ones and those next to a power of two.
            if (
                dtype == "float32"
                or shape[1] in (1, 2, 17, 128, 129, 781, 4097, 16385, 65537, 262144)
                or shape in _MANY[:3]
            ):
                core = dtype in ("float32", "bfloat16", "int32") and shape in ((3, 1), (3, 129), (2, 4097), (37, 129))
                yield Case(
                    op, f"{dtype}-{by(shape)}", partial(_plain, op, shape, dtype), core=core, elements=math.prod(shape)
                )


def by(shape: tuple[int, ...]) -> str:
    """``"3x129"``."""
    return "x".join(map(str, shape)) or "scalar"


def _plain(op: str, shape: tuple[int, ...], dtype: str, device: str, generator: torch.Generator) -> torch.Tensor:
    return operations.sample(op, shape, dtype, generator=generator).to(device)


def _layouts(op: str) -> Iterator[Case]:
    """Views of a larger tensor: name, shape of the base, the view, and the axis."""
    views: tuple[tuple[str, tuple[int, ...], Callable[[torch.Tensor], torch.Tensor], int], ...] = (
        ("scalar", (), lambda x: x, -1),
        ("vector", (300,), lambda x: x, 0),
        ("vector-stepped", (601,), lambda x: x[1::2], -1),
        ("dim0", (67, 45), lambda x: x, 0),
        ("dim0-wide", (33, 260), lambda x: x, 0),
        ("dim0-tall", (1100, 19), lambda x: x, -2),
        ("middle", (5, 37, 18), lambda x: x, 1),
        ("middle-of-4", (3, 4, 29, 6), lambda x: x, -2),
        ("leading-of-4", (21, 2, 3, 5), lambda x: x, 0),
        ("transposed", (45, 67), lambda x: x.t(), -1),
        ("transposed-dim0", (45, 67), lambda x: x.t(), 0),
        ("columns-sliced", (21, 90), lambda x: x[:, 5:-8], -1),
        ("columns-stepped", (21, 90), lambda x: x[:, ::3], -1),
        ("rows-sliced", (33, 70), lambda x: x[2:-3], -1),
        ("rows-stepped", (33, 70), lambda x: x[::4], -1),
        ("rows-expanded", (1, 70), lambda x: x.expand(9, 70), -1),
        ("columns-expanded", (9, 1), lambda x: x.expand(9, 70), -1),
        ("unaligned", (1 + 12 * 64,), lambda x: x[1:].view(12, 64), -1),
        ("unaligned-odd", (3 + 12 * 65,), lambda x: x[3:].view(12, 65), -1),
        ("padded", (12, 80), lambda x: x[:, :64], -1),
        ("two-row-axes", (5, 9, 40), lambda x: x[:, 1:8], -1),
        ("two-row-axes-permuted", (5, 40, 9), lambda x: x.permute(2, 0, 1), -1),
        ("three-row-axes", (3, 5, 7, 33), lambda x: x[:, 1:4, ::2], -1),
        ("three-row-axes-middle", (3, 5, 31, 7), lambda x: x[:, 1:4, :, ::2], 2),
        ("overlapping-windows", (100,), lambda x: x.unfold(0, 24, 3), -1),
        ("five-axes", (2, 3, 4, 5, 6), lambda x: x.permute(4, 0, 3, 1, 2), -3),
        ("ones-everywhere", (1, 1, 50, 1), lambda x: x, 2),
        ("axis-of-one", (6, 1, 7), lambda x: x, 1),
        ("empty-rows", (0, 5), lambda x: x, -1),
        ("empty-rows-middle", (3, 5, 0), lambda x: x, 1),
    )
    for dtype in ("float32", "bfloat16", "float64"):
        for name, base, view, dim in views:
            core = dtype == "float32" and name in ("dim0", "middle", "columns-stepped", "rows-expanded", "scalar")
            yield Case(
                op,
                f"{dtype}-{name}",
                partial(_viewed, op, base, dtype, view, dim),
                dim,
                core=core,
                elements=math.prod(base),
            )
    for dtype in operations.FLOATS:
        for shape, dim in _few(dtype, _COLUMNS, 3):
            make = partial(_viewed, op, shape, dtype, lambda x: x, dim)
            yield Case(op, f"{dtype}-columns-{by(shape)}", make, dim, elements=math.prod(shape))
    yield Case(op, "float32-negated-lazily", _negated, elements=90)
    if not operations.OPERATIONS[op].needs_element:
        yield Case(op, "float32-empty-columns", partial(_plain, op, (5, 0), "float32"))
        yield Case(op, "float16-empty-columns-dim0", partial(_plain, op, (0, 5), "float16"), 0)


def _viewed(
    op: str,
    base: tuple[int, ...],
    dtype: str,
    view: Callable[[torch.Tensor], torch.Tensor],
    dim: int,
    device: str,
    generator: torch.Generator,
) -> torch.Tensor:
    import torch

    # Values are drawn in the view's own shape, so that each of its rows has its peak, where the view can be written.
    memory = operations.sample(op, base, dtype, generator=generator)
    x = view(memory)
    if x.numel() == memory.numel() and not overlaps_itself(x):
        x.copy_(operations.sample(op, tuple(x.shape), dtype, dim, generator=generator))
    moved = torch.empty(base, dtype=memory.dtype, device=device)
    moved.copy_(memory)
    return view(moved)


def _negated(device: str, generator: torch.Generator) -> torch.Tensor:
    import torch

    return torch.randn(6, 15, dtype=torch.complex64, generator=generator).to(device).conj().imag


def _reductions(op: str) -> Iterator[Case]:
    """Reductions over several axes, with and without keepdim, and over integer tensors of other layouts."""
    shape = (3, 6, 5, 7)
    for dims in ((), (0,), (1, 2), (0, 3), (0, 2), (1, 3), (-1, -2, -3), (0, 1, 2, 3), (0, 1, 3)):
        for keepdim in (False, True):
            name = f"float32-{by(shape)}-over-{'-'.join(map(str, dims)) or 'all'}{'-keepdim' if keepdim else ''}"
            yield Case(op, name, partial(_plain, op, shape, "float32"), dims, keepdim, elements=math.prod(shape))
    for dtype in ("int8", "int64", "bool"):
        yield Case(op, f"{dtype}-dim0", partial(_viewed, op, (67, 45), dtype, lambda x: x, 0), 0, elements=67 * 45)
        yield Case(
            op,
            f"{dtype}-stepped",
            partial(_viewed, op, (67, 45), dtype, lambda x: x[::2, 1::3], -1),
            elements=67 * 45,
        )
    for keepdim in (False, True):
        yield Case(
            op,
            f"int32-middle-keepdim-{keepdim}",
            partial(_plain, op, (4, 9, 6), "int32"),
            1,
            keepdim,
            elements=216,
        )
        yield Case(
            op,
            f"float32-sliced-over-0-2-keepdim-{keepdim}",
            partial(_viewed, op, (5, 6, 7, 8), "float32", lambda x: x[:, 1:, ::2, 1:], -1),
            (0, 2),
            keepdim,
            elements=1680,
        )


def _special(op: str) -> Iterator[Case]:
    for width in (5, 300, 3000, 40000):
        for dtype in operations.FLOATS:
            if width <= 300 or dtype in ("float32", "bfloat16"):
                yield Case(
                    op,
                    f"{dtype}-special-values-{width}",
                    partial(_special_rows, op, width, dtype),
                    core=width == 300 and dtype == "float32",
                    elements=22 * width,
                )
    for dtype in operations.FLOATS:
        for shape in _few(dtype, _SPECIAL_COLUMNS, 2):
            name = "dim0" if shape[0] == 130 else f"columns-{by(shape)}"
            make = partial(_special_columns, op, shape, dtype)
            yield Case(op, f"{dtype}-special-values-{name}", make, 0, elements=math.prod(shape))
    operation = operations.OPERATIONS[op]
    for own in operation.samples():
        yield Case(op, own.name, partial(_own, own), elements=math.prod(own.shape))
    for dtype in operation.dtypes:
        if dtype in operations.INTEGERS:
            yield Case(op, f"{dtype}-extremes", partial(_extremes, op, dtype), elements=8 * 1025)


def _special_columns(
    op: str, shape: tuple[int, int], dtype: str, device: str, generator: torch.Generator
) -> torch.Tensor:
    length, columns = shape
    rows = _special_rows(op, length, dtype, device, generator)
    return rows.repeat(-(-columns // rows.size(0)), 1)[:columns].t().contiguous()


def _special_rows(op: str, width: int, dtype: str, device: str, generator: torch.Generator) -> torch.Tensor:
    """One row for each rule of the contract, between plain rows that must not be touched by their neighbours."""
    writes = special_rows(dtype).values()
    x = operations.sample(op, (len(writes) + 2, width), dtype, generator=generator)
    for row, write in zip(x[1:], writes, strict=False):
        write(row)
    return x.to(device)


def _own(sample: operations.Sample, device: str, generator: torch.Generator) -> torch.Tensor:
    return sample.make().to(device)


def _extremes(op: str, dtype: str, device: str, generator: torch.Generator) -> torch.Tensor:
    x = operations.sample(op, (8, 1025), dtype, generator=generator)
    for row, write in zip(x, special_rows(dtype).values(), strict=False):
        write(row)
    return x.to(device)


def _far_apart(op: str) -> Iterator[Case]:
    """A few short rows with more than 2^31 elements from the first to the last, in x and in ``out``.

    A 32-bit offset wraps around to a decoy. Nothing else of that memory is touched, so that it costs next to nothing on
    the host, where it is never made; on a GPU it is 6 GB for int8 and 9 GB for float16.
    """
    dtype = operations.OPERATIONS[op].narrowest
    # A stride that fits in 32 bits while its multiples don't, and one that does not; the last row is past 2^32 elements
    # in int8. Whole words apart, and not.
    layouts = [("2^30", 5 if dtype == "int8" else 3, 2**30 + 1024, 64), ("2^30+1", 3, 2**30 + 1, 65)]
    if dtype == "int8":
        layouts.append(("2^31", 3, 2**31 + 1024, 64))
    for apart, rows, stride, width in layouts:
        shape, elements = (rows, width), rows * width
        for what, dim, turned in (("rows", -1, False), ("elements", 0, False), ("columns", 0, True)):
            make = partial(_far_input, op, shape, dtype, stride, dim, turned)
            yield Case(op, f"{dtype}-{what}-{apart}-apart", make, dim, elements=elements)
        make = partial(_plain, op, shape, dtype)
        yield Case(op, f"{dtype}-out-{apart}-apart", make, elements=elements, place=partial(_far, stride))


def _far_input(
    op: str,
    shape: tuple[int, int],
    dtype: str,
    stride: int,
    dim: int,
    turned: bool,
    device: str,
    generator: torch.Generator,
) -> torch.Tensor:
    x = _far(stride, operations.sample(op, shape, dtype, -1 if turned else dim, generator=generator).to(device))
    return x.t() if turned else x


def _far(stride: int, values: torch.Tensor) -> torch.Tensor:
    """The same values, laid out so that each of the first axis starts ``stride`` elements after the one before it."""
    import torch

    count, width = values.size(0), values[0].numel()
    below = 2**31  # room for the offsets that wrap around to a negative number
    try:
        memory = torch.empty(below + (count - 1) * stride + width, dtype=values.dtype, device=values.device)
    except RuntimeError as error:  # a CPU's and a GPU's have only that in common
        raise NoRoomError(f"no room for {count} rows that lie {stride} elements apart: {error}") from error
    for row in range(count):
        wrapped = (row * stride + below) % 2**32
        memory[wrapped : wrapped + width] = -128  # no right result holds it, and no row of a case is constant
    far = memory.as_strided((count, *values.shape[1:]), (stride, *values[0].contiguous().stride()), below)
    return far.copy_(values)
