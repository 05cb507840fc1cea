"""Checks of one tensor: whether a kernel may read or write it, and whether torch must see that."""

from __future__ import annotations

from collections.abc import Sequence

from kernelzoo.errors import GradientError, InputTypeError, OutputError, RangeError
from kernelzoo.layout import describe_missing_storage, dtype_name, span
from kernelzoo.lazy import torch
from kernelzoo.operations.memory import overlap, overlaps_itself


def check_tensor(x: object, name: str = "x") -> None:
    """Raise InputTypeError unless x is a dense torch tensor."""
    if not isinstance(x, torch.Tensor):
        raise InputTypeError(f"{name} must be a torch.Tensor, got {describe(x)}")
    if x.layout != torch.strided or x.is_quantized or x.is_nested or x._is_zerotensor():
        raise InputTypeError(
            f"{name} must be a dense tensor, got {describe(x)}; {name}.to_dense() or {name}.clone() makes one"
        )


def recheck_input(x: object, name: str, op: str, dtypes: Sequence[str]) -> None:
    """Check every property of a tensor that failed the quick test of ``check_input``: it may still be a legal input.
    Raises InputTypeError, GradientError."""
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
    if reason := why_unreadable(x):
        raise InputTypeError(f"{op} takes plain tensors, and {name} {reason}")
    check_storage(x, name)


def check_integers(takes: str, low: int, high: int, also: Sequence[int], x: torch.Tensor) -> None:
    """Raise RangeError unless all integers are from ``low`` to ``high - 1``, or one of ``also``."""
    least, most = x.aminmax()
    if low <= int(least) and int(most) < high:
        return
    wrong = (x < low) | (x >= high)
    for value in also:
        wrong &= x != value
    if bool(wrong.any()):
        legal = [f"from {low} to {high - 1}", *map(str, also)]
        raise RangeError(f"{takes} {' or '.join(legal)}; got {int(x[wrong][0])}")


def check_storage(x: torch.Tensor, name: str) -> None:
    """Raise InputTypeError if the storage of an untraced tensor was freed or shrunk."""
    if reason := why_storage_unusable(x):
        raise InputTypeError(f"{name} {reason}")


def why_storage_unusable(x: torch.Tensor) -> str:
    """Say why a tensor's storage can't be used: freed or shrunk. "" if it can, or if torch only traces the tensor."""
    from kernelzoo.torch_private import is_transformed, is_wrapped_by_torch

    if torch.compiler.is_dynamo_compiling() or x.is_meta or is_wrapper(x) or is_wrapped_by_torch(x) or is_traced(x):
        return ""
    if x.layout != torch.strided or x.is_nested or is_transformed(x):
        return ""
    return describe_missing_storage(x, span(x))


def has_tangent(x: torch.Tensor) -> bool:
    """Whether a tensor carries a forward-mode tangent, at any level."""
    from torch.autograd import forward_ad

    from kernelzoo.torch_private import in_forward_mode, is_transformed

    if not in_forward_mode() or is_transformed(x):
        return False
    return forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]  # torch's own


def why_unreadable(x: torch.Tensor) -> str:
    """Say why a kernel must not read a tensor: torch or a wrapper would not see what the kernel does. "" if it may."""
    from kernelzoo.torch_private import is_jit_traced, is_transformed, is_wrapped_by_torch

    if is_transformed(x):
        return "belongs to torch.vmap or another transform of torch.func, which can't see into a kernel"
    if is_wrapped_by_torch(x):
        return "is one that torch functionalizes or batches, which can't see into a kernel"
    if is_jit_traced():
        return "is traced by torch.jit.trace, which would keep the one shape of this call"
    if is_wrapper(x) and not is_traced(x):
        return f"is a {type(x).__name__}, a wrapper whose values are elsewhere"
    return ""


def is_wrapper(x: torch.Tensor) -> bool:
    """Whether the tensor's class defines ``__torch_dispatch__``."""
    return type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def is_traced(x: torch.Tensor) -> bool:
    """Whether torch traces (make_fx, torch.export) or the tensor is fake."""
    from kernelzoo.torch_private import is_traced_by_mode

    return is_traced_by_mode() or (is_wrapper(x) and hasattr(x, "fake_mode"))


def check_untraced(inputs: Sequence[torch.Tensor], backend: str) -> None:
    """Raise InputTypeError if torch traces, since it sees only its own kernels."""
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
    """Check a caller's output: its shape, dtype and device, and that it overlaps neither an input nor itself.
    The output may be the input named ``inplace``. Raises OutputError."""
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
    if (reason := why_unreadable(out)) or is_wrapper(out) > is_wrapper(x):
        raise OutputError(f"{name} must be a plain tensor, and {reason or f'is a {type(out).__name__}'}")
    if reason := why_storage_unusable(out):
        raise OutputError(f"{name} {reason}")
    if overlaps_itself(out):
        raise OutputError(f"{name} must hold each element once; strides {out.stride()} for shape {shape} overlap")
    for other, tensor in inputs:
        if overlap(out, tensor) and not (other == inplace and same_memory(out, tensor)):
            raise OutputError(f"{name} must not overlap {other} in memory; the input is never written")


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same address, shape, strides and dtype."""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


def describe(x: object) -> str:
    if isinstance(x, torch.Tensor):
        return f"a tensor with layout {x.layout}{', quantized' * x.is_quantized}{', nested' * x.is_nested}"
    return f"{type(x).__module__}.{type(x).__qualname__}"
