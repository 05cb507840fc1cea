"""The functions of an operation's class: their parameters, and the file and line of their errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelzoo.lazy import torch

Hook = Callable[..., Any]
"""A function of an operation's class. It takes some of: inputs, scalars, ``n``, ``unit``, ``tiny``, ``ref`` etc."""


def parameters(function: Hook) -> tuple[str, ...]:
    """Return the names of a function's parameters, or the names in its attribute ``names``."""
    if said := getattr(function, "names", ()):
        return tuple(said)
    return function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]


def device_fails() -> bool:
    """Whether a kernel broke the current device, so that every later call fails."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
    return False


def code_location(function: Hook, error: Exception | None = None) -> str:
    """Return the file and line where a function failed, outside of torch. Without an error, return where it begins."""
    inner = str(Path(torch.__file__).parent)
    steps = traceback.extract_tb(error.__traceback__)[1:] if error is not None else []  # the first is the caller
    own = [f"{step.filename}:{step.lineno}" for step in steps if not step.filename.startswith(inner)]
    code = getattr(function, "__code__", None)
    return own[-1] if own else f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
