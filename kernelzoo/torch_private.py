"""The private names of torch that this package uses, and what each saves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad, profiler

current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0)
"""Address of a GPU's current stream. The public function makes an object, which takes longer than a launch."""

current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
"""Index of the current GPU. The public way first asks whether CUDA was started."""

count_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""The number of active dispatch modes. There is no public way."""

_keys: Callable[[Tensor], Any] = torch._C._dispatch_keys
_guards: Any = torch._C._dynamo.guards

spin: Callable[[int], None] = torch.cuda._sleep
"""Keeps the current stream busy for some cycles, so that more work can be queued before it starts."""

softmax_gradient: Callable[..., Tensor] = torch._softmax_backward_data
"""The gradient that torch's autograd runs. ``torch.ops`` would make the baseline a microsecond slower."""

negated: Callable[[Tensor], Tensor] = torch._neg_view
"""Returns a view that torch negates when read. Public ones are parts of complex numbers, with strides of two."""

bindings: Any = torch._C
"""The module in which other libraries look up the current stream."""


def dispatch_mode_class() -> Any:
    """The base class of dispatch modes, which torch documents by its private path."""
    from torch.utils._python_dispatch import TorchDispatchMode

    return TorchDispatchMode


def inductor_folder() -> str:
    """The default cache folder of torch's compiler."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return default_cache_dir()


def in_forward_mode() -> bool:
    """Whether forward-mode differentiation is active at some level. There is no public way."""
    return forward_ad._current_level >= 0


def is_torch_watching() -> bool:
    """Whether torch must see operations on plain tensors, for a mode, a profiler or forward-mode differentiation."""
    return profiler._is_profiler_enabled or forward_ad._current_level >= 0 or count_modes() > 0


def is_profiled() -> bool:
    """Whether torch's profiler records calls. There is no public way."""
    return profiler._is_profiler_enabled


def is_jit_traced() -> bool:
    """Whether ``torch.jit.trace`` traces. Public, but without types."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def can_skip_dispatch(x: object) -> bool:
    """Whether an operation on a tensor can bypass torch's dispatcher.
    The tensor is no subclass or wrapper, needs no gradient, tangent or cast, and ``torch.jit.trace`` is not active."""
    if type(x) is not Tensor or x.requires_grad or unusual_dispatch_keys(x):
        return False
    return not (is_jit_traced() or in_forward_mode() or torch.is_autocast_enabled("cuda"))


def is_traced_by_mode() -> bool:
    """Whether torch traces or simulates computation, as by ``make_fx``, ``torch.export`` or fake tensors."""
    modes = map(torch._C._get_dispatch_stack_at, range(count_modes()))
    return any(getattr(mode, "_mode_key", None) is not None for mode in modes)


# --- What wraps a tensor ----------------------------------------------------------------------------------------------
# A tensor's dispatch keys tell what wraps it. Publicly, a batch of torch.vmap looks like a plain tensor.


_USUAL = {"CPU", "CUDA", "ADInplaceOrView", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA"}
_unusual: dict[int, frozenset[str]] = {}


def unusual_dispatch_keys(x: Tensor) -> frozenset[str]:
    """Return those dispatch keys of x that no plain dense tensor has. They show that x is a wrapper or a lazy view."""
    keys = _keys(x)
    number = keys.raw_repr()
    found = _unusual.get(number)
    if found is None:
        found = _unusual[number] = frozenset(re.findall(r"\w+", str(keys).partition("(")[2])) - _USUAL
    return found


def is_transformed(x: Tensor) -> bool:
    """Whether a tensor belongs to ``torch.vmap``, ``torch.func.grad`` or the like."""
    return not unusual_dispatch_keys(x).isdisjoint(("FuncTorchBatched", "FuncTorchGradWrapper"))


def is_wrapped_by_torch(x: Tensor) -> bool:
    """Whether torch wraps a tensor that looks plain to Python, to functionalize it or to batch gradients."""
    return type(x) is Tensor and not unusual_dispatch_keys(x).isdisjoint(("Functionalize", "Batched"))


# --- A repeated call --------------------------------------------------------------------------------------------------


def make_tensor_guard(*tensors: Tensor) -> Callable[..., bool]:
    """Return a test for plain tensors of these dtypes, devices, shapes and strides, in torch's present mode.

    It is the guard of torch's compiler, four times as fast as comparing keys. If torch lacks it, the test always fails.
    """
    try:
        sizes, strides = [list(x.shape) for x in tensors], [list(x.stride()) for x in tensors]
        made = _guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        return made.check  # type: ignore[no-any-return]  # torch's C++ has no annotations
    except (AttributeError, TypeError):
        return lambda *tensors: False


def allocator(device: str) -> Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]:
    """Return the allocating function of torch's compiled code, half a microsecond faster than ``empty_strided``."""
    return getattr(
        _guards,
        f"_empty_strided_{device}",
        lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device),
    )
