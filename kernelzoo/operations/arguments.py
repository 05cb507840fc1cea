"""A call of an operation: it checks the arguments, allocates the outputs, and binds an implementation to them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from kernelzoo.device import require_batch_invariance
from kernelzoo.errors import (
    AxisError,
    DeviceError,
    EmptyReductionError,
    InputTypeError,
    LaunchError,
    NoRoomError,
    OutputError,
    ShapeError,
    UnsupportedProblemError,
)
from kernelzoo.launch import Bind, Launch, chain_launches
from kernelzoo.layout import dtype_name, span, storage_covers
from kernelzoo.lazy import torch
from kernelzoo.operations.canonical import bind_batch_invariant_rows, bind_reduction, bind_rows, resolve_negation
from kernelzoo.operations.declared import ROW, SUMMED, WIDE, Output
from kernelzoo.operations.derived import completed_sizes, contradicting_sizes, shape_of
from kernelzoo.operations.limits import broken_limit
from kernelzoo.operations.memory import allocation_error, count_distinct_elements
from kernelzoo.operations.signature import Signature, wide_dtype_name, zip_dict
from kernelzoo.operations.tensors import check_integers, check_output, describe, is_traced, is_wrapper, recheck_input

Dims: TypeAlias = "int | tuple[int, ...]"
Shape: TypeAlias = "tuple[int, ...]"

Named = Mapping[str, Any] | Sequence[Any]
"""Scalars by name, or the values of all scalars in order."""

ELEMENTS = 2**60 - 1
"""The most elements of a tensor. At eight bytes each, more would exceed the address space."""

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
NARROW = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2")
"""Float dtypes of at most eight bits. Torch stores and converts them, but does not compute in them."""


@dataclass(frozen=True, eq=False)
class Arguments:
    """The checked tensors and scalars of a call."""

    inputs: tuple[torch.Tensor, ...]
    """The inputs, in the order of their declaration."""
    dims: tuple[int, ...] = ()
    """The reduced axes, sorted and non-negative. Empty unless the operation is by rows."""
    keepdim: bool = False
    scalars: tuple[Any, ...] = ()

    @property
    def x(self) -> torch.Tensor:
        return self.inputs[0]


def check_input(x: Any, name: str, op: str, dtypes: Sequence[str]) -> None:
    """Check that an input is a dense tensor of an allowed dtype. The call must not lose its gradient or tangent.
    The input must not belong to a torch transform that can't see into a kernel. Raises InputTypeError, GradientError.
    """
    from kernelzoo.torch_private import can_skip_dispatch

    if not can_skip_dispatch(x) or dtype_name(x.dtype) not in dtypes or not storage_covers(x, span(x)):
        recheck_input(x, name, op, dtypes)


def is_cacheable_dim(dim: object) -> bool:
    """Whether a dim can be a cache key. True and 1.0 equal 1, but are not axes."""
    return type(dim) is int or (type(dim) is tuple and all(type(axis) is int for axis in dim))


def normalize_dim(dim: Any, several: bool) -> Any:
    """Convert NumPy integers, lists and None to an int or a tuple of axes. Anything else is returned unchanged."""
    if dim is None and several:
        return ()
    if isinstance(dim, list | tuple):
        return tuple(map(_axis_as_int, dim))
    return _axis_as_int(dim)


def _axis_as_int(axis: Any) -> Any:
    return int(axis) if isinstance(axis, numbers.Integral) and not isinstance(axis, bool) else axis


def convert_scalar(name: str, value: Any, kind: type) -> Any:
    """Convert a scalar to ``kind``, its default's type, if that is float or int (64 bits). Raises InputTypeError."""
    if (type(value) is int is kind and -(2**63) <= value < 2**63) or kind not in (int, float):
        return value
    wanted: Any = numbers.Real if kind is float else numbers.Integral
    if isinstance(value, wanted) and not isinstance(value, bool) and (kind is float or -(2**63) <= value < 2**63):
        return kind(value)
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.fx.Proxy):  # torch traces
        return value
    raise InputTypeError(f"{name} is {'a float' if kind is float else 'an int of 64 bits'}, got {value!r}")


def axes_of(dim: Dims, ndim: int) -> tuple[int, ...]:
    """Return the axes of a call, sorted, non-negative and distinct. ``()`` means all. Raises AxisError."""
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim % ndim,)
    return _several_axes(dim, ndim)


def _several_axes(dim: Dims, ndim: int) -> tuple[int, ...]:
    given = dim if isinstance(dim, tuple) else (dim,)
    if not given:
        return tuple(range(ndim))
    limit = max(ndim, 1)  # a 0-d tensor has axes 0 and -1, as in torch
    for d in given:
        if not isinstance(d, int) or isinstance(d, bool):
            raise AxisError(f"an axis is an int, got {d!r} in dim={dim!r}")
        if not -limit <= d < limit:
            raise AxisError(f"axis {d} is out of range for {ndim} dimensions; allowed: {-limit} to {limit - 1}")
    axes = sorted(d % limit for d in given)
    if len(set(axes)) < len(axes):
        raise AxisError(f"dim={dim!r} names an axis twice")
    return tuple(axes)


def is_empty(size: Any) -> bool:
    """Whether a size is 0. False if it is symbolic, in a trace, and depends on data."""
    if type(size) is int:
        return size == 0
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(size == 0)


class ArgumentBinder(Signature):
    """An operation's signature, with methods that check a call's arguments and bind an implementation to them."""

    def arguments(self, inputs: Sequence[Any], dim: Dims = -1, keepdim: bool = False, scalars: Named = ()) -> Arguments:
        """Check the arguments of a call.

        Raises InputTypeError, ShapeError, GradientError, AxisError, EmptyReductionError, DeviceError, RangeError.
        """
        dims = self.check_tensors(inputs, dim, keepdim)
        if self.needs_element and is_empty(inputs[0].numel()):
            self._check_reduced_axes_nonempty(tuple(inputs[0].shape), dims)
        args = Arguments(tuple(inputs), dims, keepdim, self.scalars_of(scalars) if self.scalars else ())
        if self.derived or self.checks_values:
            self._check_values(args)
        return args

    def _check_values(self, args: Arguments) -> None:
        """Raise ShapeError for a wrong derived size, RangeError for an integer on the host out of its range."""
        if self.derived and (words := contradicting_sizes(self.derived, self.named_sizes_and_scalars(args))):
            raise ShapeError(f"{self.name} takes no such sizes: {words}")
        for place, check in self.value_checks(args) if self.checks_values else ():
            check(args.inputs[place])

    def value_checks(self, args: Arguments) -> Sequence[tuple[int, Callable[[torch.Tensor], None]]]:
        """Return (input index, check) for each integer input whose values are checked on the host."""
        length = math.prod(map(args.x.size, args.dims)) if args.x.ndim else 1
        known: dict[Any, Any] = {**zip_dict(self.scalars, args.scalars), "n": length}
        found = []
        for place, ((name, declared), x) in enumerate(zip(self.inputs.items(), args.inputs, strict=True)):
            on_host = x.device.type == "cpu" and not is_wrapper(x) and not is_traced(x)
            if declared.checked and args.x.numel() and on_host:
                said: tuple[Any, ...] = declared.low, declared.high, *declared.also
                low, high, *also = [known.get(value, value) for value in said]
                found.append((place, partial(check_integers, f"{self.name} takes {name}", low, high, also)))
        return found

    def _check_reduced_axes_nonempty(self, shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
        for d in dims:
            if d < len(shape) and is_empty(shape[d]):
                raise EmptyReductionError(
                    f"{self.name} of nothing: axis {d} of shape {shape} is empty; a reduced axis needs an element"
                )

    def check_tensors(self, inputs: Sequence[Any], dim: Dims = -1, keepdim: bool = False) -> tuple[int, ...]:
        """Check the tensors, and return the axes. A reduced axis may be empty. Raises the errors of ``arguments``."""
        x = inputs[0]
        if self.by_rows and not self.several_axes and (not isinstance(dim, int) or isinstance(dim, bool)):
            raise AxisError(f"{self.name} takes one axis, an int; got dim={dim!r}")
        if not isinstance(keepdim, bool):
            raise InputTypeError(f"keepdim is a bool, got {describe(keepdim)}")
        check_input(x, next(iter(self.inputs)), self.name, self.dtypes)
        dims = axes_of(dim, x.ndim) if self.by_rows else ()
        if not (self.by_rows and len(inputs) == len(self.inputs) == 1):
            self._check_other_inputs(inputs, dims)
        return dims

    def scalars_of(self, values: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        """Return a call's scalars in order. In a dict, missing ones get their default. A sequence has all, or none."""
        if isinstance(values, Mapping):
            return tuple(values.get(name, scalar.default) for name, scalar in self.scalars.items())
        return tuple(values) or tuple(scalar.default for scalar in self.scalars.values())

    def _check_other_inputs(self, inputs: Sequence[torch.Tensor], dims: tuple[int, ...]) -> None:
        """Check the inputs other than the first, and that all shapes match."""
        sizes: dict[str, int] = {}
        shape = tuple(inputs[0].shape)
        for name, tensor in list(zip(self.inputs, inputs, strict=True))[1:]:
            wanted = self.inputs[name].dtype
            allowed = (self.dtype_of(name, dtype_name(inputs[0].dtype)),) if isinstance(wanted, str) else wanted
            check_input(tensor, name, self.name, allowed)
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
        if self.limits and (words := broken_limit(self.limits, sizes)):
            raise ShapeError(f"{self.name} takes no such sizes: {words}")

    def shapes(
        self, shape: Shape, dims: Shape, keepdim: bool = False, sizes: Mapping[str, int] | None = None
    ) -> tuple[Shape, ...]:
        """Return the shapes of all inputs and outputs. ``sizes``: of axes that the first input does not have."""
        if not self.by_rows:
            known = completed_sizes(self.derived, {**(sizes or {}), **dict(zip(self.axes[0], shape, strict=True))})
            return tuple(shape_of(names, known) for names in self.axes)
        count = len(self.inputs)
        return tuple(_shape_by_rows(names, shape, dims, keepdim and i >= count) for i, names in enumerate(self.axes))

    def out_shapes(self, args: Arguments) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the outputs of a call."""
        shape = tuple(args.x.shape)
        if self.by_rows:
            outs = self.axes[len(self.inputs) :]
            return tuple(_shape_by_rows(names, shape, args.dims, args.keepdim) for names in outs)
        return self.shapes(shape, args.dims, args.keepdim, self.named_sizes_and_scalars(args))[len(self.inputs) :]

    def named_sizes_and_scalars(self, args: Arguments) -> dict[str, Any]:
        """Return the sizes of named axes in a call, and its scalars, because a scalar may be a size too."""
        sizes = zip_dict(self.scalars, args.scalars)
        for names, tensor in zip(self.axes, args.inputs, strict=False):
            sizes.update(zip(names, tensor.shape, strict=True))
        return sizes

    def out_dtypes(self, args: Arguments) -> tuple[torch.dtype, ...]:
        """Return the dtypes of the outputs of a call."""
        return tuple(self._out_dtype(out, args) if out.dtype else args.x.dtype for out in self.outputs.values())

    def _out_dtype(self, out: Output, args: Arguments) -> torch.dtype:
        inputs = dict(zip(self.inputs, args.inputs, strict=True))
        if out.dtype in inputs:
            return inputs[out.dtype].dtype
        name = dtype_name(args.x.dtype)
        named = {WIDE: wide_dtype_name(name), SUMMED: name if "float" in name else "int64"}
        found: torch.dtype = getattr(torch, named.get(out.dtype, out.dtype))
        return found

    def allocate(self, args: Arguments) -> tuple[torch.Tensor, ...]:
        """Allocate contiguous outputs. Raises NoRoomError if the host has no memory for them."""
        outs = tuple(zip(self.out_shapes(args), self.out_dtypes(args), strict=True))
        try:
            return tuple(args.x.new_empty(shape, dtype=dtype) for shape, dtype in outs)
        except RuntimeError as error:
            raise allocation_error(outs, error) from error

    def outputs_of(self, out: Any, args: Arguments) -> tuple[torch.Tensor, ...]:
        """Check the caller's outputs, and return them as a tuple. Raises OutputError."""
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

    def bytes_moved(self, args: Arguments) -> int:
        """Return the fewest bytes that an implementation can move: each stored element of inputs and outputs once."""
        read = sum(count_distinct_elements(x) * x.element_size() for x in args.inputs)
        outs = zip(self.out_shapes(args), self.out_dtypes(args), strict=True)
        return read + sum(math.prod(shape) * dtype.itemsize for shape, dtype in outs)

    def meta_arguments(
        self, shape: tuple[int, ...], dtype: str, dim: Dims = -1, sizes: Mapping[str, int] | None = None
    ) -> Arguments:
        """Return contiguous inputs on ``meta``, to compute shapes and bytes. Raises NoRoomError if far too large."""
        dims = axes_of(dim, len(shape)) if self.by_rows else ()
        shapes = self.shapes(shape, dims, False, sizes)
        if (largest := max(map(math.prod, shapes))) > ELEMENTS:
            raise NoRoomError(f"a tensor of {largest} elements asks for more bytes than memory has addresses")
        inputs = tuple(
            torch.empty(size, dtype=getattr(torch, self.dtype_of(name, dtype)), device="meta")
            for name, size in zip(self.inputs, shapes, strict=False)
        )
        return Arguments(inputs, dims, False, self.scalars_of(()))

    def make_launch(self, bind: Bind, args: Arguments, outs: Sequence[torch.Tensor]) -> Launch:
        """Bind checked arguments and outputs in canonical form; returns the launch, which includes any copies."""
        if any(x.is_neg() for x in args.inputs):
            return self._make_launch_copying_negated_views(bind, args, outs)
        if args.scalars:
            bind = partial(bind, **dict(zip(self.scalars, args.scalars, strict=True)))
        if not self.by_rows:
            return bind(*args.inputs, *outs)
        x, tensors = args.x, (*args.inputs, *outs)
        if args.dims == (x.ndim - 1,) and x.numel() and all(tensor.is_contiguous() for tensor in tensors):
            shapes = {ROW: (-1, x.size(-1), 1), ("outer", "inner"): (-1, 1)}
            named = zip(tensors, self.axes, strict=True)
            return bind(*(tensor.view(shapes[names]) if names in shapes else tensor for tensor, names in named))
        return self._make_launch_for_any_layout(bind, args, outs)

    def make_batch_invariant_launch(self, id: str, bind: Bind, args: Arguments, outs: Sequence[torch.Tensor]) -> Launch:
        """As ``make_launch``, but a row's bits depend on no other row. Raises UnsupportedProblemError if they must."""
        if not self.rounds:  # the order of operations can't change the bits
            return self.make_launch(bind, args, outs)
        if not self.separable:
            reason = "a result is a sum over rows, so that its bits depend on their number"
            raise UnsupportedProblemError(id, reason, "call it without batch_invariant")
        bind = partial(bind, **dict(zip(self.scalars, args.scalars, strict=True)))
        with require_batch_invariance(id):
            return bind_batch_invariant_rows(bind, args.inputs, outs, self.axes, args.dims if args.x.ndim else ())

    def _make_launch_copying_negated_views(self, bind: Bind, args: Arguments, outs: Sequence[torch.Tensor]) -> Launch:
        """Bind arguments with lazily negated views, which the launch copies first."""
        plain = [resolve_negation(x) for x in args.inputs]
        launch = self.make_launch(bind, replace(args, inputs=tuple(x for x, _ in plain)), outs)
        return chain_launches(*(copy for _, copy in plain), launch)

    def _make_launch_for_any_layout(self, bind: Bind, args: Arguments, outs: Sequence[torch.Tensor]) -> Launch:
        """Bind arguments with any axes and any strides."""
        if len(args.dims) == 1 and args.x.ndim:
            return bind_rows(bind, args.inputs, outs, self.axes, args.dims[0])
        inputs, dims = args.inputs, args.dims or (0,)
        if args.x.ndim == 0:  # as vectors of one element
            tensors = zip((*inputs, *outs), self.axes, strict=True)
            turned = tuple(tensor.view(1) if names == ROW else tensor for tensor, names in tensors)
            inputs, outs, dims = turned[: len(inputs)], turned[len(inputs) :], (0,)
        if not self.several_axes:
            return bind_rows(bind, inputs, outs, self.axes, dims[0])
        x, (out,) = inputs[0], outs
        if out.ndim == x.ndim and len(dims):  # keepdim: drop the reduced axes, which have size 1
            kept = [d for d in range(out.ndim) if d not in dims]
            out = out.as_strided([out.size(d) for d in kept], [out.stride(d) for d in kept])
        # Results between two reductions have the accumulator's dtype, so that nothing is rounded twice.
        wide = torch.promote_types(out.dtype, torch.float32) if out.dtype.is_floating_point else out.dtype
        return bind_reduction(bind, x, out, dims, wide if self.rounds else out.dtype)


def _shape_by_rows(names: tuple[str, ...], shape: Shape, dims: Shape, keepdim: bool = False) -> Shape:
    if names == ROW:
        return shape
    if names == ("outer", "inner"):
        return tuple(1 if d in dims else size for d, size in enumerate(shape) if keepdim or d not in dims)
    return (math.prod(shape[d] for d in dims) if shape else 1,) if names else ()


def make_bound_launch(id: str, bind: Bind, *tensors: torch.Tensor, **scalars: Any) -> Launch:
    """Call a bind with canonical tensors; returns its launch. Raises LaunchError if that is not callable."""
    launch = bind(*tensors, **scalars)
    if not callable(launch):
        raise LaunchError(id, launch)
    return launch
