"""An operation: what its class says of it, and all that follows from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kernelzoo.errors import AxisError, DeviceError, EmptyReductionError, ShapeError
from kernelzoo.launch import Bind, Launch, sequence
from kernelzoo.operations.arguments import (
    FLOATS,
    Arguments,
    Dims,
    axes_of,
    check_input,
    check_output,
    dtype_name,
)
from kernelzoo.operations.canonical import launch_reduced, launch_rows, readable
from kernelzoo.operations.declared import ROW, Input, Output, Sample, Scalar
from kernelzoo.operations.exact import Exact
from kernelzoo.operations.expected import Bounds, Expected, bounds_of
from kernelzoo.operations.memory import distinct
from kernelzoo.operations.rows import Rows, parts
from kernelzoo.operations.sampling import draw

if TYPE_CHECKING:
    import torch

Hook = Callable[..., Any]
"""A function of the operation's class. It is given those of the following that it names: the inputs, the scalars, ``n``,
``unit``, ``ref``, ``generator``."""


class Operation:
    """One operation: what is right, and all that a check, a benchmark or a report must know to handle it.

    :func:`kernelzoo.operation` makes it of a class. The canonical form, which an implementation binds, has three axes
    of the first input, ``(outer, n, inner)``, if the operation is one by rows; see
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
        """Of the method of a backend that calls it."""
        self.doc = doc
        self.inputs, self.scalars, self.outputs = dict(inputs), dict(scalars), dict(outputs)
        self.dtypes = dtypes
        """Names of the dtypes of the first input, without ``torch.``."""
        self.hooks = dict(hooks)
        self.several_axes = several_axes
        """Whether it takes a tuple of axes, and reduces them in any order."""
        self.in_torch = in_torch
        """Name of torch's own function for it, which takes ``(x, dim, out=)``; "" if there is none."""
        first, *_ = self.inputs.values()
        self.by_rows = first.names == ROW
        """Whether it takes tensors of any rank and an axis ``dim``."""
        self.reduces = self.by_rows and not any("n" in out.names for out in self.outputs.values())
        """Whether a row becomes one element of each output. Its method then takes ``keepdim``."""
        self.needs_element = self.reduces and not hooks.get("takes_empty", False)
        """Whether an empty reduced axis is an EmptyReductionError; else the output is empty too."""
        self.rounds = "error" in hooks
        """Whether it rounds, so that errors are counted in units in the last place. Otherwise an element equals that of
        the reference, or is wrong."""
        self.decisive: float = hooks.get("decisive", 20.0)
        """A number that decides the result of a row of plain values."""

    def __repr__(self) -> str:
        return f"<kernelzoo operation {self.name!r}>"

    @property
    def writes_all(self) -> bool:
        """Whether as many bytes are written as read, so that a copy is the fastest it could be; else it is a read."""
        return not self.reduces

    @property
    def narrowest(self) -> str:
        """The dtype of which most elements fit into memory, and which is not bool."""
        import torch

        return min((d for d in self.dtypes if d != "bool"), key=lambda d: getattr(torch, d).itemsize)

    @cached_property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """Names of the axes of every input and output."""
        return tuple(tensor.names for tensor in (*self.inputs.values(), *self.outputs.values()))

    @property
    def sizes(self) -> tuple[str, ...]:
        """Axes whose size the shape of the first input does not give."""
        known = {*ROW} if self.by_rows else {*self.axes[0]}
        return tuple(dict.fromkeys(a for names in self.axes for a in names if a not in known and not a.isdigit()))

    # --- One call -------------------------------------------------------------------------------------------------

    def arguments(
        self,
        inputs: Sequence[Any],
        dim: Dims = -1,
        keepdim: bool = False,
        scalars: Mapping[str, Any] | Sequence[Any] = (),
    ) -> Arguments:
        """Check the arguments of a call.

        Raises InputTypeError, ShapeError, GradientError, AxisError, EmptyReductionError, DeviceError.
        """
        names = list(self.inputs)
        x = inputs[0]
        if self.by_rows and not self.several_axes and (not isinstance(dim, int) or isinstance(dim, bool)):
            raise AxisError(f"{self.name} takes one axis, an int; got dim={dim!r}")
        for name, tensor in zip(names, inputs, strict=True):
            check_input(tensor, name, self.name, self._dtypes_of(name, x))
        dims = axes_of(dim, x.ndim) if self.by_rows else ()
        if len(inputs) > 1 or not self.by_rows:
            self._check_shapes(inputs, dims)
        if self.needs_element:
            shape = tuple(x.shape)
            for d in dims:
                if d < len(shape) and shape[d] == 0:
                    raise EmptyReductionError(
                        f"{self.name} of nothing: axis {d} of shape {shape} is empty; a reduced axis needs an element"
                    )
        return Arguments(tuple(inputs), dims, keepdim, self.scalars_of(scalars))

    def scalars_of(self, given: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        """The scalars of a call, in order: those given, by name or all of them, and the defaults of the others."""
        if isinstance(given, Mapping):
            return tuple(given.get(name, scalar.default) for name, scalar in self.scalars.items())
        return tuple(given) or tuple(scalar.default for scalar in self.scalars.values())

    def _dtypes_of(self, name: str, x: Any) -> tuple[str, ...]:
        wanted = self.inputs[name].dtype
        if name == next(iter(self.inputs)):
            return self.dtypes
        if not wanted:
            return (dtype_name(x.dtype),)
        return (wanted,) if isinstance(wanted, str) else wanted

    def _check_shapes(self, inputs: Sequence[torch.Tensor], dims: tuple[int, ...]) -> None:
        sizes: dict[str, int] = {}
        shape = tuple(inputs[0].shape)
        for (name, declared), tensor in zip(self.inputs.items(), inputs, strict=True):
            if tensor.device != inputs[0].device:
                raise DeviceError(
                    f"{name} must be on the device of {next(iter(self.inputs))}, {inputs[0].device}; "
                    f"got {tensor.device}"
                )
            if self.by_rows:
                want = self._shape_by_rows(declared.names, shape, dims, False, None)
            else:
                if tensor.ndim == len(declared.names):
                    for axis, size in zip(declared.names, tensor.shape, strict=True):
                        sizes.setdefault(axis, int(axis) if axis.isdigit() else size)
                want = tuple(sizes.get(axis, -1) for axis in declared.names)
            if tuple(tensor.shape) != want:
                axes = " ".join(declared.names)
                raise ShapeError(f"{name} must have shape {want} ({axes}), got {tuple(tensor.shape)}")

    def shapes(
        self,
        shape: tuple[int, ...],
        dims: tuple[int, ...],
        keepdim: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[tuple[int, ...], ...]:
        """Shapes of all inputs and outputs, by that of the first input and the sizes of axes that it has not."""
        known = dict(sizes or {})
        if not self.by_rows:
            known.update(zip(self.axes[0], shape, strict=True))
        count = len(self.inputs)
        return tuple(
            self._shape_by_rows(names, shape, dims, keepdim and i >= count, known)
            if self.by_rows
            else tuple(int(a) if a.isdigit() else known[a] for a in names)
            for i, names in enumerate(self.axes)
        )

    def out_shapes(self, args: Arguments) -> tuple[tuple[int, ...], ...]:
        """Shapes of the outputs of a call."""
        sizes: dict[str, int] = {}
        if not self.by_rows:
            for names, tensor in zip(self.axes, args.inputs, strict=False):
                sizes.update(zip(names, tensor.shape, strict=True))
        return self.shapes(tuple(args.x.shape), args.dims, args.keepdim, sizes)[len(self.inputs) :]

    @staticmethod
    def _shape_by_rows(
        names: tuple[str, ...],
        shape: tuple[int, ...],
        dims: tuple[int, ...],
        keepdim: bool,
        sizes: Mapping[str, int] | None,
    ) -> tuple[int, ...]:
        if names == ROW:
            return shape
        if names == ("outer", "inner"):
            if keepdim:
                return tuple(1 if d in dims else size for d, size in enumerate(shape))
            return tuple(size for d, size in enumerate(shape) if d not in dims)
        n = math.prod(shape[d] for d in dims) if shape else 1
        return tuple(n if a == "n" else int(a) if a.isdigit() else (sizes or {}).get(a, -1) for a in names)

    def out_dtypes(self, args: Arguments) -> tuple[torch.dtype, ...]:
        import torch

        inputs = dict(zip(self.inputs, args.inputs, strict=True))
        return tuple(
            args.x.dtype if not out.dtype else inputs[out.dtype].dtype if out.dtype in inputs else getattr(torch, out.dtype)
            for out in self.outputs.values()
        )

    def allocate(self, args: Arguments) -> tuple[torch.Tensor, ...]:
        """New contiguous outputs."""
        shapes, dtypes = self.out_shapes(args), self.out_dtypes(args)
        return tuple(args.x.new_empty(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True))

    def check_outs(self, outs: Sequence[object], args: Arguments) -> None:
        """Check a caller's outputs: each of the right shape, dtype and device, and without overlap. Raises OutputError."""
        before = list(zip(self.inputs, args.inputs, strict=True))
        several = len(self.outputs) > 1
        for (name, declared), out, shape, dtype in zip(
            self.outputs.items(), outs, self.out_shapes(args), self.out_dtypes(args), strict=True
        ):
            check_output(out, name if several else "out", shape, dtype, before, declared.inplace)
            before.append((name, out))  # type: ignore[arg-type]  # it is a tensor, by now

    def launch(self, bind: Bind, args: Arguments, outs: Sequence[torch.Tensor]) -> Launch:
        """Bring checked arguments and outputs to canonical form, bind them, and return the launch, copies included."""
        plain = [readable(x) for x in args.inputs]
        inputs, before = [x for x, _ in plain], [copy for _, copy in plain]
        given = dict(zip(self.scalars, args.scalars, strict=True))

        def bound(*tensors: torch.Tensor) -> Launch:
            return bind(*tensors, **given)

        if not self.by_rows:
            return sequence(*before, bound(*inputs, *outs))
        return sequence(*before, self._launch_rows(bound if given else bind, inputs, args, outs))

    def _launch_rows(
        self, bind: Bind, inputs: list[torch.Tensor], args: Arguments, outs: Sequence[torch.Tensor]
    ) -> Launch:
        dims = args.dims or (0,)
        if args.x.ndim == 0:
            inputs, outs = Rows.of_scalars(self.axes, inputs, outs)
            dims = (0,)
        if not self.reduces or len(dims) == 1 and args.x.ndim:
            return launch_rows(bind, inputs, outs, self.axes, dims[0])
        x, (out,) = inputs[0], outs
        if out.ndim == x.ndim and len(dims):  # keepdim: the reduced axes, of size 1, say nothing
            kept = [d for d in range(out.ndim) if d not in dims]
            out = out.as_strided([out.size(d) for d in kept], [out.stride(d) for d in kept])
        return launch_reduced(bind, x, out, dims)

    # --- What is right --------------------------------------------------------------------------------------------

    def call(self, hook: str, known: Mapping[str, Any]) -> Any:
        """The result of a function of the operation's class, given what it names."""
        function = self.hooks[hook]
        return function(**{name: known[name] for name in parameters(function)})

    def _known(self, inputs: Sequence[torch.Tensor], args: Arguments) -> dict[str, Any]:
        import torch

        known: dict[str, Any] = {**zip_dict(self.inputs, inputs), **zip_dict(self.scalars, args.scalars)}
        known["n"] = inputs[0].size(1) if self.by_rows else 0
        known["unit"] = 2.0**-53 if args.x.dtype == torch.float64 else 2.0**-24
        return known

    def reference(self, args: Arguments) -> tuple[torch.Tensor, ...]:
        """The exact results as float64 can say them, of the inputs as they are (already quantised)."""
        rows = Rows(self, args)
        inputs = [self._wide(x) for x in rows.inputs]
        results = _several(self.call("reference", self._known(inputs, args)))
        return tuple(rows.back(i, result) for i, result in enumerate(results))

    def _wide(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() if self.rounds and x.is_floating_point() else x

    def expect(self, args: Arguments) -> Expected:
        """What is right for this call, to the documented tolerance: made once, it checks any number of results.

        An operation that rounds nothing must be equal by value: -0.0 equals +0.0, NaN exactly where it must be.
        """
        import torch

        rows, dtypes = Rows(self, args), self.out_dtypes(args)
        several = len(self.outputs) > 1
        found = [
            tuple(torch.empty(shape, dtype=dtype, device=args.x.device) for _ in range(2))
            for shape, dtype in zip(rows.out_shapes, dtypes, strict=True)
        ]
        flat = [bound for pair in found for bound in pair]
        axes = [*self.axes[: len(self.inputs)], *(names for names in self.axes[len(self.inputs) :] for _ in range(2))]
        for part in parts(self.by_rows, axes, [*rows.inputs, *flat]) if any(bound.numel() for bound in flat) else ():
            inputs, bounds = [self._wide(x) for x in part[: len(self.inputs)]], part[len(self.inputs) :]
            known = self._known(inputs, args)
            results = _several(self.call("reference", known))
            errors = self._errors(known, results) if self.rounds else (None,) * len(results)
            due = _several(self.call("special", {**known, "ref": _one(results)})) if "special" in self.hooks else results
            for i, (exact, error, special) in enumerate(zip(results, errors, due, strict=True)):
                lower, upper = bounds[2 * i], bounds[2 * i + 1]
                if error is None or not lower.is_floating_point():
                    lower.copy_(exact)
                    upper.copy_(lower)
                    continue
                total = error + self._rounding(exact, lower.dtype)
                low, high = bounds_of(exact.double(), total, lower.dtype)
                if special is not exact:
                    low, high = _as_due(low, high, exact, special)
                lower.copy_(low)
                upper.copy_(high)
        names = [f"{self.name} {name}" if several else self.name for name in self.outputs]
        pairs = [[rows.back(i, bound) for bound in pair] for i, pair in enumerate(found)]
        return Expected(tuple(Bounds(name, *pair) for name, pair in zip(names, pairs, strict=True)))

    def _errors(self, known: Mapping[str, Any], results: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        return _several(self.call("error", {**known, "ref": _one(results)}))

    @staticmethod
    def _rounding(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """What the output's dtype may add to the error of the arithmetic: half a unit in the last place where it is a
        half precision, and the smallest normal number (half the smallest subnormal for float16), below which a result
        may flush to zero."""
        import torch

        floor = 2.0**-25 if dtype == torch.float16 else torch.finfo(dtype).tiny
        half = torch.finfo(dtype).eps / 2 if dtype in (torch.float16, torch.bfloat16) else 0.0
        return exact.abs().mul_(half).nan_to_num_(0.0, 0.0, 0.0).add_(floor)

    def allowance(self, args: Arguments, exact: torch.Tensor) -> torch.Tensor:
        """How far off an element of the first output may be, of an operation that rounds, in the canonical form."""
        rows = Rows(self, args)
        known = self._known([self._wide(x) for x in rows.inputs], args)
        return self._errors(known, (exact,))[0] + self._rounding(exact, self.out_dtypes(args)[0])

    def exact(self, args: Arguments) -> Exact:
        """The exact first output of an operation that rounds, within a hundredth of a ulp of it, in the canonical form;
        for float64 in pairs, if the operation can."""
        import torch

        rows = Rows(self, args)
        if args.x.dtype == torch.float64 and "exact" in self.hooks:
            known = self._known(rows.inputs, args)
            found: Exact = self.call("exact", known)
            return found
        known = self._known([self._wide(x) for x in rows.inputs], args)
        return _several(self.call("reference", known))[0], None, None

    @property
    def exact_dtypes(self) -> tuple[str, ...]:
        """Dtypes for which :meth:`exact` is exact enough to count errors in units in the last place."""
        return self.dtypes if "exact" in self.hooks else tuple(d for d in self.dtypes if d != "float64")

    def bytes_moved(self, args: Arguments) -> int:
        """Bytes of device memory that the best possible implementation moves: each input read once, each output
        written once. An expanded axis counts once."""
        read = sum(distinct(x) * x.element_size() for x in args.inputs)
        outs = zip(self.out_shapes(args), self.out_dtypes(args), strict=True)
        return read + sum(math.prod(shape) * dtype.itemsize for shape, dtype in outs)

    def meta(
        self, shape: tuple[int, ...], dtype: str, dim: Dims = -1, sizes: Mapping[str, int] | None = None
    ) -> Arguments:
        """Contiguous inputs without memory, by which shapes and bytes are known."""
        import torch

        dims = axes_of(dim, len(shape)) if self.by_rows else ()
        shapes = self.shapes(shape, dims, False, sizes)
        inputs = tuple(
            torch.empty(size, dtype=getattr(torch, self.dtype_of(name, dtype)), device="meta")
            for name, size in zip(self.inputs, shapes, strict=False)
        )
        return Arguments(inputs, dims, False, self.scalars_of(()))

    def dtype_of(self, name: str, dtype: str) -> str:
        """The dtype of an input where the first has ``dtype``: of several, the first that is declared."""
        wanted = self.inputs[name].dtype
        if name == next(iter(self.inputs)) or not wanted:
            return dtype
        return wanted if isinstance(wanted, str) else wanted[0]

    def flops(self, args: Arguments) -> int | None:
        """Arithmetic operations of a call; None if the operation does not say."""
        if "flops" not in self.hooks:
            return None
        sizes = {axis: size for names, x in zip(self.axes, args.inputs, strict=False) for axis, size in zip(names, x.shape, strict=False)}
        if self.by_rows:
            n = math.prod(args.x.size(d) for d in args.dims) if args.x.ndim else 1
            sizes = {"n": n, "rows": args.x.numel() // max(1, n)}
        return int(self.call("flops", {**sizes, **zip_dict(self.scalars, args.scalars)}))

    # --- What it is tried on --------------------------------------------------------------------------------------

    def sample(
        self,
        shape: tuple[int, ...],
        dtype: str,
        dim: Dims = -1,
        *,
        generator: torch.Generator,
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Random inputs, on the generator's device, whose right answer no constant, zero or row-shifted output can pass
        for."""
        return draw(self, shape, dtype, dim, sizes or {}, generator=generator)

    def samples(self) -> tuple[Sample, ...]:
        """Inputs that this operation alone is to be tried on."""
        return tuple(self.hooks["samples"]()) if "samples" in self.hooks else ()

    def largest(self, name: str, dtype: str, n: int) -> float:
        """The largest finite number that an input may hold: the domain, or the dtype's own."""
        import torch

        info = torch.finfo(getattr(torch, dtype))
        limit = self.hooks.get("domain", {}).get(name)
        return float(min(limit(info, n), info.max)) if limit is not None else info.max


def parameters(function: Hook) -> tuple[str, ...]:
    """Names of a function's parameters."""
    return function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]


def zip_dict(names: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _one(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _as_due(
    lower: torch.Tensor, upper: torch.Tensor, exact: torch.Tensor, special: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds where the policy for special values, and not the reference, says what is due: its NaN and infinities
    exactly, and any number where it has one and the reference has none."""
    free = special.isfinite() & ~exact.isfinite()
    due = special.to(lower.dtype)
    kept = special.isfinite()
    return (
        lower.masked_fill(free, -math.inf).where(kept, due),
        upper.masked_fill(free, math.inf).where(kept, due),
    )


__all__ = ["FLOATS", "Operation"]
