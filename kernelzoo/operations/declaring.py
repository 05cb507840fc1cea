"""The decorator ``@kernelzoo.operation``, which makes an operation from a class and registers it by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

from kernelzoo.errors import RegistrationError
from kernelzoo.operations.arguments import FLOATS, INTEGERS, NARROW
from kernelzoo.operations.declared import ROW, Input, Output, Scalar
from kernelzoo.operations.hooks import parameters
from kernelzoo.operations.limits import merged
from kernelzoo.operations.meaning import Operation

ClassT = TypeVar("ClassT", bound=type)

declared: dict[str, Operation] = {}
"""The operations declared in this process, by name."""

on_declared: list[Callable[[Operation], None]] = []
"""Callbacks that get each operation when it is declared."""

TAKEN = (
    *("self", "dim", "keepdim", "axis", "keepdims", "dtype", "variant", "out"),
    *("n", "unit", "ref", "tiny", "generator"),
)
"""Names that a call or a function of the class needs itself."""

_GIVEN = {
    "reference": ("unit", "n", "dtype"),
    "error": ("unit", "tiny", "n", "ref"),
    "errors": ("unit", "tiny", "n", "ref"),
    "special": ("unit", "n", "ref"),
    "exact": ("unit", "n"),
    "sample": ("n", "generator"),
    "others": ("n", "generator"),
    "samples": (),
    "draws": ("sizes", "generator"),
    "written": ("n",),
    "scalars": ("sizes",),
    "expects": ("args",),
}
"""Functions of the class, and the parameters that each may have besides inputs and scalars."""

_VALUES = {
    "domain": Mapping,
    "finite": tuple,
    "decisive": (int, float),
    "takes_empty": bool,
    "gradient": str,
    "autocast": str,
    "converts": bool,
    "derived": Mapping,
    "sizes": Sequence,
    "workloads": Sequence,
    "tolerance": str,
}
HOOKS = (*_GIVEN, *_VALUES)
"""Names of an operation's class that are no input, scalar or output."""


def operation(
    *, dtypes: Sequence[str] = FLOATS, name: str = "", several_axes: bool = False, in_torch: str = ""
) -> Callable[[ClassT], ClassT]:
    """Declare an operation by a class, and hand the class back unchanged.

    The class has :class:`~kernelzoo.Input`, :class:`~kernelzoo.Scalar` and :class:`~kernelzoo.Output` attributes, and
    functions without ``self``. Their parameters are inputs and scalars by name, ``n`` (the length of a row), and those
    listed here. For an operation by rows, tensors come in canonical form: axes (outer, n, inner), rows along axis 1.

    - ``reference`` (needed): the result, or a tuple of results. If the operation rounds, floats come as float64.
      ``dtype`` is the first input's own.
    - ``error(ref, ..., unit, tiny)``: the absolute error allowed in each element, in float64, before rounding to a half
      precision. ``ref`` is the result, and ``unit`` the unit roundoff: 2^-24, for float64 2^-53. ``tiny`` is the
      smallest normal number, below which a value may count as zero. Without ``error``, it must equal the reference.
    - ``errors(...)``: an iterator of such errors, each at least the one before, the last ``error``. A check takes as
      few as it needs, where ``error`` takes long to find. Not by rows.
    - ``domain``: a dict from an input's name to a function of (torch.finfo, n). It returns the largest finite number
      allowed, or the least and the largest.
    - ``finite``: a tuple of inputs of that domain without infinities, though they may hold NaN.
    - ``special(ref, ...)``: a result with the NaN and infinities that are due. Without it, those of the reference are.
    - ``exact(...)``: for float64, the result as (high, low, scale) in pairs of float64; only ``accuracy`` needs it.
    - ``sample(x, generator)``: makes the first input's values out of standard normal ones, in place.
    - ``others(..., generator)``: a tuple of companion inputs that match the first, from all inputs as drawn. For
      example, ``min_backward`` needs the true minimum.
    - ``samples()``: a tuple of :class:`~kernelzoo.operations.Sample`, more inputs to try.
    - ``draws(sizes, generator)``: a tuple of all inputs, where they belong together. ``sizes``: axes and scalars.
    - ``scalars(sizes)``: a dict of the scalars that belong to those.
    - ``written(...)``: the result in the inputs' own dtypes, as its author wrote it. A case in which it breaks the
      bounds is undecidable. By default the reference is asked, with inputs in float32.
    - ``derived``: a dict from an axis to an expression of other axes, as text; its size follows from theirs.
    - ``sizes``: a list of dicts of small sizes to try, where those of named axes are related. Special values are then
      reported apart. ``workloads``: larger ones.
    - ``expects(args)``: an object with ``check(outs)``, in place of the reference's bounds. ``tolerance``: its author's
      own, as text to show.
    - ``decisive``: a number that decides the result of a row of plain values (20.0).
    - ``takes_empty``: whether a reduction has a result for an axis without elements.
    - ``gradient``: the operation that computes the first input's gradient. Its input ``grad`` is the output's gradient,
      ``y`` the output, and others are inputs of this one. Or ``"reference"``, if torch can differentiate that.
    - ``autocast``: the dtype to which ``torch.autocast`` casts half precision on a GPU.
    - ``converts``: whether a call, of one input, takes ``dtype``, to which the input is converted first.

    ``dtypes``: of the first input. ``name``: of the operation, if not that of the class. ``several_axes``: a reduction
    of one input that takes a tuple of axes, in any order. ``in_torch``: the name of torch's function ``(x, dim,
    out=)``.

    Raises RegistrationError for an inconsistent class.

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
        if key in _GIVEN and isinstance(function, FunctionType):
            hooks[key] = function
        elif key in _VALUES and isinstance(value, _VALUES[key]):  # type: ignore[arg-type]
            hooks[key] = value
        elif not key.startswith("_"):
            raise RegistrationError(
                f"operation {name}: {key} is no input, scalar or output, and none of {', '.join(HOOKS)}"
            )
    for wrong, what in _faults(name, inputs, scalars, outputs, dtypes, several_axes, hooks):
        if wrong:
            raise RegistrationError(f"operation {name}: {what}")
    doc = cls.__doc__ or ""
    return Operation(name, doc, inputs, scalars, outputs, dtypes, hooks, several_axes, in_torch, cls.__module__)


def _faults(
    name: str,
    inputs: dict[str, Input],
    scalars: dict[str, Scalar],
    outputs: dict[str, Output],
    dtypes: tuple[str, ...],
    several_axes: bool,
    hooks: dict[str, Any],
) -> Sequence[tuple[object, str]]:
    """Each possible fault of a declaration: whether it occurs, and its message."""
    by_rows = bool(inputs) and next(iter(inputs.values())).names == ROW
    allowed = (ROW, ("outer", "inner"), ("n",), ())
    tensors: dict[str, Input | Output] = {**inputs, **outputs}
    odd = [key for key, t in tensors.items() if by_rows and t.names not in allowed]
    reserved = [key for key, t in tensors.items() if not by_rows and {*t.names} & {*ROW}]
    bounded = merged(tensor.axes for tensor in tensors.values())  # raises
    strange = [
        f"{key}({argument})"
        for key, hook in hooks.items()
        if key in _GIVEN
        for argument in parameters(hook)
        if argument not in inputs and argument not in scalars and argument not in _GIVEN[key]
    ]
    unknown = [out.inplace for out in outputs.values() if out.inplace and out.inplace not in inputs]
    return (
        (not name.isidentifier(), "its name must be a Python identifier"),
        (not inputs, "it has no Input"),
        (not outputs, "it has no Output"),
        ("reference" not in hooks, "it has no function 'reference', which says what is right"),
        (
            {*dtypes} - {*FLOATS, *INTEGERS, *NARROW} or not dtypes,
            f"dtypes are some of {', '.join(FLOATS + INTEGERS + NARROW)}; got {', '.join(dtypes) or 'none'}",
        ),
        (
            ({*inputs, *scalars} | {*outputs} - {"out"}) & {*TAKEN},
            "an input or scalar has a name that a call needs itself",
        ),
        (odd, f"{odd}: by rows, axes are 'outer n inner', 'outer inner', 'n' or ''"),
        (reserved, f"{reserved}: the names outer, n and inner are for operations by rows, whose first input has all"),
        (by_rows and bounded, "by rows, an axis has no bounds: a kernel may refuse lengths that it can't take"),
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
