"""The arguments of a call: their checks, which are the same for every operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo.errors import AxisError, GradientError, InputTypeError, OutputError
from kernelzoo.operations.memory import overlap, overlaps_itself

if TYPE_CHECKING:
    import torch

Dims: TypeAlias = "int | tuple[int, ...]"

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")

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
    """What an operation is asked: tensors and scalars that were checked."""

    inputs: tuple[torch.Tensor, ...]
    """In the order in which the operation declares them."""
    dims: tuple[int, ...] = ()
    """The axes that are reduced, sorted and not negative; of an operation by rows."""
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
    if x.layout != torch.strided or x.is_quantized or x._is_zerotensor():
        raise InputTypeError(
            f"{name} must be a dense tensor, got {describe(x)}; {name}.to_dense() or {name}.clone() makes one"
        )


def check_input(x: object, name: str, op: str, dtypes: Sequence[str]) -> None:
    """Check one input: a dense tensor of one of these dtypes, without a gradient that would be lost.

    Raises InputTypeError, GradientError.
    """
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


def check_output(
    out: object,
    name: str,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    inputs: Sequence[tuple[str, torch.Tensor]],
    inplace: str = "",
) -> None:
    """Check a caller's output: a tensor of that shape and dtype on the inputs' device, that overlaps none of them nor
    itself. With ``inplace`` it may be that input itself.

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


def axes_of(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The axes of a call, sorted, non-negative and distinct; an empty tuple is all of them. Raises AxisError."""
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
        return f"a tensor with layout {x.layout}{', quantized' if x.is_quantized else ''}"
    return f"{type(x).__module__}.{type(x).__qualname__}"
