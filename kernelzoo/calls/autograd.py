"""The derivatives of an operation, for autograd, ``torch.func`` and forward mode.

An operation's class names its gradient. It is either another operation, whose kernels compute it, or ``"reference"``.
In that case, and always in forward mode, torch differentiates the operation's reference, which is written in torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from kernelzoo.calls.call import Call
from kernelzoo.errors import GradientError, UnknownNameError
from kernelzoo.operations import OPERATIONS, Arguments, Dims, Operation, axes_of
from kernelzoo.operations.declared import ROW
from kernelzoo.operations.rows import CanonicalInputs
from kernelzoo.operations.tensors import check_storage
from kernelzoo.torch_private import is_torch_watching, unusual_dispatch_keys

Tensors = tuple[torch.Tensor, ...]


def as_tuple(results: Any) -> Tensors:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def unpack_single(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


# --- The gradient -----------------------------------------------------------------------------------------------------


class GradientRule(NamedTuple):
    """The gradient rule of an operation: the operation that computes the gradient, and the tensors to save for it."""

    op: Operation | None
    """The operation that computes the gradient; None for the derivative of the reference."""
    saved: tuple[int, ...]
    """Indices of the inputs to save."""
    names: tuple[str, ...]
    """Names of the saved tensors: those inputs, and ``y`` if the output is needed."""


@functools.cache
def gradient_rule(op: Operation) -> GradientRule:
    names = list(op.inputs)
    if op.gradient == "reference":
        return GradientRule(None, tuple(range(len(names))), tuple(names))
    rule = OPERATIONS[op.gradient]
    saved = tuple(i for i, name in enumerate(names) if name in rule.inputs and name != "grad")
    return GradientRule(rule, saved, (*(names[i] for i in saved), *("y",) * ("y" in rule.inputs)))


def input_gradients(call: Call, saved: Tensors, grads: Tensors) -> tuple[torch.Tensor | None, ...]:
    """Return the gradient of each input, or None, from the saved tensors and the outputs' gradients ``grads``."""
    rule, _, names = gradient_rule(call.op)
    for name, x in zip((*names, "grad"), (*saved, grads[0]), strict=True):
        if x is not None:  # None is the gradient of an output that nobody uses
            check_storage(x, name)
    if rule is None:
        return _torch_vjp(call, saved, grads)
    known = dict(zip(names, saved, strict=True))
    known["grad"] = grads[0]
    tensors = {name: known[name] for name in rule.inputs}
    rest = (None,) * (len(call.op.inputs) - len(rule.outputs))
    if call.op.reduces and (call.keepdim or not isinstance(call.dim, int)):
        return (*_gradient_over_axes(call, rule, tensors), *rest)
    return (*_run_gradient_operation(call, rule, tuple(tensors.values()), call.dim), *rest)


def _run_gradient_operation(call: Call, rule: Operation, inputs: Tensors, dim: Dims) -> Tensors:
    try:
        scalars = {name: call.scalars.get(name, scalar.default) for name, scalar in rule.scalars.items()}
        return as_tuple(call.backend._run(rule, inputs, dim, False, scalars, call.gradient_variant(rule), None))
    except UnknownNameError as error:
        raise GradientError(
            f"{call.backend.name} has no {rule.name}, which is the gradient of {call.op.name}; register one, or call "
            "under torch.no_grad()"
        ) from error


def _gradient_over_axes(call: Call, rule: Operation, tensors: dict[str, torch.Tensor]) -> Tensors:
    """Return the gradient of a reduction over several axes or with ``keepdim``. Reduced axes are merged into one."""
    rows = {name for name, declared in rule.inputs.items() if declared.names == ROW}
    shape = next(tensor.shape for name, tensor in tensors.items() if name in rows)
    dims = axes_of(call.dim, len(shape))
    if not shape:
        return _run_gradient_operation(call, rule, tuple(tensors.values()), -1)
    order = [*(kept := [d for d in range(len(shape)) if d not in dims]), *dims]
    for name, tensor in tensors.items():
        moved = tensor.permute(order).flatten(len(kept)) if name in rows else tensor.reshape([shape[d] for d in kept])
        tensors[name] = moved
    back = [order.index(d) for d in range(len(shape))]
    found = _run_gradient_operation(call, rule, tuple(tensors.values()), -1)
    return tuple(g.reshape([shape[d] for d in order]).permute(back) for g in found)


def _torch_vjp(call: Call, inputs: Tensors, grads: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
    """Let torch differentiate the reference; returns the gradient of each input, or None for an integer input."""
    places = [i for i, x in enumerate(inputs) if x.is_floating_point()]
    function = _reference_of_float_inputs(call, inputs, places)
    given = tuple(g for g in grads if g is not None and g.is_floating_point())
    if torch.is_grad_enabled() or is_torch_watching() or any(map(unusual_dispatch_keys, (*inputs, *given))):
        pulled = torch.func.vjp(function, *(inputs[i] for i in places))[1](given)
    else:  # takes a fourth of the time
        with torch.enable_grad():
            own = [inputs[i].detach().requires_grad_() for i in places]
            pulled = torch.autograd.grad(function(*own), own, given, materialize_grads=True)
    found = dict(zip(places, pulled, strict=True))
    return tuple(found.get(i) for i in range(len(inputs)))


def _reference_of_float_inputs(call: Call, inputs: Tensors, float_indices: Sequence[int]) -> Callable[..., Tensors]:
    """Return the reference as a function of some inputs, by indices, which returns only floating-point results."""

    def float_results(*float_inputs: torch.Tensor) -> Tensors:
        whole = dict(zip(float_indices, float_inputs, strict=True))
        results = as_tuple(run_reference(call, *(whole.get(i, x) for i, x in enumerate(inputs))))
        return tuple(result for result in results if result.is_floating_point())

    return float_results


def run_reference(call: Call, *inputs: torch.Tensor) -> Any:
    """Run the operation's reference, with half precision as float32; returns the results in the output dtypes."""
    op = call.op
    dims = axes_of(call.dim, inputs[0].ndim) if op.by_rows else ()
    args = Arguments(inputs, dims, call.keepdim, op.scalars_of(call.scalars))
    rows, dtypes = CanonicalInputs(op, args), op.out_dtypes(args)
    wide = [x.float() if x.is_floating_point() and x.itemsize < 4 else x for x in rows.inputs]
    results = as_tuple(op.call_reference(wide, args))
    return unpack_single([rows.restore_shape(i, result).to(dtypes[i]) for i, result in enumerate(results)])


def output_tangents(call: Call, inputs: Tensors, input_tangents: Sequence[torch.Tensor | None]) -> Any:
    """Return the outputs' tangents from the inputs' tangents, by differentiating the reference twice."""
    moved = {i: t for i, t in enumerate(input_tangents) if t is not None}
    function = _reference_of_float_inputs(call, inputs, list(moved))
    results, pull, *_ = torch.func.vjp(function, *(inputs[i] for i in moved))
    _, push, *_ = torch.func.vjp(pull, tuple(torch.zeros_like(result) for result in results))
    found = iter(push(tuple(moved.values()))[0])
    dims = axes_of(call.dim, inputs[0].ndim) if call.op.by_rows else ()
    dtypes = call.op.out_dtypes(Arguments(inputs, dims, call.keepdim))
    return unpack_single([next(found) if dtype.is_floating_point else None for dtype in dtypes])


# --- A batch ----------------------------------------------------------------------------------------------------------


def run_batched(call: Call, size: int, in_dims: Sequence[int | None], inputs: Tensors) -> tuple[Any, Any]:
    """Run a call on a batch; returns the results, and the batch axis of each.
    The call runs once if the batch can be one more axis of rows. Otherwise it runs once per element of the batch."""
    op = call.op
    ndim = inputs[0].ndim - (in_dims[0] is not None)
    if op.by_rows and all(names in (ROW, ("outer", "inner")) for names in op.axes) and ndim:
        dims = tuple(d + 1 for d in axes_of(call.dim, ndim))
        dim = dims if op.several_axes else dims[0]
        pairs = zip(inputs, in_dims, strict=True)
        fronted = [x.expand(size, *x.shape) if at is None else x.movedim(at, 0) for x, at in pairs]
        results = as_tuple(call._replace(dim=dim)(*fronted))
    else:
        parts = [
            as_tuple(call(*(x if at is None else _batch_item(x, at, i) for x, at in zip(inputs, in_dims, strict=True))))
            for i in range(max(size, 1))
        ]
        results = tuple(torch.stack(part)[:size] for part in zip(*parts, strict=True))
    return unpack_single(results), unpack_single([0] * len(results))


def _batch_item(x: torch.Tensor, batch_axis: int, i: int) -> torch.Tensor:
    """Return element ``i`` of a batch, or zeros if the batch is empty, so that results have the right shapes."""
    return x.select(batch_axis, i) if x.size(batch_axis) else x.sum(batch_axis, dtype=x.dtype)


# --- Functions for torch's autograd engine ----------------------------------------------------------------------------


def check_has_gradient(op: Operation) -> None:
    """Raise GradientError for an operation without a gradient."""
    if not op.gradient:
        raise GradientError(
            f"{op.name} has no gradient, and an input requires one or has a tangent; pass x.detach() or call under "
            "torch.no_grad()"
        )


class Differentiable(torch.autograd.Function):
    """A call whose input requires a gradient, outside ``torch.func`` and forward mode."""

    @staticmethod
    def forward(ctx: Any, call: Call, *inputs: torch.Tensor) -> Any:
        results = call(*inputs)
        save_for_gradient(ctx, call, inputs, results)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return None, *input_gradients(ctx.call, ctx.saved_tensors, grads)


def call_differentiable(call: Call, *inputs: torch.Tensor) -> Any:
    """Make a call on plain tensors, some of which require a gradient. Raises GradientError."""
    check_has_gradient(call.op)
    return unchecked_apply(Differentiable, call.op)(call, *inputs)


@functools.cache
def unchecked_apply(base_class: type[torch.autograd.Function], op: Operation) -> Callable[..., Any]:
    """Return ``apply`` of a class that is named after the operation, without torch's slow check for ``torch.func``."""
    found: Callable[..., Any] = super(torch.autograd.Function, named_function_class(base_class, op)).apply
    return found


@functools.cache
def named_function_class(base_class: type[torch.autograd.Function], op: Operation) -> Any:
    return type(camel_case_name(op), (base_class,), {})


def camel_case_name(op: Operation) -> str:
    """Return the name in camel case: ``SoftmaxBackward`` for ``softmax_backward``."""
    return op.name.title().replace("_", "")


class CachedDifferentiable:
    """A cached launch for one input that requires a gradient. Only addresses may differ from call to call."""

    def __init__(self, call: Call, launch_at: Callable[[int, int], bool | None], result: tuple[Any, ...]) -> None:
        rule = gradient_rule(call.op)
        self.call, self.at, self.result, self.allocate = call, launch_at, result, call.backend._allocate
        self.saves_input, self.saves_output = bool(rule.saved), "y" in rule.names
        self.rule, self.gradient, self.variant = rule.op, call.backend._run, call.gradient_variant(rule.op)
        plain = rule.op is not None and not (call.op.reduces and (call.keepdim or not isinstance(call.dim, int)))
        self.plain = plain and bool(call.backend.variants(rule.op.name if rule.op is not None else ""))
        names = [*rule.names, "grad"]
        self.order = [names.index(name) for name in rule.op.inputs] if self.plain and rule.op is not None else []
        """For each input of the gradient's operation: its index in (*saved tensors, gradient of the output)."""


class CachedLaunchFunction(torch.autograd.Function):
    """The call of a :class:`CachedDifferentiable` and its gradient, in as few Python steps as possible."""

    @staticmethod
    def forward(ctx: Any, ready: CachedDifferentiable, x: torch.Tensor) -> Any:
        result = ready.allocate(*ready.result)
        if ready.at(x.data_ptr(), result.data_ptr()) is not None:  # not launched: on another stream, for example
            result = ready.call(x)
        ctx.ready = ready
        if not ready.saves_input:
            ctx.save_for_backward(result)
        elif ready.saves_output:
            ctx.save_for_backward(x, result)
        else:
            ctx.save_for_backward(x)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ready, saved = ctx.ready, ctx.saved_tensors
        if not ready.plain:
            return None, *input_gradients(ready.call, saved, grads)
        given = *saved, *grads
        inputs = tuple([given[i] for i in ready.order])
        return None, ready.gradient(ready.rule, inputs, ready.call.dim, False, {}, ready.variant, None)


def save_for_gradient(ctx: Any, call: Call, inputs: Tensors, results: Any) -> None:
    """Save in ``ctx`` the tensors from which the gradient of a call is computed."""
    _, saved, names = gradient_rule(call.op)
    ctx.call = call
    ctx.save_for_backward(*[inputs[i] for i in saved], *as_tuple(results)[: len(names) - len(saved)])


class TorchFuncCall(Differentiable):
    """A call under ``torch.func`` transforms or in forward mode."""

    @staticmethod
    def forward(call: Call, *inputs: torch.Tensor) -> Any:  # type: ignore[override]
        return call(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        call, *tensors = inputs
        save_for_gradient(ctx, call, tuple(tensors), output)
        ctx.save_for_forward(*tensors)
        ctx.count = len(tensors)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor | None) -> Any:
        return output_tangents(ctx.call, ctx.saved_tensors[: ctx.count], tangents)

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: Call, *inputs: torch.Tensor) -> Any:
        return run_batched(call, info.batch_size, in_dims[1:], inputs)
