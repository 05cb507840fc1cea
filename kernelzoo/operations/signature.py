"""What an operation takes and returns, and what follows from that."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo.errors import (
    AxisError,
    DeviceError,
    EmptyReductionError,
    InputTypeError,
    NoRoomError,
    OperationError,
    OutputError,
    RangeError,
    ShapeError,
)
from kernelzoo.operations.arguments import (
    Arguments,
    Dims,
    axes_of,
    check_input,
    check_output,
    describe,
    dtype_name,
    is_empty,
    is_traced,
    is_wrapper,
)
from kernelzoo.operations.declared import ROW, SUMMED, WIDE, Input, Output, Scalar
from kernelzoo.operations.derived import completed_sizes, contradicted, shape_of, variables
from kernelzoo.operations.hooks import Hook, fault, guarded, parameters, place_of
from kernelzoo.operations.limits import Limit, broken, merged
from kernelzoo.operations.memory import distinct, no_memory_for

if TYPE_CHECKING:
    import torch

ELEMENTS = 2**60 - 1
"""Most elements of a tensor: with eight bytes each, memory has no more addresses."""


Shape: TypeAlias = "tuple[int, ...]"

Named = Mapping[str, Any] | Sequence[Any]
"""Scalars by name, or all in order."""


class Signature:
    """What an operation takes and returns, and what follows: checks, shapes, dtypes, bytes.

    :func:`kernelzoo.operation` makes it from a class. Implementations bind its canonical form; see
    :mod:`kernelzoo.operations.canonical`.
    """

    def __init__(
        self,
        name: str,
        doc: str,
        inputs: Mapping[str, Input],
        scalars: Mapping[str, Scalar],
        outputs: Mapping[str, Output],
        dtypes: tuple[str, ...],
        hooks: Mapping[str, Any],
        *,
        several_axes: bool,
        in_torch: str,
    ) -> None:
        self.name = name
        """The name of the backend's method that calls it."""
        self.doc = doc
        self.module = ""
        """The module of its class; "" where another process described it."""
        self.inputs, self.scalars, self.outputs = dict(inputs), dict(scalars), dict(outputs)
        self.dtypes = dtypes
        """Names of the dtypes of the first input, without ``torch.``."""
        self.hooks = dict(hooks)
        self.several_axes = several_axes
        """Whether it reduces a tuple of axes, in any order."""
        self.in_torch = in_torch
        """Name of torch's function ``(x, dim, out=)`` for it; "" if there is none."""
        first, *_ = self.inputs.values()
        self.by_rows = first.names == ROW
        """Whether it takes tensors of any rank and an axis ``dim``."""
        self.reduces = self.by_rows and not any("n" in out.names for out in self.outputs.values())
        """Whether a row becomes one element of each output. A call then takes ``keepdim``."""
        self.separable = self.by_rows and all("outer" in out.names for out in self.outputs.values())
        """Whether some of the rows give their part of every output. Otherwise an output needs all rows."""
        self.needs_element = self.reduces and not hooks.get("takes_empty", False)
        """Whether an empty reduced axis raises EmptyReductionError. Otherwise the output is empty too."""
        self.checks_values = any(declared.checked for declared in self.inputs.values())
        """Whether a call on the host looks at the values of an input."""
        self.alike = not any(out.dtype for out in self.outputs.values())
        """Whether all outputs have the dtype of the first input."""
        self.rounds = "error" in hooks
        """Whether it rounds, so that errors are counted in ulp. Otherwise an element must equal the reference."""
        self.gradient: str = hooks.get("gradient", "")
        """The operation that computes its gradient, or ``"reference"``; "" if it has none."""
        self.autocast: str = hooks.get("autocast", "")
        """The dtype to which ``torch.autocast`` casts half precision on a GPU, or ""."""
        self.converts: bool = hooks.get("converts", False)
        """Whether a call takes ``dtype``, to which its input is converted first."""
        self.decisive: float = hooks.get("decisive", 20.0)
        """A number that decides the result of a row of plain values."""
        self.derived: dict[str, str] = dict(hooks.get("derived", {}))
        """Axes whose size is an expression of other sizes."""
        tensors: list[Input | Output] = [*self.inputs.values(), *self.outputs.values()]
        self.axes = tuple(tensor.names for tensor in tensors)
        """Names of the axes of every input and output."""

    def __repr__(self) -> str:
        return f"<kernelzoo operation {self.name!r}>"

    @property
    def writes_all(self) -> bool:
        """Whether it writes as many bytes as it reads. Its limit is then a copy, else a read."""
        return not self.reduces

    @property
    def narrowest(self) -> str:
        """The narrowest dtype except bool, signed if possible, so that memory holds the most elements."""
        # Signed, since its least value can't be mistaken for another. The width is in the name.
        taken = (dtype for dtype in self.dtypes if dtype != "bool")
        return min(taken, key=lambda dtype: (int(re.findall(r"\d+", dtype)[0]), dtype.startswith("u")))

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of axes whose size the shape of the first input does not give."""
        known = {*(ROW if self.by_rows else self.axes[0]), *self.derived}
        named = [a for names in self.axes for a in names] + [
            a for text in self.derived.values() for a in variables(text)
        ]
        return tuple(dict.fromkeys(a for a in named if a not in known and not a.isdigit()))

    @property
    def free_axes(self) -> tuple[str, ...]:
        """Names of all axes whose size is not in the declaration, those of the first input first."""
        named = dict.fromkeys((*self.axes[0], *self.sizes))
        return tuple(axis for axis in named if not axis.isdigit() and axis not in self.derived)

    def sized_scalars(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """The scalars that sizes decide: those named as an axis, and those that are drawn with the inputs."""
        drawn = self.call("scalars", {"sizes": sizes}) if self.hooks.get("scalars") else {}
        return {**drawn, **{name: sizes[name] for name in self.scalars if name in sizes}}

    @cached_property
    def limits(self) -> dict[str, Limit]:
        """The sizes that named axes may have, for those with bounds."""
        return merged([x.axes for x in self.inputs.values()] + [out.axes for out in self.outputs.values()])

    def fitted(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes of named axes. One that breaks its bounds is changed to one close to it, from 1 up."""
        wrong = {axis for axis, limit in self.limits.items() if axis in sizes and not limit.allows(sizes[axis])}
        return {axis: self.limits[axis].nearest(size) if axis in wrong else size for axis, size in sizes.items()}

    def first_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of the first input, from the sizes of named axes."""
        return shape_of(self.axes[0], completed_sizes(self.derived, sizes))

    def arguments(self, inputs: Sequence[Any], dim: Dims = -1, keepdim: bool = False, scalars: Named = ()) -> Arguments:
        """Check the arguments of a call.

        Raises InputTypeError, ShapeError, GradientError, AxisError, EmptyReductionError, DeviceError, RangeError.
        """
        dims = self.check_tensors(inputs, dim, keepdim)
        if self.needs_element:
            self._check_elements(tuple(inputs[0].shape), dims)
        args = Arguments(tuple(inputs), dims, keepdim, self.scalars_of(scalars) if self.scalars else ())
        if self.derived and (words := contradicted(self.derived, self.bound_sizes(args))):
            raise ShapeError(f"{self.name} takes no such sizes: {words}")
        if self.checks_values and args.x.numel():
            self._check_values(args)
        return args

    def _check_values(self, args: Arguments) -> None:
        """Raise RangeError if an integer input on the host has a value that is not declared."""
        length = math.prod(map(args.x.size, args.dims)) if args.x.ndim else 1
        known: dict[Any, Any] = {**zip_dict(self.scalars, args.scalars), "n": length}
        for (name, declared), x in zip(self.inputs.items(), args.inputs, strict=True):
            if not declared.checked or x.device.type != "cpu" or is_wrapper(x) or is_traced(x):
                continue
            said: tuple[Any, ...] = declared.low, declared.high, *declared.also
            low, high, *also = [known.get(value, value) for value in said]
            wrong = (x < low) | (x >= high)
            for value in also:
                wrong &= x != value
            if bool(wrong.any()):
                legal = [f"from {low} to {high - 1}", *map(str, also)]
                raise RangeError(f"{self.name} takes {name} {' or '.join(legal)}; got {int(x[wrong][0])}")

    def _check_elements(self, shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
        for d in dims:
            if d < len(shape) and is_empty(shape[d]):
                raise EmptyReductionError(
                    f"{self.name} of nothing: axis {d} of shape {shape} is empty; a reduced axis needs an element"
                )

    def check_tensors(self, inputs: Sequence[Any], dim: Dims = -1, keepdim: bool = False) -> tuple[int, ...]:
        """Check all but empty reduced axes, which a shard may have; returns the axes. Raises as ``arguments`` does."""
        x = inputs[0]
        if self.by_rows and not self.several_axes and (not isinstance(dim, int) or isinstance(dim, bool)):
            raise AxisError(f"{self.name} takes one axis, an int; got dim={dim!r}")
        if not isinstance(keepdim, bool):
            raise InputTypeError(f"keepdim is a bool, got {describe(keepdim)}")
        check_input(x, next(iter(self.inputs)), self.name, self.dtypes)
        dims = axes_of(dim, x.ndim) if self.by_rows else ()
        if not (self.by_rows and len(inputs) == len(self.inputs) == 1):
            self._check_companions(inputs, dims)
        return dims

    def scalars_of(self, given: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        """The scalars of a call in order, with defaults where none is given. They are given by name, or all of them."""
        if isinstance(given, Mapping):
            return tuple(given.get(name, scalar.default) for name, scalar in self.scalars.items())
        return tuple(given) or tuple(scalar.default for scalar in self.scalars.values())

    def _dtypes_of(self, name: str, x: Any) -> tuple[str, ...]:
        """Dtypes of another input than the first."""
        wanted = self.inputs[name].dtype
        if not wanted or wanted == WIDE:
            return (self.dtype_of(name, dtype_name(x.dtype)),)
        return (wanted,) if isinstance(wanted, str) else wanted

    def _check_companions(self, inputs: Sequence[torch.Tensor], dims: tuple[int, ...]) -> None:
        """Check the inputs beside the first, and that the shapes of all match."""
        sizes: dict[str, int] = {}
        shape = tuple(inputs[0].shape)
        for name, tensor in list(zip(self.inputs, inputs, strict=True))[1:]:
            check_input(tensor, name, self.name, self._dtypes_of(name, inputs[0]))
        for (name, declared), tensor in zip(self.inputs.items(), inputs, strict=True):
            if tensor.device != inputs[0].device:
                raise DeviceError(
                    f"{name} must be on the device of {next(iter(self.inputs))}, {inputs[0].device}; "
                    f"got {tensor.device}"
                )
            if self.by_rows:
                want = _shape_by_rows(declared.names, shape, dims)
            else:
                if tensor.ndim == len(declared.names):
                    for axis, size in zip(declared.names, tensor.shape, strict=True):
                        sizes.setdefault(axis, int(axis) if axis.isdigit() else size)
                want = tuple(sizes.get(axis, -1) for axis in declared.names)
            if tuple(tensor.shape) != want:
                axes = " ".join(declared.names)
                raise ShapeError(f"{name} must have shape {want} ({axes}), got {tuple(tensor.shape)}")
        if self.limits and (words := broken(self.limits, sizes)):
            raise ShapeError(f"{self.name} takes no such sizes: {words}")

    def shapes(
        self,
        shape: Shape,
        dims: Shape,
        keepdim: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[Shape, ...]:
        """Shapes of all inputs and outputs, from the first input's shape and the sizes of other axes."""
        if not self.by_rows:
            known = completed_sizes(self.derived, {**(sizes or {}), **dict(zip(self.axes[0], shape, strict=True))})
            return tuple(shape_of(names, known) for names in self.axes)
        count = len(self.inputs)
        return tuple(_shape_by_rows(names, shape, dims, keepdim and i >= count) for i, names in enumerate(self.axes))

    def out_shapes(self, args: Arguments) -> tuple[tuple[int, ...], ...]:
        """Shapes of the outputs of a call."""
        shape = tuple(args.x.shape)
        if self.by_rows:
            outs = self.axes[len(self.inputs) :]
            return tuple(_shape_by_rows(names, shape, args.dims, args.keepdim) for names in outs)
        return self.shapes(shape, args.dims, args.keepdim, self.bound_sizes(args))[len(self.inputs) :]

    def bound_sizes(self, args: Arguments) -> dict[str, Any]:
        """The sizes of named axes in a call, and its scalars, which may be sizes too."""
        sizes = zip_dict(self.scalars, args.scalars)
        for names, tensor in zip(self.axes, args.inputs, strict=False):
            sizes.update(zip(names, tensor.shape, strict=True))
        return sizes

    def out_dtypes(self, args: Arguments) -> tuple[torch.dtype, ...]:
        """Dtypes of the outputs of a call."""
        return tuple(self._out_dtype(out, args) if out.dtype else args.x.dtype for out in self.outputs.values())

    def _out_dtype(self, out: Output, args: Arguments) -> torch.dtype:
        import torch

        inputs = dict(zip(self.inputs, args.inputs, strict=True))
        if out.dtype in inputs:
            return inputs[out.dtype].dtype
        name = dtype_name(args.x.dtype)
        named = {WIDE: wide_name(name), SUMMED: name if "float" in name else "int64"}
        found: torch.dtype = getattr(torch, named.get(out.dtype, out.dtype))
        return found

    def allocate(self, args: Arguments) -> tuple[torch.Tensor, ...]:
        """New contiguous outputs. Raises NoRoomError where the host has no memory for them."""
        outs = tuple(zip(self.out_shapes(args), self.out_dtypes(args), strict=True))
        try:
            return tuple(args.x.new_empty(shape, dtype=dtype) for shape, dtype in outs)
        except RuntimeError as error:
            raise no_memory_for(outs, error) from error

    def outputs_of(self, out: Any, args: Arguments) -> tuple[torch.Tensor, ...]:
        """The caller's outputs, checked. Raises OutputError."""
        outs = tuple(out) if isinstance(out, list | tuple) and len(self.outputs) > 1 else (out,)
        self.check_outs(outs, args)
        return outs

    def check_outs(self, outs: Sequence[object], args: Arguments) -> None:
        """Check a caller's outputs: the shape, dtype and device of each, and that none overlap. Raises OutputError."""
        before = list(zip(self.inputs, args.inputs, strict=True))
        several = len(self.outputs) > 1
        if len(outs) != len(self.outputs):
            raise OutputError(f"out must be a tuple of {len(self.outputs)} tensors: {', '.join(self.outputs)}")
        for (name, declared), out, shape, dtype in zip(
            self.outputs.items(), outs, self.out_shapes(args), self.out_dtypes(args), strict=True
        ):
            check_output(out, name if several else "out", shape, dtype, before, declared.inplace)
            before.append((name, out))  # type: ignore[arg-type]  # it is a tensor, by now

    def call(self, hook: str, known: Mapping[str, Any]) -> Any:
        """Call a function of the operation's class with the parameters it names. Raises OperationError if it fails."""
        function = self.hooks[hook]
        return self.guarded(hook, function, **{name: known[name] for name in parameters(function)})

    def guarded(self, hook: str, function: Hook, *args: Any, **named: Any) -> Any:
        """Call a function that the operation declares; see :func:`kernelzoo.operations.hooks.guarded`."""
        return guarded(f"operation {self.name}", hook, function, *args, **named)

    def fault(self, hook: str, words: str) -> OperationError:
        """The error for a function of the class that returned what it must not."""
        return fault(f"operation {self.name}", hook, words, place_of(self.hooks[hook]))

    def bytes_moved(self, args: Arguments) -> int:
        """Fewest bytes of device memory that an implementation must move. Each input is read once and each output
        written once. An expanded axis counts once."""
        read = sum(distinct(x) * x.element_size() for x in args.inputs)
        outs = zip(self.out_shapes(args), self.out_dtypes(args), strict=True)
        return read + sum(math.prod(shape) * dtype.itemsize for shape, dtype in outs)

    def meta(
        self, shape: tuple[int, ...], dtype: str, dim: Dims = -1, sizes: Mapping[str, int] | None = None
    ) -> Arguments:
        """Contiguous inputs without memory, for shapes and bytes. Raises NoRoomError if no memory could hold them."""
        import torch

        dims = axes_of(dim, len(shape)) if self.by_rows else ()
        shapes = self.shapes(shape, dims, False, sizes)
        if (largest := max(map(math.prod, shapes))) > ELEMENTS:
            raise NoRoomError(f"a tensor of {largest} elements asks for more bytes than memory has addresses")
        inputs = tuple(
            torch.empty(size, dtype=getattr(torch, self.dtype_of(name, dtype)), device="meta")
            for name, size in zip(self.inputs, shapes, strict=False)
        )
        return Arguments(inputs, dims, False, self.scalars_of(()))

    def dtype_of(self, name: str, dtype: str) -> str:
        """The dtype of an input where the first has ``dtype``. It is the first declared of several."""
        wanted = self.inputs[name].dtype
        if name == next(iter(self.inputs)) or not wanted:
            return dtype
        if wanted == WIDE:
            return wide_name(dtype)
        return wanted if isinstance(wanted, str) else wanted[0]


def _shape_by_rows(names: tuple[str, ...], shape: Shape, dims: Shape, keepdim: bool = False) -> Shape:
    if names == ROW:
        return shape
    if names == ("outer", "inner"):
        return tuple(1 if d in dims else size for d, size in enumerate(shape) if keepdim or d not in dims)
    return (math.prod(shape[d] for d in dims) if shape else 1,) if names else ()


def wide_name(dtype: str) -> str:
    """The dtype for WIDE where the first input has this dtype."""
    return "float64" if dtype == "float64" else "float32"


def zip_dict(names: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))
