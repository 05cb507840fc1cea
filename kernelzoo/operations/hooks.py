"""The functions of an operation's class: their parameters, and where an error of theirs lies."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelzoo.lazy import torch

Hook = Callable[..., Any]
"""A class's function of inputs, scalars, ``n``, ``unit``, ``tiny``, ``ref`` and ``generator``, or some of them."""


def parameters(function: Hook) -> tuple[str, ...]:
    """Names of a function's parameters, or of those that it lists itself."""
    if said := getattr(function, "names", ()):
        return tuple(said)
    return function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]


def device_fails() -> bool:
    """Whether a kernel broke the current device, which fails every later call."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
    return False


def place_of(function: Hook, error: Exception | None = None) -> str:
    """File and line where a function failed, outside of torch. Without an error, where it begins."""
    inner = str(Path(torch.__file__).parent)
    steps = traceback.extract_tb(error.__traceback__)[1:] if error is not None else []  # the first is guarded
    own = [f"{step.filename}:{step.lineno}" for step in steps if not step.filename.startswith(inner)]
    code = getattr(function, "__code__", None)
    return own[-1] if own else f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
