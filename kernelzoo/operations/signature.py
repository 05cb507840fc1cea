"""The signature of an operation: the inputs, scalars and outputs that it declares, and what follows from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernelzoo.errors import KernelZooError, OperationError
from kernelzoo.operations.declared import ROW, WIDE, Input, Output, Scalar
from kernelzoo.operations.derived import completed_sizes, shape_of, variables
from kernelzoo.operations.hooks import Hook, code_location, device_fails, parameters
from kernelzoo.operations.limits import Limit, merge_limits


@dataclass(eq=False, repr=False)
class Signature:
    """The declared signature of an operation: inputs, scalars, outputs, dtypes, sizes.

    :func:`kernelzoo.operation` makes it from a class. Implementations bind its canonical form; see
    :mod:`kernelzoo.operations.canonical`.
    """

    name: str
    """The name of the backend's method that calls it."""
    doc: str
    inputs: dict[str, Input]
    scalars: dict[str, Scalar]
    outputs: dict[str, Output]
    dtypes: tuple[str, ...]
    """Names of the dtypes of the first input, without ``torch.``."""
    hooks: dict[str, Any]
    several_axes: bool
    """Whether it reduces a tuple of axes, in any order."""
    in_torch: str
    """Name of torch's function ``(x, dim, out=)`` for it; "" if there is none."""
    module: str = ""
    """The module of its class; "" if another process described it."""

    def __post_init__(self) -> None:
        hooks = self.hooks
        first, *_ = self.inputs.values()
        self.by_rows = first.names == ROW
        """Whether it takes tensors of any rank and an axis ``dim``."""
        self.reduces = self.by_rows and not any("n" in out.names for out in self.outputs.values())
        """Whether a row becomes one element of each output. A call then takes ``keepdim``."""
        self.separable = self.by_rows and all("outer" in out.names for out in self.outputs.values())
        """Whether rows can be computed separately. Otherwise, an output depends on all rows."""
        self.needs_element = self.reduces and not hooks.get("takes_empty", False)
        """Whether a call raises EmptyReductionError if a reduced axis is empty."""
        self.checks_values = any(declared.checked for declared in self.inputs.values())
        """Whether a call on the host checks the values of an input."""
        self.rounds = "error" in hooks
        """Whether it rounds, so that errors are counted in ulp. Otherwise an element must equal the reference."""
        self.gradient: str = hooks.get("gradient", "")
        """The operation that computes its gradient, or ``"reference"``; "" if it has none."""
        self.counts = not self.gradient and all(re.match(r"u?int\d+$", out.dtype) for out in self.outputs.values())
        """Whether all its outputs are integers, through which no gradient flows."""
        self.autocast: str = hooks.get("autocast", "")
        """The dtype to which ``torch.autocast`` casts half precision on a GPU, or ""."""
        self.converts: bool = hooks.get("converts", False)
        """Whether a call takes ``dtype``, to which its input is converted first."""
        self.decisive: float = hooks.get("decisive", 20.0)
        """An element that outweighs the rest of a random row. Its sign says whether it is the largest or the least."""
        self.derived: dict[str, str] = dict(hooks.get("derived", {}))
        """Axes whose size is an expression of other sizes."""
        tensors: list[Input | Output] = [*self.inputs.values(), *self.outputs.values()]
        self.axes = tuple(tensor.names for tensor in tensors)
        """Names of the axes of every input and output."""

    def __repr__(self) -> str:
        return f"<kernelzoo operation {self.name!r}>"

    @property
    def writes_as_much_as_reads(self) -> bool:
        """Whether an operation writes about as much as it reads. Its speed limit is that of a copy, else of a read."""
        return not self.reduces

    @property
    def narrowest_dtype(self) -> str:
        """The dtype with the fewest bits except bool, signed if possible. It lets the most elements fit in memory."""
        # Signed, since its least value can't be mistaken for another one. The name contains the width.
        taken = (dtype for dtype in self.dtypes if dtype != "bool")
        return min(taken, key=lambda dtype: (int(re.findall(r"\d+", dtype)[0]), dtype.startswith("u")))

    @property
    def extra_axes(self) -> tuple[str, ...]:
        """Names of axes whose size does not follow from the shape of the first input."""
        known = {*(ROW if self.by_rows else self.axes[0]), *self.derived}
        named = [a for names in self.axes for a in names] + [
            a for text in self.derived.values() for a in variables(text)
        ]
        return tuple(dict.fromkeys(a for a in named if a not in known and not a.isdigit()))

    @property
    def free_axes(self) -> tuple[str, ...]:
        """Names of axes whose size is neither a number nor derived. Those of the first input come first."""
        named = dict.fromkeys((*self.axes[0], *self.extra_axes))
        return tuple(axis for axis in named if not axis.isdigit() and axis not in self.derived)

    def scalars_for(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scalars that depend on sizes: those named like an axis, and those of ``scalars(sizes)``."""
        drawn = self.call("scalars", {"sizes": sizes}) if self.hooks.get("scalars") else {}
        return {**drawn, **{name: sizes[name] for name in self.scalars if name in sizes}}

    @cached_property
    def limits(self) -> dict[str, Limit]:
        """The allowed sizes of each named axis that has bounds."""
        return merge_limits([x.axes for x in self.inputs.values()] + [out.axes for out in self.outputs.values()])

    def clamp_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Replace each size that breaks its axis's bounds by a close size of at least 1; returns all sizes."""
        wrong = {axis for axis, limit in self.limits.items() if axis in sizes and not limit.allows(sizes[axis])}
        return {axis: self.limits[axis].nearest(size) if axis in wrong else size for axis, size in sizes.items()}

    def first_input_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of the first input from the sizes of named axes."""
        return shape_of(self.axes[0], completed_sizes(self.derived, sizes))

    def call(self, hook: str, known: Mapping[str, Any]) -> Any:
        """Call a function of the operation's class with those of ``known`` that it takes. Raises OperationError."""
        function = self.hooks[hook]
        return self.call_guarded(hook, function, **{name: known[name] for name in parameters(function)})

    def call_guarded(self, hook: str, function: Hook, *args: Any, **named: Any) -> Any:
        """Call a function that the operation declares. Raises OperationError, with file and line, if it fails.

        Errors of kernelzoo, lack of memory, and device errors that a kernel caused are raised unchanged.
        """
        try:
            return function(*args, **named)
        except (KernelZooError, MemoryError):
            raise
        except Exception as error:
            short = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
            if short or device_fails():  # torch is not imported for this alone
                raise
            raise self.fault(hook, f"raised {type(error).__name__}: {error}", code_location(function, error)) from error

    def fault(self, hook: str, words: str, place: str = "") -> OperationError:
        """Return the error for a function of the class that failed, or returned something wrong."""
        place = place or code_location(self.hooks[hook])
        return OperationError(f"operation {self.name} is at fault, no kernel: its {hook} {words} ({place})")

    def dtype_of(self, name: str, dtype: str) -> str:
        """Return the dtype of an input if the first input has ``dtype``. Of several dtypes, it is the first."""
        wanted = self.inputs[name].dtype
        if name == next(iter(self.inputs)) or not wanted:
            return dtype
        if wanted == WIDE:
            return wide_dtype_name(dtype)
        return wanted if isinstance(wanted, str) else wanted[0]


def wide_dtype_name(dtype: str) -> str:
    """Return the dtype that WIDE means if the first input has this dtype."""
    return "float64" if dtype == "float64" else "float32"


def zip_dict(names: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))
