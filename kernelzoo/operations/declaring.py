"""The decorator ``@kernelzoo.operation``, which makes an operation from a class and registers it by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

from kernelzoo.errors import RegistrationError
from kernelzoo.operations.arguments import FLOATS, INTEGERS, NARROW
from kernelzoo.operations.declared import ROW, Input, Output, Scalar
from kernelzoo.operations.hooks import parameters
from kernelzoo.operations.limits import merge_limits
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
"""Reserved names: a call or a function of the class needs them itself."""

_HOOK_PARAMETERS = {
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
"""By name of a function of the class: the parameters that it may have in addition to inputs and scalars."""

HOOK_TYPES = {
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
HOOKS = (*_HOOK_PARAMETERS, *HOOK_TYPES)
"""The names in an operation's class that are neither inputs, scalars nor outputs."""


def operation(
    *, dtypes: Sequence[str] = FLOATS, name: str = "", several_axes: bool = False, in_torch: str = ""
) -> Callable[[ClassT], ClassT]:
    """Declare an operation by a class. The decorator returns the class unchanged.

    The class has :class:`~kernelzoo.Input`, :class:`~kernelzoo.Scalar` and :class:`~kernelzoo.Output` attributes, and
    functions without ``self``. Their parameters are inputs and scalars by name, ``n`` (the length of a row), and those
    listed below. An operation by rows gets its tensors in canonical form: axes (outer, n, inner), rows along axis 1.

    - ``reference`` (required): the result, or a tuple of results. With ``error``, it gets floats as float64.
      ``dtype`` is the dtype of the first input.
    - ``error(ref, ..., unit, tiny)``: the absolute error allowed in each element, in float64, before rounding to a half
      precision. ``ref`` is the result, and ``unit`` the unit roundoff: 2^-24, or 2^-53 for float64. ``tiny`` is the
      smallest normal number, below which a value may count as zero. Without ``error``, results must equal ``ref``.
    - ``errors(...)``: an iterator of errors, from the smallest to ``error``. A check computes only as many as it needs,
      because ``error`` may be slow. Not for operations by rows.
    - ``domain``: a dict from an input's name to a function of (torch.finfo, n). It returns the largest absolute value
      of a finite element, or a tuple of the least and the largest value.
    - ``finite``: a tuple of inputs in ``domain`` that may be NaN, but not infinite.
    - ``special(ref, ...)``: a result with the expected NaN and infinities. Without it, those of ``ref`` are expected.
    - ``exact(...)``: for float64, the result (high + low) * 2^scale as (high, low, scale). Only ``accuracy`` needs it.
    - ``sample(x, generator)``: turns standard normal values into the first input's values, in place.
    - ``others(..., generator)``: a tuple of all inputs but the first, made to match the first. It gets the inputs as
      they were drawn. For example, ``min_backward`` needs the true minimum.
    - ``samples()``: a tuple of :class:`~kernelzoo.operations.Sample`, more inputs to try.
    - ``draws(sizes, generator)``: a tuple of all inputs, if they depend on each other. ``sizes``: of axes, and scalars.
    - ``scalars(sizes)``: a dict of the scalars that go with the inputs of ``draws``.
    - ``written(...)``: the result in the inputs' own dtypes, as its author wrote it. If even this exceeds the bounds, a
      case is undecidable: it judges no kernel. The default is the reference on inputs in float32.
    - ``derived``: a dict from an axis to an expression for its size, such as ``"heads * head_dim"``.
    - ``sizes``: a list of dicts of small sizes to try, if the sizes of named axes are related. Special values are then
      reported separately. ``workloads``: a list of larger sizes.
    - ``expects(args)``: an object whose method ``check(outs)`` replaces the comparison with the reference.
      ``tolerance``: the author's tolerance, as text to show.
    - ``decisive``: an element that outweighs the rest of a random row, so that a kernel must not skip it. Default: 20.
    - ``takes_empty``: whether a reduction has a result for an axis without elements.
    - ``gradient``: an operation that returns the gradients of the first inputs. Its input ``grad`` is the output's
      gradient, ``y`` the output, any other an input of this operation. ``"reference"``: torch differentiates that.
    - ``autocast``: the dtype to which ``torch.autocast`` casts half precision on a GPU.
    - ``converts``: whether a call takes ``dtype``, and first converts its only input to it.

    ``dtypes``: those that the first input may have. ``name``: by default the class's. ``several_axes``: whether it
    reduces one input over a tuple of axes, in any order. ``in_torch``: the name of torch's function ``(x, dim, out=)``.

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
        made = _make_operation(cls, name or cls.__name__, tuple(dtypes), several_axes, in_torch)
        known = declared.get(made.name)
        if known is not None and known.hooks["reference"].__code__ != made.hooks["reference"].__code__:
            raise RegistrationError(f"there is an operation {made.name!r} already; choose another name")
        declared[made.name] = made
        for tell in on_declared:
            tell(made)
        return cls

    return declare


def _make_operation(cls: type, name: str, dtypes: tuple[str, ...], several_axes: bool, in_torch: str) -> Operation:
    said = vars(cls).items()
    inputs = {key: value for key, value in said if isinstance(value, Input)}
    scalars = {key: value for key, value in said if isinstance(value, Scalar)}
    outputs = {key: value for key, value in said if isinstance(value, Output)}
    hooks: dict[str, Any] = {}
    for key, value in said:
        if key in inputs or key in scalars or key in outputs or key.startswith("__"):
            continue
        function = value.__func__ if isinstance(value, staticmethod) else value
        if key in _HOOK_PARAMETERS and isinstance(function, FunctionType):
            hooks[key] = function
        elif key in HOOK_TYPES and isinstance(value, HOOK_TYPES[key]):  # type: ignore[arg-type]
            hooks[key] = value
        elif not key.startswith("_"):
            raise RegistrationError(
                f"operation {name}: {key} is no input, scalar or output, and none of {', '.join(HOOKS)}"
            )
    by_rows = bool(inputs) and next(iter(inputs.values())).names == ROW
    allowed = (ROW, ("outer", "inner"), ("n",), ())
    tensors: dict[str, Input | Output] = {**inputs, **outputs}
    odd = [key for key, t in tensors.items() if by_rows and t.names not in allowed]
    reserved = [key for key, t in tensors.items() if not by_rows and {*t.names} & {*ROW}]
    bounded = merge_limits(tensor.axes for tensor in tensors.values())  # raises
    strange = [
        f"{key}({argument})"
        for key, hook in hooks.items()
        if key in _HOOK_PARAMETERS
        for argument in parameters(hook)
        if argument not in inputs and argument not in scalars and argument not in _HOOK_PARAMETERS[key]
    ]
    unknown = [out.inplace for out in outputs.values() if out.inplace and out.inplace not in inputs]
    faults: Sequence[tuple[object, str]] = (
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
            f"{', '.join(sorted({a for given in _HOOK_PARAMETERS.values() for a in given}))}",
        ),
        (unknown, f"an output is in place of {unknown}, which is no input"),
        (
            several_axes and (len(inputs) > 1 or len(outputs) > 1 or not by_rows),
            "several_axes is for one input by rows",
        ),
    )
    for wrong, what in faults:
        if wrong:
            raise RegistrationError(f"operation {name}: {what}")
    doc = cls.__doc__ or ""
    return Operation(name, doc, inputs, scalars, outputs, dtypes, hooks, several_axes, in_torch, cls.__module__)
