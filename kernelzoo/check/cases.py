"""The contract as cases, for the conformance suite (:mod:`kernelzoo.testing`) and for ``kernelzoo verify``.

A :class:`Case` makes one input; :func:`kernelzoo.check.running.check` runs it through an implementation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from kernelzoo import operations
from kernelzoo.check.case import Case, Inputs, Sampler, copy_rows_far_apart, sampler_of, shape_str
from kernelzoo.check.cases_others import companion_input_cases, named_axis_cases
from kernelzoo.check.special import FLOATS, special_rows
from kernelzoo.lazy import torch
from kernelzoo.operations.memory import overlaps_itself

_T = TypeVar("_T")


def cases(op: str) -> tuple[Case, ...]:
    """Return all cases of one operation, smallest first."""
    operation = operations.OPERATIONS[op]
    if operation.by_rows:
        found = [*_shape_cases(op), *_view_cases(op), *_special_cases(op)]
        found += [*_far_apart_row_cases(op), *companion_input_cases(operation)]
    else:
        found = list(named_axis_cases(operation))
    if operation.several_axes:
        found += _reduction_cases(op)
    found = [*(case.with_drawn_scalars() for case in found), *_sample_cases(op)]
    return tuple(sorted(found, key=lambda case: case.elements))


def _sample_cases(op: str) -> Iterator[Case]:
    """Yield cases with the inputs that the operation itself declares, and with default scalars."""
    for own in operations.OPERATIONS[op].samples():
        yield Case(op, own.name, partial(_draw_sample_inputs, own), elements=math.prod(own.shape))


# Odd and prime lengths, and each power of two and block size in use, with one element more and less.
_WIDTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 781)
_LONG = (1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 5003, 8191, 8192, 8193)
_LONGER = (12672, 16383, 16384, 16385, 32767, 32768, 32769, 50257, 65535, 65536, 65537, 131072, 151936, 262144, 1048577)
_LONGEST = 2**23
_TAILS = (2, 17, 129, 781)
"""Lengths that end within a tile, a vector or a word. They are core cases of every dtype."""
_MANY = ((37, 129), (133, 65), (265, 33), (1823, 781), (4097, 3), (65537, 2), (1048576, 64), (16, 262144), (5, 3000017))


# Long axes other than the last: odd and aligned widths, few and many columns, one matrix and several. All are in
# float32 and bfloat16, but only the first few in the other floating dtypes.
_COLUMNS = (
    *(((9001, 64), 0), ((3, 2049, 37), 1), ((20011, 33), 0), ((1100, 600), 0), ((100, 4099), 0), ((1030, 517), 0)),
    *(((5, 1025, 96), 1), ((2, 4099, 40), 1)),
)
RULED = len(FLOATS) + 2
"""The number of rows in a case of special values: one for each special value of a float, and two plain ones."""
_SPECIAL_COLUMNS = ((130, RULED), (2049, 37), (2049, 64), (20011, 37))


def _shorten_for_rare_dtype(dtype: str, values: tuple[_T, ...], count: int) -> tuple[_T, ...]:
    return values if dtype in ("float32", "bfloat16") else values[:count]


def _shape_cases(op: str) -> Iterator[Case]:
    dtypes = operations.OPERATIONS[op].dtypes
    shapes = [(3, n) for n in _WIDTHS] + [(2, n) for n in _LONG] + [(1, n) for n in (*_LONGER, _LONGEST)] + list(_MANY)
    for shape in shapes:
        for dtype in dtypes:
            # Every length in float32. Other dtypes take the short ones and those next to a power of two.
            if (
                dtype == "float32"
                or shape[1] in (1, 2, 17, 128, 129, 781, 4097, 16385, 65537, 262144)
                or shape in _MANY[:3]
                or (shape[1] == _LONGEST and dtype in ("bfloat16", "bool"))
            ):
                core = dtype in ("float32", "bfloat16", "int32") and shape in ((3, 1), (2, 4097), (37, 129))
                core = core or (shape[0] == 3 and shape[1] in _TAILS)
                yield Case(op, f"{dtype}-{shape_str(shape)}", sampler_of(shape), core=core, elements=math.prod(shape))


def _float_dtypes(op: str) -> tuple[str, ...]:
    return tuple(dtype for dtype in operations.FLOATS if dtype in operations.OPERATIONS[op].dtypes)


def _main_dtypes(op: str) -> tuple[str, ...]:
    """Return the dtypes for which every layout becomes a case: float32, bfloat16 and float64 if possible."""
    dtypes = operations.OPERATIONS[op].dtypes
    return tuple(dtype for dtype in ("float32", "bfloat16", "float64") if dtype in dtypes) or dtypes[:1]


_CORE_LAYOUTS = ("dim0", "middle", "columns-stepped", "rows-expanded", "scalar")


def _view_cases(op: str) -> Iterator[Case]:
    """Yield cases of layouts: views of a larger tensor, long columns, a lazily negated view, no rows or columns."""
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
    for dtype in _main_dtypes(op):
        for name, base, view, dim in views:
            core = dtype == _main_dtypes(op)[0] and name in _CORE_LAYOUTS
            make = partial(_draw_view, base, view, dim)
            yield Case(op, f"{dtype}-{name}", make, dim, core=core, elements=math.prod(base))
    for dtype in _float_dtypes(op):
        for shape, dim in _shorten_for_rare_dtype(dtype, _COLUMNS, 3):
            make = partial(_draw_view, shape, lambda x: x, dim)
            yield Case(op, f"{dtype}-columns-{shape_str(shape)}", make, dim, elements=math.prod(shape))
    dtypes = operations.OPERATIONS[op].dtypes
    if "float32" in dtypes:
        yield Case(op, "float32-negated-lazily", _draw_negated_view, elements=90)
    if not operations.OPERATIONS[op].needs_element:
        for dtype, name, shape, dim in (("float32", "", (5, 0), -1), ("float16", "-dim0", (0, 5), 0)):
            if dtype in dtypes:
                yield Case(op, f"{dtype}-empty-columns{name}", sampler_of(shape, dim), dim)


def _draw_view(base: tuple[int, ...], view: Callable[[torch.Tensor], torch.Tensor], dim: int, draw: Sampler) -> Inputs:
    # If the view can be written, draw its values in its own shape, so that each row has a decisive element.
    memory = draw.sample(base)[0]
    x = view(memory)
    if x.numel() == memory.numel() and not overlaps_itself(x):
        x.copy_(draw.sample(tuple(x.shape), dim)[0])
    moved = torch.empty(base, dtype=memory.dtype, device=draw.device)
    moved.copy_(memory)
    return draw.add_companion_inputs(view(moved), dim)


def _draw_negated_view(draw: Sampler) -> Inputs:
    return draw.add_companion_inputs(
        torch.randn(6, 15, dtype=torch.complex64, generator=draw.generator).to(draw.device).conj().imag
    )


def _reduction_cases(op: str) -> Iterator[Case]:
    """Yield cases of reductions over several axes, with and without keepdim, and of more layouts of integer tensors."""
    shape = (3, 6, 5, 7)
    for dims in ((), (0,), (1, 2), (0, 3), (0, 2), (1, 3), (-1, -2, -3), (0, 1, 2, 3), (0, 1, 3)):
        for keepdim in (False, True):
            name = f"float32-{shape_str(shape)}-over-{'-'.join(map(str, dims)) or 'all'}{'-keepdim' if keepdim else ''}"
            yield Case(op, name, sampler_of(shape), dims, keepdim, elements=math.prod(shape))
    yield Case(op, "float32-scalar-over-all", sampler_of(()), (), elements=1)
    for dtype in (d for d in ("int8", "int64", "bool") if d in operations.OPERATIONS[op].dtypes):
        make = partial(_draw_view, (67, 45), lambda x: x, 0)
        yield Case(op, f"{dtype}-dim0", make, 0, core=True, elements=67 * 45)
        make = partial(_draw_view, (67, 45), lambda x: x[::2, 1::3], -1)
        yield Case(op, f"{dtype}-stepped", make, elements=67 * 45)
    for keepdim in (False, True) if "int32" in operations.OPERATIONS[op].dtypes else ():
        yield Case(op, f"int32-middle-keepdim-{keepdim}", sampler_of((4, 9, 6)), 1, keepdim, elements=216)
        make = partial(_draw_view, (5, 6, 7, 8), lambda x: x[:, 1:, ::2, 1:], -1)
        yield Case(op, f"float32-sliced-over-0-2-keepdim-{keepdim}", make, (0, 2), keepdim, elements=1680)


def _special_cases(op: str) -> Iterator[Case]:
    for width in (5, 300, 3000, 40000):
        for dtype in _float_dtypes(op):
            if width <= 300 or dtype in ("float32", "bfloat16"):
                make = partial(_draw_special_rows, width)
                name = f"{dtype}-special-values-{width}"
                yield Case(op, name, make, core=width == 300, elements=RULED * width)
    for dtype in _float_dtypes(op):
        for shape in _shorten_for_rare_dtype(dtype, _SPECIAL_COLUMNS, 2):
            name = "dim0" if shape[0] == 130 else f"columns-{shape_str(shape)}"
            make = partial(_draw_special_columns, shape)
            yield Case(op, f"{dtype}-special-values-{name}", make, 0, elements=math.prod(shape))
        if dtype in ("float32", "bfloat16"):
            yield Case(op, f"{dtype}-mostly-minus-inf", _draw_mostly_minus_inf, core=True, elements=2 * 2556)
    operation = operations.OPERATIONS[op]
    first = next(iter(operation.inputs.values()))
    for dtype in operation.dtypes if first.low is None and first.high is None else ():
        if dtype in operations.INTEGERS:
            yield Case(op, f"{dtype}-extremes", _draw_extreme_rows, core=True, elements=8 * 1025)


def _draw_special_columns(shape: tuple[int, int], draw: Sampler) -> Inputs:
    length, columns = shape
    rows = _draw_first_input_with_specials(length, draw)
    return draw.add_companion_inputs(rows.repeat(-(-columns // rows.size(0)), 1)[:columns].t().contiguous(), 0)


def _draw_special_rows(width: int, draw: Sampler) -> Inputs:
    """Draw one row for each special value, between plain rows whose results must not change."""
    return draw.add_companion_inputs(_draw_first_input_with_specials(width, draw))


def _draw_first_input_with_specials(width: int, draw: Sampler) -> torch.Tensor:
    writes = special_rows(draw.dtype).values()
    x = draw.sample((len(writes) + 2, width))[0]
    for row, write in zip(x[1:], writes, strict=False):
        write(row)
    return draw.operation.clamp_to_domain(0, x, width)


def _draw_mostly_minus_inf(draw: Sampler) -> Inputs:
    """Draw rows of -inf, with values far below zero at one end. However a row is split, some part has only -inf."""
    x = draw.sample((2, 2556))[0].sub_(1000)
    x[0, :-512], x[1, 512:] = -math.inf, -math.inf
    return draw.add_companion_inputs(draw.operation.clamp_to_domain(0, x, x.size(1)))


def _draw_sample_inputs(sample: operations.Sample, draw: Sampler) -> Inputs:
    made = draw.operation.call_guarded("samples", sample.make)
    if not isinstance(made, tuple) and draw.operation.extra_axes:
        raise draw.operation.fault("samples", f"made one tensor for {sample.name}, must make a tuple of all inputs")
    return draw.to_device(made) if isinstance(made, tuple) else draw.add_companion_inputs(made)


def _draw_extreme_rows(draw: Sampler) -> Inputs:
    x = draw.sample((8, 1025))[0]
    for row, write in zip(x, special_rows(draw.dtype).values(), strict=False):
        write(row)
    return draw.add_companion_inputs(x)


def _far_apart_row_cases(op: str) -> Iterator[Case]:
    """Yield cases with few short rows that are far apart: x or ``out`` spans more than 2^31 elements.

    The host commits little memory, because most of it is never touched. A GPU needs 6 GB for int8 and 9 GB for float16.
    """
    dtype = operations.OPERATIONS[op].narrowest_dtype
    # 2^30 fits in 32 bits, its multiples do not, and 2^31 does not. Some strides are multiples of 16 bytes, one is not.
    # The last row of int8 is past 2^32 elements.
    layouts = [("2^30", 5 if dtype == "int8" else 3, 2**30 + 1024, 64), ("2^30+1", 3, 2**30 + 1, 65)]
    if dtype == "int8":
        layouts.append(("2^31", 3, 2**31 + 1024, 64))
    for apart, rows, stride, width in layouts:
        shape, elements = (rows, width), rows * width
        for what, dim, transposed in (("rows", -1, False), ("elements", 0, False), ("columns", 0, True)):
            make = partial(_draw_rows_far_apart, shape, stride, dim, transposed)
            yield Case(op, f"{dtype}-{what}-{apart}-apart", make, dim, elements=elements)
        outs = operations.OPERATIONS[op].outputs.values()
        if all(out.dtype in ("", *operations.OPERATIONS[op].inputs) and "outer" in out.names for out in outs):
            place = partial(_place_rows_far_apart, stride)
            yield Case(op, f"{dtype}-out-{apart}-apart", sampler_of(shape), elements=elements, place=place)


def _draw_rows_far_apart(shape: tuple[int, int], stride: int, dim: int, transposed: bool, draw: Sampler) -> Inputs:
    (values,) = draw.to_device(draw.sample(shape, -1 if transposed else dim)[:1])
    x = _place_rows_far_apart(stride, values)
    return draw.add_companion_inputs(x.t() if transposed else x, dim)


def _place_rows_far_apart(stride: int, values: torch.Tensor) -> torch.Tensor:
    return copy_rows_far_apart(values, stride)[1]
