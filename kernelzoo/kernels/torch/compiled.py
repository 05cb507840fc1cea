"""Compiles functions by torch.compile, once per problem, and caches them."""

import functools
import importlib.util
import shutil
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from kernelzoo.errors import BackendUnavailableError
from kernelzoo.interrupts import delay_interrupt
from kernelzoo.kernels.shared import code_cache
from kernelzoo.launch import Launch
from kernelzoo.torch_private import inductor_folder

Into = Callable[..., None]
"""A plain Python function, whose code can be copied."""

_lock = threading.Lock()


def refuse_on_host(implementation: str, x: torch.Tensor) -> None:
    """Raise BackendUnavailableError on the host, where Inductor adds in sequence and misses the contract."""
    if x.device.type == "cpu":
        reason = "what Inductor makes for the host is not exact enough for the contract"
        raise BackendUnavailableError(implementation, reason, "use a GPU, or the variant eager")


def compile_launch(implementation: str, into: Into, arguments: tuple[Any, ...], mode: str | None = None) -> Launch:
    """Compile a function of tensors and numbers by torch.compile, in one of its modes, and return its launch.

    The launch returns the function's result. Raises BackendUnavailableError if Inductor lacks a C++ compiler (on the
    CPU) or Triton (on a GPU).
    """
    # The first call imports torch's compiler. Ctrl-C is delayed, because it would leave the compiler half imported.
    with nullcontext() if _compiled else delay_interrupt():
        return _bind_compiled(implementation, into, arguments, mode)


def _bind_compiled(implementation: str, into: Into, arguments: tuple[Any, ...], mode: str | None) -> Launch:
    _check_toolchain(implementation, arguments[0].device.type)
    _check_inductor_cache_folder()
    key = (into, mode, *(_key(argument) if isinstance(argument, torch.Tensor) else argument for argument in arguments))
    with _lock:  # Dynamo compiles one thing at a time, and this cache is filled once per problem
        function = _compiled.pop(key, None)
        if function is None:
            assert isinstance(into, FunctionType)
            # A copy of the function has a code object, and with it a Dynamo cache and recompile limit, of its own.
            fresh = FunctionType(into.__code__.replace(), into.__globals__, into.__name__)
            function = torch.compile(fresh, dynamic=False, fullgraph=True, mode=mode)
            # Compile on scratch memory of the same layout, so that binding writes no tensor of the caller.
            with torch.no_grad():
                function(*(_zeros_with_same_layout(a) if isinstance(a, torch.Tensor) else a for a in arguments))
        _compiled[key] = function
        if len(_compiled) > KEPT:
            _compiled.pop(next(iter(_compiled)))

    def launch() -> Any:
        with torch.no_grad():
            return function(*arguments)

    return launch


KEPT = 256
"""The number of most recent problems whose compiled function is cached. Torch itself never frees parts of each."""

_compiled: dict[tuple[object, ...], Into] = {}


def _key(x: torch.Tensor) -> tuple[object, ...]:
    """Return the properties of a tensor that the compiled function may depend on."""
    return x.dtype, x.shape, x.stride(), x.device, x.data_ptr() % 16


def _zeros_with_same_layout(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.untyped_storage().nbytes() // x.element_size(), dtype=x.dtype, device=x.device).as_strided(
        x.shape, x.stride(), x.storage_offset()
    )


@functools.cache
def _check_inductor_cache_folder() -> None:
    """Check that no other user can write to Inductor's cache folder. They can guess its name in /tmp, and create it."""
    code_cache.check_cache_folder("TORCHINDUCTOR_CACHE_DIR", Path(inductor_folder()))


@functools.cache
def _check_toolchain(implementation: str, device: str) -> None:
    if device == "cuda":
        if importlib.util.find_spec("triton") is None:
            raise BackendUnavailableError(implementation, "torch.compile needs Triton on a GPU", "pip install triton")
    elif shutil.which("g++") is None and shutil.which("clang++") is None:
        raise BackendUnavailableError(
            implementation, "torch.compile needs a C++ compiler on the CPU", "install g++ (Debian: apt-get install g++)"
        )
