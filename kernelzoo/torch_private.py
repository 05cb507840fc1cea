"""The private names of torch that this package uses, and what each of them saves."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad, profiler

current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0)
"""Address of a GPU's current stream. The public way makes an object of it, which takes longer than a launch."""

count_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""How many modes see what torch's dispatcher does. There is no public way."""

_keys: Callable[[Tensor], Any] = torch._C._dispatch_keys
_guards: Any = torch._C._dynamo.guards

spin: Callable[[int], None] = torch.cuda._sleep
"""Keeps the current stream busy for so many cycles, so that what follows is queued when it begins."""

softmax_gradient: Callable[..., Tensor] = torch._softmax_backward_data
"""What torch's autograd runs. Through ``torch.ops`` the yardstick would take a microsecond longer."""

negated: Callable[[Tensor], Tensor] = torch._neg_view
"""A view that torch negates when it is read. Publicly only complex numbers have one, with strides of two."""

bindings: Any = torch._C
"""Where other libraries look up the current stream."""


def dispatch_mode() -> Any:
    """The base class of modes that see what torch's dispatcher does, which torch documents by its private path."""
    from torch.utils._python_dispatch import TorchDispatchMode

    return TorchDispatchMode


def inductor_pool() -> Any:
    """What starts the processes of torch's compiler; None before it is imported."""
    return getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None)


def inductor_folder() -> str:
    """Where torch's compiler keeps programs by default."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return default_cache_dir()


def carries_tangents() -> bool:
    """Whether a level of forward-mode differentiation is entered. There is no public way."""
    return forward_ad._current_level >= 0


def is_watched() -> bool:
    """Whether torch may have to see what is done with a plain tensor: a mode, a profiler or a level of tangents."""
    return profiler._is_profiler_enabled or forward_ad._current_level >= 0 or count_modes() > 0


def is_profiled() -> bool:
    """Whether a profiler of torch's records calls. There is no public way."""
    return profiler._is_profiler_enabled


def is_jit_traced() -> bool:
    """Whether ``torch.jit.trace`` traces. Public, but without types."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def is_traced_by_mode() -> bool:
    """Whether torch traces, or only pretends to compute: ``make_fx``, ``torch.export``, fake tensors. Modes of torch's
    own have a key; there is no public way to see them."""
    modes = map(torch._C._get_dispatch_stack_at, range(count_modes()))
    return any(getattr(mode, "_mode_key", None) is not None for mode in modes)


# --- What wraps a tensor ----------------------------------------------------------------------------------------------
#
# The keys by which torch dispatches a tensor say it all. Publicly, a batch of torch.vmap looks like a plain tensor.


_USUAL = {"CPU", "CUDA", "ADInplaceOrView", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA"}
_unusual: dict[int, frozenset[str]] = {}


def _unusual_keys(x: Tensor) -> frozenset[str]:
    """Keys that a tensor has beside those of dense memory on the host or a GPU."""
    keys = _keys(x)
    number = keys.raw_repr()
    found = _unusual.get(number)
    if found is None:
        found = _unusual[number] = frozenset(re.findall(r"\w+", str(keys).partition("(")[2])) - _USUAL
    return found


def is_plain(x: Tensor) -> bool:
    """Whether a tensor is dense memory on the host or a GPU: no wrapper, and no view that torch computes later."""
    return not _unusual_keys(x)


def is_transformed(x: Tensor) -> bool:
    """Whether a tensor belongs to ``torch.vmap``, ``torch.func.grad`` or the like."""
    return not _unusual_keys(x).isdisjoint(("FuncTorchBatched", "FuncTorchGradWrapper"))


def is_hidden(x: Tensor) -> bool:
    """Whether torch wraps a tensor of a kind that Python sees as a plain one: to functionalize it, or for batches of
    gradients."""
    return type(x) is Tensor and not _unusual_keys(x).isdisjoint(("Functionalize", "Batched"))


# --- A repeated call --------------------------------------------------------------------------------------------------


def make_tensor_guard(*tensors: Tensor) -> Callable[..., bool]:
    """A test for plain tensors of these dtypes, devices, shapes and strides, in torch's present mode.

    It is what torch's compiler guards with, and takes a quarter of the time of a key. Without it the test always fails.
    """
    try:
        sizes, strides = [list(x.shape) for x in tensors], [list(x.stride()) for x in tensors]
        made = _guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        return made.check  # type: ignore[no-any-return]  # torch's C++ has no annotations
    except (AttributeError, TypeError):
        return lambda *tensors: False


def allocator(device: str) -> Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]:
    """What makes a tensor of a shape, strides and a dtype on the host or the current GPU: that which torch's compiled
    code calls, half a microsecond faster than ``torch.empty_strided``."""
    return getattr(_guards, f"_empty_strided_{device}", partial(_empty_strided, device=device))


def _empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)
