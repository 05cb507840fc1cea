"""The derivatives of an operation, for autograd, ``torch.func`` and forward mode.

An operation's class names its gradient: another operation, whose kernels then run, or ``"reference"``. The latter is
the derivative of its reference, composed of torch's operations. Forward mode and ``vmap`` use the same rules.
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
from kernelzoo.operations.rows import Rows
from kernelzoo.operations.tensors import check_storage
from kernelzoo.torch_private import is_watched, unusual_keys

Tensors = tuple[torch.Tensor, ...]


def several(results: Any) -> Tensors:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def one(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


# --- The gradient -----------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """The operation that is another's gradient, and what must be saved for it."""

    op: Operation | None
    """None stands for the derivative of the reference."""
    saved: tuple[int, ...]
    """Indices of the inputs to save."""
    names: tuple[str, ...]
    """Names of the saved tensors: those inputs, and ``y`` if the output is needed."""


@functools.cache
def rule_of(op: Operation) -> Rule:
    names = list(op.inputs)
    if op.gradient == "reference":
        return Rule(None, tuple(range(len(names))), tuple(names))
    rule = OPERATIONS[op.gradient]
    saved = tuple(i for i, name in enumerate(names) if name in rule.inputs and name != "grad")
    return Rule(rule, saved, (*(names[i] for i in saved), *("y",) * ("y" in rule.inputs)))


def gradients(call: Call, saved: Tensors, grads: Tensors) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each input, from the saved tensors and the outputs' gradients. It is differentiable again."""
    rule, _, names = rule_of(call.op)
    for name, x in zip((*names, "grad"), (*saved, grads[0]), strict=True):
        if x is not None:  # None is the gradient of an output that nobody uses
            check_storage(x, name)
    if rule is None:
        return _of_reference(call, saved, grads)
    known = dict(zip(names, saved, strict=True))
    known["grad"] = grads[0]
    tensors = {name: known[name] for name in rule.inputs}
    rest = (None,) * (len(call.op.inputs) - len(rule.outputs))
    if call.op.reduces and (call.keepdim or not isinstance(call.dim, int)):
        return (*_over_axes(call, rule, tensors), *rest)
    return (*_by_rule(call, rule, tuple(tensors.values()), call.dim), *rest)


def _by_rule(call: Call, rule: Operation, inputs: Tensors, dim: Dims) -> Tensors:
    try:
        scalars = {name: call.scalars.get(name, scalar.default) for name, scalar in rule.scalars.items()}
        return several(call.backend._run(rule, inputs, dim, False, scalars, call.chooser(rule), None))
    except UnknownNameError as error:
        raise GradientError(
            f"{call.backend.name} has no {rule.name}, which is the gradient of {call.op.name}; register one, or call "
            "under torch.no_grad()"
        ) from error


def _over_axes(call: Call, rule: Operation, tensors: dict[str, torch.Tensor]) -> Tensors:
    """The gradient of a reduction over several axes, or with ``keepdim``. The reduced axes are merged into one."""
    rows = {name for name, declared in rule.inputs.items() if declared.names == ROW}
    shape = next(tensor.shape for name, tensor in tensors.items() if name in rows)
    dims = axes_of(call.dim, len(shape))
    if not shape:
        return _by_rule(call, rule, tuple(tensors.values()), -1)
    order = [*(kept := [d for d in range(len(shape)) if d not in dims]), *dims]
    for name, tensor in tensors.items():
        moved = tensor.permute(order).flatten(len(kept)) if name in rows else tensor.reshape([shape[d] for d in kept])
        tensors[name] = moved
    back = [order.index(d) for d in range(len(shape))]
    found = _by_rule(call, rule, tuple(tensors.values()), -1)
    return tuple(g.reshape([shape[d] for d in order]).permute(back) for g in found)


def _of_reference(call: Call, inputs: Tensors, grads: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
    places = [i for i, x in enumerate(inputs) if x.is_floating_point()]
    function = _of_floats(call, inputs, places)
    given = tuple(g for g in grads if g is not None and g.is_floating_point())
    if torch.is_grad_enabled() or is_watched() or any(map(unusual_keys, (*inputs, *given))):
        pulled = torch.func.vjp(function, *(inputs[i] for i in places))[1](given)
    else:  # in a fourth of the time
        with torch.enable_grad():
            own = [inputs[i].detach().requires_grad_() for i in places]
            pulled = torch.autograd.grad(function(*own), own, given, materialize_grads=True)
    found = dict(zip(places, pulled, strict=True))
    return tuple(found.get(i) for i in range(len(inputs)))


def _of_floats(call: Call, inputs: Tensors, places: Sequence[int]) -> Callable[..., Tensors]:
    """The floating-point results, as a function of the inputs at ``places``."""

    def function(*given: torch.Tensor) -> Tensors:
        whole = dict(zip(places, given, strict=True))
        results = several(composed(call, *(whole.get(i, x) for i, x in enumerate(inputs))))
        return tuple(result for result in results if result.is_floating_point())

    return function


def composed(call: Call, *inputs: torch.Tensor) -> Any:
    """The results of the operation's reference, composed of torch's operations, with their rounding."""
    op = call.op
    dims = axes_of(call.dim, inputs[0].ndim) if op.by_rows else ()
    args = Arguments(inputs, dims, call.keepdim, op.scalars_of(call.scalars))
    rows, dtypes = Rows(op, args), op.out_dtypes(args)
    wide = [x.float() if x.is_floating_point() and x.itemsize < 4 else x for x in rows.inputs]
    results = several(op.computed(wide, args))
    return one([rows.back(i, result).to(dtypes[i]) for i, result in enumerate(results)])


def tangents(call: Call, inputs: Tensors, given: Sequence[torch.Tensor | None]) -> Any:
    """The tangents of the outputs: the reference's gradient is linear, and is transposed."""
    moved = {i: t for i, t in enumerate(given) if t is not None}
    function = _of_floats(call, inputs, list(moved))
    results, pull, *_ = torch.func.vjp(function, *(inputs[i] for i in moved))
    _, push, *_ = torch.func.vjp(pull, tuple(torch.zeros_like(result) for result in results))
    found = iter(push(tuple(moved.values()))[0])
    dims = axes_of(call.dim, inputs[0].ndim) if call.op.by_rows else ()
    dtypes = call.op.out_dtypes(Arguments(inputs, dims, call.keepdim))
    return one([next(found) if dtype.is_floating_point else None for dtype in dtypes])


# --- A batch ----------------------------------------------------------------------------------------------------------


def batched(call: Call, size: int, in_dims: Sequence[int | None], inputs: Tensors) -> tuple[Any, Any]:
    """Run a call on a batch; returns its results and the batch axis of each. By rows, the batch is one more axis."""
    op = call.op
    ndim = inputs[0].ndim - (in_dims[0] is not None)
    if op.by_rows and all(names in (ROW, ("outer", "inner")) for names in op.axes) and ndim:
        dims = tuple(d + 1 for d in axes_of(call.dim, ndim))
        dim = dims if op.several_axes else dims[0]
        fronted = [_fronted(x, at, size) for x, at in zip(inputs, in_dims, strict=True)]
        results = several(call._replace(dim=dim)(*fronted))
    else:
        parts = [
            several(call(*(x if at is None else _part(x, at, i) for x, at in zip(inputs, in_dims, strict=True))))
            for i in range(max(size, 1))
        ]
        results = tuple(torch.stack(part)[:size] for part in zip(*parts, strict=True))
    return one(results), one([0] * len(results))


def _part(x: torch.Tensor, at: int, i: int) -> torch.Tensor:
    """One of a batch; of an empty one zeros, from which the shapes of its results follow."""
    return x.select(at, i) if x.size(at) else x.sum(at, dtype=x.dtype)


def _fronted(x: torch.Tensor, at: int | None, size: int) -> torch.Tensor:
    return x.expand(size, *x.shape) if at is None else x.movedim(at, 0)


# --- What torch's engine is given -------------------------------------------------------------------------------------


def refuse(op: Operation) -> None:
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
        save(ctx, call, inputs, results)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return None, *gradients(ctx.call, ctx.saved_tensors, grads)


def followed(call: Call, *inputs: torch.Tensor) -> Any:
    """Make a call on plain tensors, some of which require a gradient. Raises GradientError."""
    refuse(call.op)
    return applied(Differentiable, call.op)(call, *inputs)


@functools.cache
def applied(kind: type[torch.autograd.Function], op: Operation) -> Callable[..., Any]:
    """The ``apply`` of a function named after the operation, without torch's slow check for ``torch.func``."""
    found: Callable[..., Any] = super(torch.autograd.Function, named(kind, op)).apply
    return found


@functools.cache
def named(kind: type[torch.autograd.Function], op: Operation) -> Any:
    return type(title(op), (kind,), {})


def title(op: Operation) -> str:
    """``SoftmaxBackward`` for ``softmax_backward``."""
    return op.name.title().replace("_", "")


class Ready:
    """A cached launch of one tensor that requires a gradient; only addresses are unknown."""

    def __init__(self, call: Call, at: Callable[[int, int], bool | None], result: tuple[Any, ...]) -> None:
        rule = rule_of(call.op)
        self.call, self.at, self.result, self.allocate = call, at, result, call.backend._allocate
        self.saves_input, self.saves_output = bool(rule.saved), "y" in rule.names
        self.rule, self.gradient, self.variant = rule.op, call.backend._run, call.chooser(rule.op)
        plain = rule.op is not None and not (call.op.reduces and (call.keepdim or not isinstance(call.dim, int)))
        self.plain = plain and bool(call.backend.variants(rule.op.name if rule.op is not None else ""))
        names = [*rule.names, "grad"]
        self.order = [names.index(name) for name in rule.op.inputs] if self.plain and rule.op is not None else []
        """Indices of the gradient's inputs in the saved tensors followed by the output's gradient."""

    def function(self) -> Callable[[torch.Tensor], Any]:
        """The call, without a Python frame before torch's."""
        return functools.partial(applied(Straight, self.call.op), self)


class Straight(torch.autograd.Function):
    """The call of a :class:`Ready`, and its gradient, in as few steps as possible."""

    @staticmethod
    def forward(ctx: Any, ready: Ready, x: torch.Tensor) -> Any:
        result = ready.allocate(*ready.result)
        if ready.at(x.data_ptr(), result.data_ptr()) is not None:  # another stream than before, for example
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
            return None, *gradients(ready.call, saved, grads)
        given = *saved, *grads
        inputs = tuple([given[i] for i in ready.order])
        return None, ready.gradient(ready.rule, inputs, ready.call.dim, False, {}, ready.variant, None)


def save(ctx: Any, call: Call, inputs: Tensors, results: Any) -> None:
    """Save what the gradient of a call needs."""
    _, saved, names = rule_of(call.op)
    ctx.call = call
    ctx.save_for_backward(*[inputs[i] for i in saved], *several(results)[: len(names) - len(saved)])


class Transformed(Differentiable):
    """The same under ``torch.func`` transforms and in forward mode."""

    @staticmethod
    def forward(call: Call, *inputs: torch.Tensor) -> Any:  # type: ignore[override]
        return call(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        call, *tensors = inputs
        save(ctx, call, tuple(tensors), output)
        ctx.save_for_forward(*tensors)
        ctx.count = len(tensors)

    @staticmethod
    def jvp(ctx: Any, _: None, *given: torch.Tensor | None) -> Any:
        return tangents(ctx.call, ctx.saved_tensors[: ctx.count], given)

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: Call, *inputs: torch.Tensor) -> Any:
        return batched(call, info.batch_size, in_dims[1:], inputs)
