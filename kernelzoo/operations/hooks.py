"""The functions of an operation's class: how they are called, and whose fault an error of theirs is."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelzoo.errors import KernelZooError, OperationError

Hook = Callable[..., Any]
"""A function of the operation's class. Its parameters are any of the inputs, the scalars, ``n``, ``unit``, ``tiny``,
``ref`` and ``generator``."""


def parameters(function: Hook) -> tuple[str, ...]:
    """Names of a function's parameters, or of those that it lists itself."""
    if said := getattr(function, "names", ()):
        return tuple(said)
    return function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]


def guarded(whose: str, hook: str, function: Hook, *args: Any, **named: Any) -> Any:
    """Call a function that an operation declares. Raises OperationError, with file and line, if it fails.

    Lack of memory is no failure of its own, nor is an error of kernelzoo, nor one that a kernel left on the device.
    """
    try:
        return function(*args, **named)
    except (KernelZooError, MemoryError):
        raise
    except Exception as error:
        short = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
        if short or _device_fails():  # torch is not imported for this alone
            raise
        raise fault(whose, hook, f"raised {type(error).__name__}: {error}", place_of(function, error)) from error


def _device_fails() -> bool:
    """Whether a kernel broke the current device, which fails every later call."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
    return False


def fault(whose: str, hook: str, words: str, place: str) -> OperationError:
    return OperationError(f"{whose} is at fault, no kernel: its {hook} {words} ({place})")


def place_of(function: Hook, error: Exception | None = None) -> str:
    """File and line where a function failed, outside of torch. Without an error, where it begins."""
    import torch

    inner = str(Path(torch.__file__).parent)
    steps = traceback.extract_tb(error.__traceback__)[1:] if error is not None else []  # the first is guarded
    own = [f"{step.filename}:{step.lineno}" for step in steps if not step.filename.startswith(inner)]
    code = getattr(function, "__code__", None)
    return own[-1] if own else f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
