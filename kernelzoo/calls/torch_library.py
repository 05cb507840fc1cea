"""Operations registered with torch, such as ``torch.ops.kernelzoo.softmax``, for calls that torch must see.

These are calls that torch traces, batches or wraps, for example. Import ``kernelzoo.nn`` before loading a program that
``torch.export`` saved: it defines these operations.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from kernelzoo.calls import arrays
from kernelzoo.calls.autograd import (
    TorchFuncCall,
    as_tuple,
    call_differentiable,
    camel_case_name,
    check_has_gradient,
    input_gradients,
    named_function_class,
    run_batched,
    save_for_gradient,
    unpack_single,
)
from kernelzoo.calls.call import Call
from kernelzoo.calls.methods import lookup, mark_constant
from kernelzoo.errors import GradientError, InputTypeError, OutputError, UnknownNameError
from kernelzoo.operations import BUILT_IN, OPERATIONS, Dims, Operation, axes_of, dtype_name
from kernelzoo.operations.declared import ROW
from kernelzoo.operations.tensors import check_storage, has_tangent, is_traced, is_wrapper
from kernelzoo.registry import BATCH_INVARIANT
from kernelzoo.torch_private import count_modes, in_forward_mode, is_profiled, is_transformed, is_wrapped_by_torch

_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}

# --- Dispatch of a call -----------------------------------------------------------------------------------------------


def dispatch(call: Call, inputs: Sequence[Any], out: Any) -> Any:
    """Run a call that torch must see; for any other, return NotImplemented.

    Torch must see calls on wrappers, and calls under autograd, forward mode, tracing, a mode, a profiler or ``vmap``.

    Raises GradientError, InputTypeError, OutputError.
    """
    tracing = torch.compiler.is_dynamo_compiling()
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if len(tensors) < len(inputs):
        return _call_on_arrays(call, inputs, out, tracing)
    recorded = not tracing and _is_graph_traced()
    if not (tracing or recorded) and has_torch_function(tensors):
        return _call_overridden(call, tensors, out)
    if call.op.autocast and torch.is_autocast_enabled("cuda"):
        for x, name in zip(tensors, call.op.inputs, strict=True):
            check_storage(x, name)
        halves = [x.is_cuda and x.is_floating_point() and x.itemsize == 2 for x in tensors]
        dtype = getattr(torch, call.op.autocast)
        cast = [x.to(dtype) if half else x for x, half in zip(tensors, halves, strict=True)]
        if any(a is not b for a, b in zip(cast, tensors, strict=True)):
            if out is not None:
                raise OutputError(f"torch.autocast computes {call.op.name} in {call.op.autocast}; call it without out=")
            return call(*cast)
    transformed = not tracing and any(is_transformed(x) or has_tangent(x) for x in tensors)
    seen = tracing or recorded or count_modes() > 0
    # A kernel reads memory directly, so torch would not see it.
    seen = seen or any(is_wrapped_by_torch(x) or is_wrapper(x) or x.is_meta for x in tensors)
    differentiated = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if differentiated and call.op.counts:
        return call(*(x.detach() for x in tensors), out=out)
    profiled = not (tracing or transformed or seen) and is_profiled()
    if not (transformed or seen or differentiated or profiled):
        return NotImplemented
    if out is not None and (transformed or differentiated):
        raise GradientError(
            f"{call.op.name} writes no out where torch follows the call, for a gradient or a tangent; "
            "call it without out=, or under torch.no_grad()"
        )
    if transformed and (call.op.gradient or differentiated or in_forward_mode()):
        check_has_gradient(call.op)
        return named_function_class(TorchFuncCall, call.op).apply(call, *tensors)
    if tracing or transformed:
        return _copy_into_out(out, overload(call.op)(*_flatten_call(call, tensors)))
    if seen:
        return _copy_into_out(out, _call_overload(call, tensors))
    if not profiled:
        return call_differentiable(call, *tensors)
    if out is None:
        return overload(call.op)(*_flatten_call(call, tensors))
    with torch.autograd.profiler.record_function(f"kernelzoo::{call.op.name}"):
        return call(*tensors, out=out, dispatched=True)


def _call_on_arrays(call: Call, inputs: Sequence[Any], out: Any, tracing: bool) -> Any:
    """Run a call on arrays or on a proxy of ``torch.fx.symbolic_trace``."""
    if any(isinstance(x, torch.fx.Proxy) for x in inputs):
        results = overload(call.op)(*_flatten_call(call, inputs))
        return results if out is None else out.copy_(results)
    if not tracing:
        return arrays.run(call, tuple(inputs), out)
    numpy = sys.modules.get("numpy")
    if numpy is None or not all(isinstance(x, numpy.ndarray) for x in inputs):
        raise InputTypeError("torch.compile sees into tensors and NumPy's arrays; pass torch.from_dlpack(x)")
    results = overload(call.op)(*_flatten_call(call, [torch.as_tensor(x) for x in inputs]))
    if out is not None:
        _copy_into_out(torch.as_tensor(out), results)
        return out
    return results.numpy() if isinstance(results, torch.Tensor) else tuple([y.numpy() for y in results])


def _call_overridden(call: Call, tensors: Sequence[Any], out: Any) -> Any:
    """Call the backend's method through a torch function mode or a tensor subclass."""
    op = call.op
    said = dict(call.scalars)
    if call.variant != "auto":
        said["variant"] = call.variant
    if out is not None:
        said["out"] = out
    given = [*tensors, *[call.dim] * op.by_rows, *[call.keepdim] * op.reduces]
    return handle_torch_function(getattr(type(call.backend), op.name), tensors, call.backend, *given, **said)


class SymbolicTraceBackend:
    """The best backend for a proxy of ``torch.fx.symbolic_trace``, which has no device yet."""

    def __init__(self, function: Callable[[str], Callable[..., Any]]) -> None:
        self._function = function

    def __getattr__(self, op: str) -> Any:
        function = self._function(op)

        def recorded(*args: Any, **named: Any) -> Any:
            return handle_torch_function(function, (*args, *named.values()), *args, **named)

        return recorded


def _copy_into_out(out: Any, results: Any) -> Any:
    """Copy the results into the caller's outputs, if any, by torch operations. Raises OutputError."""
    if out is None:
        return results
    for y, made in zip(as_tuple(out), as_tuple(results), strict=True):
        if tuple(y.shape) != tuple(made.shape) or y.dtype != made.dtype or y.device != made.device:
            raise OutputError(
                f"out must have shape {tuple(made.shape)} and dtype {dtype_name(made.dtype)} on {made.device}, got "
                f"{tuple(y.shape)}, {dtype_name(y.dtype)} on {y.device}"
            )
        y.copy_(made)
    return out


def _is_graph_traced() -> bool:
    """Whether ``make_fx`` or ``torch.export`` is tracing, also before torch dispatches the call."""
    tracer = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return tracer is not None and tracer.get_proxy_mode() is not None


def _call_overload(call: Call, tensors: list[torch.Tensor]) -> Any:
    found = overload(call.op)
    wrapper = next((x for x in tensors if is_wrapper(x) and not is_traced(x)), None)
    if wrapper is None:
        return found(*_flatten_call(call, tensors))
    if "torch.distributed.tensor" in sys.modules:
        _register_sharding(call.op)
    try:
        return found(*_flatten_call(call, tensors))
    except (NotImplementedError, TypeError, RuntimeError, AttributeError, KeyError) as error:
        raise InputTypeError(
            f"{call.op.name} takes plain tensors, and one is a {type(wrapper).__name__}, a wrapper whose values are "
            f"elsewhere and which does not take torch.ops.kernelzoo.{call.op.name}: {error}"
        ) from error


# --- The arguments of torch's operation -------------------------------------------------------------------------------


def _schema(op: Operation) -> str:
    """Return the schema of torch's operation, in which all arguments are positional."""
    arguments = [f"Tensor {name}" for name in op.inputs]
    if op.by_rows:
        arguments.append("int[] dim" if op.several_axes else "int dim")
    arguments += ["bool keepdim"] * op.reduces
    arguments += [f"{_TYPES[type(scalar.default)]} {name}" for name, scalar in op.scalars.items()]
    returns = f"({', '.join(['Tensor'] * len(op.outputs))})" if len(op.outputs) > 1 else "Tensor"
    return f"{op.name}({', '.join(arguments)}, str backend, str variant) -> {returns}"


def _flatten_call(call: Call, inputs: Sequence[torch.Tensor]) -> list[Any]:
    op = call.op
    flat_args: list[Any] = list(inputs)
    if op.by_rows:
        several_axes = list(call.dim) if isinstance(call.dim, tuple) else [call.dim]
        flat_args.append(several_axes if op.several_axes else call.dim)
    flat_args += [call.keepdim] * op.reduces
    flat_args += [call.scalars.get(name, scalar.default) for name, scalar in op.scalars.items()]
    return [*flat_args, call.backend.name, call.variant]


def _unflatten_call(op: Operation, flat_args: Sequence[Any]) -> tuple[Call, tuple[torch.Tensor, ...]]:
    """Return the call and the inputs of a flat argument list; the inverse of :func:`_flatten_call`."""
    (get,), count = lookup, len(op.inputs)
    dim, *rest = flat_args[count:]
    told = op, tuple(dim) if op.by_rows and op.several_axes else dim, *rest
    try:
        backend, dim, keepdim, scalars, variant = _split_flat_arguments(*told)
    except TypeError:  # a symbolic scalar has no hash
        backend, dim, keepdim, scalars, variant = _split_flat_arguments.__wrapped__(*told)
    return Call(get(backend), op, dim, keepdim, scalars, variant), tuple(flat_args[:count])


@functools.lru_cache(1024, typed=True)
def _split_flat_arguments(op: Operation, *rest: Any) -> tuple[str, Dims, bool, dict[str, Any], str]:
    """Return backend, axes, keepdim, scalars and variant from a flat argument list without inputs.
    It is cached, because the launch cache compares these objects by identity."""
    left = list(rest)
    dim: Any = left.pop(0) if op.by_rows else -1
    keepdim = left.pop(0) if op.reduces else False
    *scalars, backend, variant = left
    if isinstance(dim, tuple) and len(dim) == 1:
        (dim,) = dim
    return backend, dim, keepdim, dict(zip(op.scalars, scalars, strict=True)), variant


# --- Registration with torch ------------------------------------------------------------------------------------------


def _define(op: Operation) -> Any:
    name, qualified = op.name, f"kernelzoo::{op.name}"
    if odd := [scalar for scalar in op.scalars if type(op.scalars[scalar].default) not in _TYPES]:
        raise InputTypeError(f"{name} can't be traced: its scalar {odd[0]} is no bool, int, float or str")

    def run_call(*flat_args: Any) -> Any:
        call, inputs = _unflatten_call(op, flat_args)
        with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
            return call(*inputs, dispatched=True)

    def allocate_fake_outputs(*flat_args: Any) -> Any:
        call, inputs = _unflatten_call(op, flat_args)
        known = ("auto", *call.backend.variants(name))
        if call.variant.removesuffix(BATCH_INVARIANT) not in known:
            raise UnknownNameError(f"{call.backend.name} {name} variant", call.variant, known)
        with torch.no_grad():
            return unpack_single(op.allocate(op.arguments(inputs, call.dim, call.keepdim, call.scalars)))

    def save_context(ctx: Any, inputs: Any, output: Any) -> None:
        check_has_gradient(op)
        call, tensors = _unflatten_call(op, inputs)
        type(ctx).__name__ = f"{camel_case_name(op)}Backward"  # names the node; torch makes one class per operation
        save_for_gradient(ctx, call, tensors, output)

    def compute_gradients(ctx: Any, *grads: Any) -> Any:
        found = input_gradients(ctx.call, ctx.saved_tensors, grads)
        return (*found, *(None for _ in range(len(_flatten_call(ctx.call, ())))))

    def run_over_batch(info: Any, in_dims: Any, *flat_args: Any) -> Any:
        call, inputs = _unflatten_call(op, flat_args)
        return run_batched(call, info.batch_size, in_dims[: len(inputs)], inputs)

    _library.define(_schema(op), tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
    for device in ("CPU", "CUDA"):
        _library.impl(name, run_call, device)  # type: ignore[no-untyped-call]
    torch.library.register_fake(qualified, allocate_fake_outputs, lib=_library)
    torch.library.register_autograd(qualified, compute_gradients, setup_context=save_context, lib=_library)
    torch.library.register_vmap(qualified, run_over_batch, lib=_library)
    if op.autocast:
        torch.library.register_autocast(qualified, "cuda", getattr(torch, op.autocast), lib=_library)
    return getattr(torch.ops.kernelzoo, name).default


_library = torch.library.Library("kernelzoo", "FRAGMENT")  # type: ignore[no-untyped-call]
_lock = threading.Lock()
_overloads: dict[str, Any] = {}


def overload(op: Operation) -> Any:
    """Return torch's operation for one of kernelzoo's, defined on first use."""
    found = _overloads.get(op.name)
    if found is None:
        _ensure_defined(op.name)
        found = getattr(torch.ops.kernelzoo, op.name).default
    return found


@mark_constant
def _ensure_defined(name: str) -> bool:
    """Define torch's operation. Returns True, because torch.compile accepts no operation as a constant."""
    with _lock:
        if name not in _overloads:
            _overloads[name] = _define(OPERATIONS[name])
    return True


# --- Shards -----------------------------------------------------------------------------------------------------------


@functools.cache
def _register_sharding(op: Operation) -> None:
    """Tell DTensor how to shard the operation: rows may be split among devices, without communication."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    def rules(x: Any, *rest: Any) -> list[Any]:
        ndim = len(x.shape)
        others = [r for r in rest if not hasattr(r, "placements")]
        dim = others[0] if op.by_rows else ()
        dims = axes_of(tuple(dim) if isinstance(dim, list | tuple) else dim, ndim) if op.by_rows else ()
        keepdim = bool(op.reduces and others[1])
        told = [None] * len(others)
        count = len(op.inputs)
        places: list[Any] = [None, *(d for d in range(ndim) if op.separable and d not in dims)]
        found = []
        for place in places:
            placed = [_shard_axis(names, place, dims, keepdim and i >= count) for i, names in enumerate(op.axes)]
            # An output without row axes is a sum over all rows, so each device computes a partial sum.
            whole: list[Any] = [Replicate() if place is None or i < count else Partial() for i in range(len(placed))]
            made = [whole[i] if at is None else Shard(at) for i, at in enumerate(placed)]
            found.append((made[count:], [*made[:count], *told]))
        return found

    register_sharding(overload(op))(rules)


def _shard_axis(names: tuple[str, ...], place: int | None, dims: tuple[int, ...], keepdim: bool) -> int | None:
    if place is None or names == ROW or keepdim:
        return place
    return place - sum(d < place for d in dims) if "outer" in names else None


for _name in BUILT_IN:
    overload(OPERATIONS[_name])
