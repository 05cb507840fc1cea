"""``@kernelzoo.operation``: makes an operation of a class, and keeps it by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

from kernelzoo.errors import RegistrationError
from kernelzoo.operations.arguments import FLOATS, INTEGERS
from kernelzoo.operations.declared import ROW, Input, Output, Scalar
from kernelzoo.operations.meaning import Operation
from kernelzoo.operations.signature import parameters

ClassT = TypeVar("ClassT", bound=type)

declared: dict[str, Operation] = {}
"""The operations that were declared in this process, by name."""

on_declared: list[Callable[[Operation], None]] = []
"""Called with each operation when it is declared."""

_FUNCTIONS = {
    "reference": "the result in float64",
    "error": "how far off a result may be",
    "special": "where NaN and infinities are due",
    "exact": "the result of float64 in pairs",
    "sample": "values of the first input",
    "others": "values of the other inputs",
    "samples": "inputs of its own",
    "flops": "arithmetic operations",
}
_VALUES = {
    "domain": Mapping,
    "finite": tuple,
    "decisive": (int, float),
    "takes_empty": bool,
    "gradient": str,
    "autocast": str,
    "converts": bool,
}
_GIVEN = {
    "reference": ("unit", "n"),
    "error": ("unit", "tiny", "n", "ref"),
    "special": ("unit", "n", "ref"),
    "exact": ("unit", "n"),
    "sample": ("n", "generator"),
    "others": ("n", "generator"),
    "samples": (),
    "flops": ("n", "rows"),
}
"""What a function may ask for besides inputs and scalars."""


def operation(
    *, dtypes: Sequence[str] = FLOATS, name: str = "", several_axes: bool = False, in_torch: str = ""
) -> Callable[[ClassT], ClassT]:
    """Declare an operation by a class, and hand the class back unchanged.

    The class has :class:`~kernelzoo.Input`, :class:`~kernelzoo.Scalar` and :class:`~kernelzoo.Output` attributes, and
    functions without ``self``. Each is given what it names among its parameters: the inputs and scalars by their names,
    ``n`` (the length of a row), and what is listed here. Of an operation by rows, tensors come in canonical form, with
    the axes (outer, n, inner), so that rows lie along axis 1.

    - ``reference`` (needed): the result, or a tuple of results. If the operation rounds, floats come as float64.
    - ``error(ref, ..., unit, tiny)``: how far off each element may be, absolute, in float64, before the result is
      rounded to a half precision; ``ref`` is the result, ``unit`` the unit roundoff of the arithmetic, 2^-24, for
      float64 2^-53, and ``tiny`` its smallest normal number, 2^-126, for float64 2^-1022: what is smaller may count as
      zero. Without it, a result must equal the reference.
    - ``domain``: a dict from an input's name to a function of (torch.finfo, n): the largest finite number it may hold,
      or the least and the largest.
    - ``finite``: a tuple of inputs of that domain which hold no infinity, though they may hold NaN.
    - ``special(ref, ...)``: a result whose NaN and infinities are due; without it, those of the reference.
    - ``exact(...)``: for float64, the result as (high, low, scale) in pairs of float64; only ``accuracy`` needs it.
    - ``sample(x, generator)``: makes the first input's values out of standard normal ones, in place.
    - ``others(..., generator)``: the other inputs that go with the first, a tuple, given all as they were drawn: what
      ``min_backward`` takes for a minimum must be one.
    - ``samples()``: a tuple of :class:`~kernelzoo.operations.Sample`, inputs to be tried beside all others.
    - ``flops(n, rows, ...)``: arithmetic operations of a call, for reports.
    - ``decisive``: a number that decides the result of a row of plain values (20.0).
    - ``takes_empty``: whether a reduction has a result for an axis without elements.
    - ``gradient``: the name of the operation that computes the gradient of the first input, of which an input called
      ``grad`` is the gradient of the output, ``y`` the output, and others are inputs of this one; or ``"reference"``,
      the derivative of the reference, which must then be made of what torch can differentiate.
    - ``autocast``: the dtype to which ``torch.autocast`` casts half precision on a GPU.
    - ``converts``: whether a call, of one input, takes ``dtype``, to which the input is converted first.

    ``dtypes``: of the first input. ``name``: the operation's, if it is not the class's. ``several_axes``: a reduction
    of one input that takes a tuple of axes, and whose parts may be reduced in any order. ``in_torch``: the name of
    torch's own function for it, which takes ``(x, dim, out=)``.

    Raises RegistrationError if the class says something that can't be.

    >>> import kernelzoo, torch
    >>> @kernelzoo.operation(dtypes=kernelzoo.FLOATS)
    ... class double_it:
    ...     x = kernelzoo.Input("outer n inner")
    ...     out = kernelzoo.Output("outer n inner")
    ...     def reference(x):
    ...         return 2 * x
    """

    def declare(cls: ClassT) -> ClassT:
        made = _made(cls, name or cls.__name__, tuple(dtypes), several_axes, in_torch)
        known = declared.get(made.name)
        if known is not None and known.hooks["reference"].__code__ != made.hooks["reference"].__code__:
            raise RegistrationError(f"there is an operation {made.name!r} already; choose another name")
        made.module = cls.__module__
        declared[made.name] = made
        for tell in on_declared:
            tell(made)
        return cls

    return declare


def _made(cls: type, name: str, dtypes: tuple[str, ...], several_axes: bool, in_torch: str) -> Operation:
    said = vars(cls).items()
    inputs = {key: value for key, value in said if isinstance(value, Input)}
    scalars = {key: value for key, value in said if isinstance(value, Scalar)}
    outputs = {key: value for key, value in said if isinstance(value, Output)}
    hooks = {}
    for key, value in vars(cls).items():
        if key in inputs or key in scalars or key in outputs or key.startswith("__"):
            continue
        function = value.__func__ if isinstance(value, staticmethod) else value
        if key in _FUNCTIONS and isinstance(function, FunctionType):
            hooks[key] = function
        elif key in _VALUES and isinstance(value, _VALUES[key]):  # type: ignore[arg-type]
            hooks[key] = value
        elif not key.startswith("_"):
            known = ", ".join((*_FUNCTIONS, *_VALUES))
            raise RegistrationError(f"operation {name}: {key} is no input, scalar or output, and none of {known}")
    for wrong, what in _faults(name, inputs, scalars, outputs, dtypes, several_axes, hooks):
        if wrong:
            raise RegistrationError(f"operation {name}: {what}")
    doc = cls.__doc__ or ""
    return Operation(name, doc, inputs, scalars, outputs, dtypes, hooks, several_axes=several_axes, in_torch=in_torch)


def _faults(
    name: str,
    inputs: dict[str, Input],
    scalars: dict[str, Scalar],
    outputs: dict[str, Output],
    dtypes: tuple[str, ...],
    several_axes: bool,
    hooks: dict[str, Any],
) -> Sequence[tuple[object, str]]:
    """What may be wrong, and whether it is."""
    taken = {"self", "dim", "keepdim", "axis", "keepdims", "dtype", "variant", "out"}
    taken |= {"n", "unit", "ref", "tiny", "generator"}
    by_rows = bool(inputs) and next(iter(inputs.values())).names == ROW
    allowed = (ROW, ("outer", "inner"), ("n",), ())
    tensors: dict[str, Input | Output] = {**inputs, **outputs}
    odd = [key for key, t in tensors.items() if by_rows and t.names not in allowed]
    reserved = [key for key, t in tensors.items() if not by_rows and {*t.names} & {*ROW}]
    strange = [
        f"{key}({argument})"
        for key, hook in hooks.items()
        if key in _GIVEN
        for argument in parameters(hook)
        if argument not in inputs
        and argument not in scalars
        and argument not in _GIVEN[key]
        and not (key == "flops" and not by_rows)
    ]
    unknown = [out.inplace for out in outputs.values() if out.inplace and out.inplace not in inputs]
    return (
        (not name.isidentifier(), "its name must be a Python identifier"),
        (not inputs, "it has no Input"),
        (not outputs, "it has no Output"),
        ("reference" not in hooks, "it has no function 'reference', which says what is right"),
        ({*dtypes} - {*FLOATS, *INTEGERS} or not dtypes, f"dtypes are some of {', '.join(FLOATS + INTEGERS)}"),
        (
            ({*inputs, *scalars} | {*outputs} - {"out"}) & taken,
            "an input or scalar has a name that a call needs itself",
        ),
        (odd, f"{odd}: by rows, axes are 'outer n inner', 'outer inner', 'n' or ''"),
        (reserved, f"{reserved}: the names outer, n and inner are for operations by rows, whose first input has all"),
        (
            strange,
            f"{', '.join(strange)}: no such argument; there are the inputs, the scalars and some of "
            f"{', '.join(sorted({a for given in _GIVEN.values() for a in given}))}",
        ),
        (unknown, f"an output is in place of {unknown}, which is no input"),
        (
            several_axes and (len(inputs) > 1 or len(outputs) > 1 or not by_rows),
            "several_axes is for one input by rows",
        ),
    )
