"""Checks of a call's arguments, the same for every operation."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo.errors import AxisError, GradientError, InputTypeError, OutputError
from kernelzoo.operations.memory import overlap, overlaps_itself
from kernelzoo.storages import held, lacking, span

if TYPE_CHECKING:
    import torch

Dims: TypeAlias = "int | tuple[int, ...]"

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
NARROW = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2")
"""Floats of at most eight bits, which torch stores and converts, and does not compute in."""

_SHORT = {
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
}


@dataclass(frozen=True, eq=False)
class Arguments:
    """The checked tensors and scalars of a call."""

    inputs: tuple[torch.Tensor, ...]
    """In the order of the operation's declaration."""
    dims: tuple[int, ...] = ()
    """The reduced axes, sorted and non-negative. Empty unless the operation is by rows."""
    keepdim: bool = False
    scalars: tuple[Any, ...] = ()

    @property
    def x(self) -> torch.Tensor:
        """The first input."""
        return self.inputs[0]


def full_dtype(name: str) -> str:
    """The full name of a dtype that may be abbreviated.

    >>> full_dtype("fp16"), full_dtype("bf16"), full_dtype("torch.float32"), full_dtype("int8")
    ('float16', 'bfloat16', 'float32', 'int8')
    """
    plain = name.removeprefix("torch.")
    return _SHORT.get(plain, plain)


def dtype_name(dtype: torch.dtype) -> str:
    """``"float32"`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def check_tensor(x: object, name: str = "x") -> None:
    """Raise InputTypeError unless x is a dense torch tensor."""
    import torch

    if not isinstance(x, torch.Tensor):
        raise InputTypeError(f"{name} must be a torch.Tensor, got {describe(x)}")
    if x.layout != torch.strided or x.is_quantized or x.is_nested or x._is_zerotensor():
        raise InputTypeError(
            f"{name} must be a dense tensor, got {describe(x)}; {name}.to_dense() or {name}.clone() makes one"
        )


def check_input(x: object, name: str, op: str, dtypes: Sequence[str]) -> None:
    """Check that an input is a dense tensor of an allowed dtype. It must not lose a gradient or tangent, nor belong to
    a transform that can't see into a kernel.

    Raises InputTypeError, GradientError.
    """
    import torch

    from kernelzoo.torch_private import carries_tangents, is_jit_traced, unusual_keys

    ordinary = type(x) is torch.Tensor and not unusual_keys(x) and not is_jit_traced() and not carries_tangents()
    if not ordinary or x.requires_grad or dtype_name(x.dtype) not in dtypes or not held(x, span(x)):  # type: ignore
        _check_closely(x, name, op, dtypes)


def _check_closely(x: object, name: str, op: str, dtypes: Sequence[str]) -> None:
    """The full check, for a tensor that :func:`check_input` can't accept at once but that may be legal."""
    import torch

    check_tensor(x, name)
    assert isinstance(x, torch.Tensor)
    dtype = dtype_name(x.dtype)
    if dtype not in dtypes:
        whose = "" if name == "x" else f" as {name}"
        raise InputTypeError(f"{op} takes {', '.join(dtypes)}{whose}; got {dtype}")
    if x.requires_grad and torch.is_grad_enabled():
        raise GradientError(
            f"{op} computes no gradient, and {name} requires one; pass {name}.detach() or call under torch.no_grad()"
        )
    if has_tangent(x):
        raise GradientError(f"{op} computes no tangent, and {name} has one (forward mode); pass {name}.detach()")
    if reason := no_memory(x):
        raise InputTypeError(f"{op} takes plain tensors, and {name} {reason}")
    check_storage(x, name)


def check_storage(x: torch.Tensor, name: str) -> None:
    """Raise InputTypeError if the storage of an untraced tensor was freed or shrunk."""
    if reason := without_storage(x):
        raise InputTypeError(f"{name} {reason}")


def without_storage(x: torch.Tensor) -> str:
    """Why a tensor's storage can't be used: freed or shrunk. "" if it can, or torch only traces the tensor."""
    import torch

    from kernelzoo.torch_private import is_hidden, is_transformed

    if torch.compiler.is_dynamo_compiling() or x.is_meta or is_wrapper(x) or is_hidden(x) or is_traced(x):
        return ""
    if x.layout != torch.strided or x.is_nested or is_transformed(x):
        return ""
    return lacking(x, span(x))


def has_tangent(x: torch.Tensor) -> bool:
    """Whether a tensor carries a forward-mode tangent, at any level."""
    from torch.autograd import forward_ad

    from kernelzoo.torch_private import carries_tangents, is_transformed

    if not carries_tangents() or is_transformed(x):
        return False
    return forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]  # torch's own


def no_memory(x: torch.Tensor) -> str:
    """Why a kernel must not read this tensor's memory: torch or a wrapper would not see the result. "" if it may.
    Torch's own kernels can run on fake tensors; see :func:`check_untraced`."""
    from kernelzoo.torch_private import is_hidden, is_jit_traced, is_transformed

    if is_transformed(x):
        return "belongs to torch.vmap or another transform of torch.func, which can't see into a kernel"
    if is_hidden(x):
        return "is one that torch functionalizes or batches, which can't see into a kernel"
    if is_jit_traced():
        return "is traced by torch.jit.trace, which would keep the one shape of this call"
    if is_wrapper(x) and not is_traced(x):
        return f"is a {type(x).__name__}, a wrapper whose values are elsewhere"
    return ""


def is_wrapper(x: torch.Tensor) -> bool:
    """Whether the tensor's class defines ``__torch_dispatch__``."""
    import torch

    return type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def is_traced(x: torch.Tensor) -> bool:
    """Whether torch traces (make_fx, torch.export) or the tensor is fake."""
    from kernelzoo.torch_private import is_traced_by_mode

    return is_traced_by_mode() or (is_wrapper(x) and hasattr(x, "fake_mode"))


def needs_torch_dispatch(inputs: Sequence[torch.Tensor]) -> bool:
    """Whether torch may have to see an unwatched call, for a gradient, batch, wrapper or cast. A fast first test;
    :func:`kernelzoo.calls.torch_library.dispatch` decides."""
    import torch

    from kernelzoo.torch_private import unusual_keys

    if torch.is_autocast_enabled("cuda"):
        return True
    gradients = torch.is_grad_enabled()
    return any(unusual_keys(x) or is_wrapper(x) or (gradients and x.requires_grad) for x in inputs)


def check_untraced(inputs: Sequence[torch.Tensor], backend: str) -> None:
    """Raise InputTypeError where torch traces, since it sees only its own kernels."""
    if any(map(is_traced, inputs)):
        raise InputTypeError(
            f"torch is tracing, or takes a fake tensor for a real one, and can't see what kernels of {backend!r} do; "
            "call the backend 'torch' there"
        )


def check_output(
    out: object,
    name: str,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    inputs: Sequence[tuple[str, torch.Tensor]],
    inplace: str = "",
) -> None:
    """Check a caller's output: its shape, dtype and device, and that it overlaps no input and not itself. With
    ``inplace`` it may be that input.

    Raises OutputError.
    """
    import torch

    first, x = inputs[0]
    if not isinstance(out, torch.Tensor) or out.layout != torch.strided:
        raise OutputError(f"{name} must be a dense torch.Tensor, got {describe(out)}")
    if tuple(out.shape) != shape:
        raise OutputError(f"{name} must have shape {shape}, got {tuple(out.shape)}")
    if out.dtype != dtype:
        whose = f"{first}'s " if dtype == x.dtype else ""
        raise OutputError(f"{name} must have {whose}dtype {dtype_name(dtype)}, got {dtype_name(out.dtype)}")
    if out.device != x.device:
        raise OutputError(f"{name} must be on {first}'s device {x.device}, got {out.device}")
    if out.requires_grad and torch.is_grad_enabled():
        raise OutputError(f"{name} must not require a gradient; pass {name}.detach() or call under torch.no_grad()")
    if out.is_neg():
        raise OutputError(f"{name} must not be a lazily negated view; pass a plain tensor")
    if has_tangent(out):
        raise OutputError(f"{name} must not have a tangent; pass {name}.detach()")
    if (reason := no_memory(out)) or is_wrapper(out) > is_wrapper(x):
        raise OutputError(f"{name} must be a plain tensor, and {reason or f'is a {type(out).__name__}'}")
    if reason := without_storage(out):
        raise OutputError(f"{name} {reason}")
    if overlaps_itself(out):
        raise OutputError(f"{name} must hold each element once; strides {out.stride()} for shape {shape} overlap")
    for other, tensor in inputs:
        if other == inplace and same_memory(out, tensor):
            continue
        if overlap(out, tensor):
            raise OutputError(f"{name} must not overlap {other} in memory; the input is never written")


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether each element of one tensor is at the address of the other's."""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


def plain_dim(dim: object) -> bool:
    """Whether a dim can be a cache key. True and 1.0 equal 1, but are not axes."""
    return type(dim) is int or (type(dim) is tuple and all(type(axis) is int for axis in dim))


def normalize_dim(dim: Any, several: bool) -> Any:
    """Convert other ways to name axes: NumPy integers, and lists or None where several are allowed. Anything else is
    returned unchanged."""
    if dim is None and several:
        return ()
    if isinstance(dim, list | tuple):
        return tuple(map(_plain_axis, dim))
    return _plain_axis(dim)


def _plain_axis(axis: Any) -> Any:
    return int(axis) if isinstance(axis, numbers.Integral) and not isinstance(axis, bool) else axis


def axes_of(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The axes of a call, sorted, non-negative and distinct. An empty tuple means all. Raises AxisError."""
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


def describe(x: object) -> str:
    import torch

    if isinstance(x, torch.Tensor):
        return f"a tensor with layout {x.layout}{', quantized' * x.is_quantized}{', nested' * x.is_nested}"
    return f"{type(x).__module__}.{type(x).__qualname__}"


def is_empty(size: Any) -> bool:
    """Whether a size is 0. False for a symbolic size of a trace, which only the data decides."""
    if type(size) is int:
        return size == 0
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(size == 0)
