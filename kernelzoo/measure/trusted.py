"""Detects replaced code that results depend on: the clock, the checks, the record, and what they call.

A module can replace any of these in its process. So they are stored before modules are loaded, compared afterwards, and
put back. See docs/records/threat-model.md.
"""

from __future__ import annotations

import builtins
import gc
import json
import math
import os
import random
import secrets
import statistics
import sys
import threading
import time
import types
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from kernelzoo import operations

_PYTHON = (builtins, gc, json, json.decoder, json.encoder, math, os, random, secrets, statistics, sys, threading, time)
_CHANGES = {
    "sys": {"excepthook", "displayhook", "breakpointhook", "unraisablehook", "last_type", "last_value", "last_exc"},
    "torch": {"Storage"},  # it follows the default dtype
}
"""Attributes that programs may replace, or that change by use."""

_CONSTANT = (int, float, str, tuple, frozenset)


class Trusted:
    """A snapshot of kernelzoo's functions, classes and constants, and of those of torch and Python that it calls.

    Make it before loading a module, after importing torch.
    """

    def __init__(self) -> None:
        self._owners = dict(_owners())
        self._names = {place: set(_held(owner)) for place, owner in self._owners.items()}
        self._known = [
            (_held(owner), place, name, value, _function(value), *_inside(value))
            for place, owner in self._owners.items()
            for name, value in _held(owner).items()
            if _watched(place, name, value)
        ]

    def replaced(self) -> list[str]:
        """The names of everything replaced since, which is put back.

        >>> import time, torch
        >>> trusted, honest = Trusted(), time.perf_counter
        >>> time.perf_counter = lambda: 0.0
        >>> trusted.replaced(), time.perf_counter is honest
        (['time.perf_counter'], True)
        """
        found = []
        for held, place, name, value, function, code, defaults, keywords in self._known:  # thousands in each turn
            if held.get(name) is not value:
                if _by_torch(held.get(name)):  # torch's compiler replaces some of torch's functions
                    continue
                found.append(f"{place}.{name}")
                _put(self._owners[place], name, value)
            if code is None:
                continue
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keywords
            ):
                found.append(f"the code of {place}.{name}")
                function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, keywords
        for place, owner in self._owners.items():
            for name in _held(owner).keys() - self._names[place]:
                if _hides(owner, name) and not _by_torch(_held(owner)[name]):
                    found.append(f"{place}.{name}")
                    _put(owner, name, None, away=True)
        return found


def told(names: list[str]) -> str:
    """The first names as text, and how many more there are."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


_before: list[Trusted] = []


def take() -> None:
    """Take the snapshot for :func:`taken`, before the measuring process loads a module."""
    _before[:] = [Trusted()]


def taken() -> Trusted:
    """The snapshot from before modules were loaded, or a new one."""
    return _before[0] if _before else Trusted()


def _held(owner: object) -> Mapping[str, object]:
    return owner if isinstance(owner, dict) else vars(owner)


def _owners() -> Iterator[tuple[str, Any]]:
    """The owners of functions by name: modules, classes and declared operations."""
    import torch

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == __name__.partition(".")[0]:
            yield name, module
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{value.__qualname__}", value
    for operation in list(operations.declared.values()):
        yield f"the operation {operation.name}", operation
        yield f"{operation.name}'s rules", operation.hooks
    for module in (*_PYTHON, torch, torch.cuda):
        yield module.__name__, module
    for of_torch in (torch.Tensor, torch.Generator, torch.cuda.CUDAGraph, torch.cuda.Event):
        yield f"torch.{of_torch.__name__}", of_torch


def _watched(place: str, name: str, value: object) -> bool:
    if callable(value) or isinstance(value, property | staticmethod | classmethod):
        return name not in _CHANGES.get(place, ())
    return name.isupper() and isinstance(value, _CONSTANT)


def _function(value: Any) -> Any:
    """The Python function inside a method or property, or the value itself."""
    return value.fget if isinstance(value, property) else getattr(value, "__func__", value)


def _inside(value: object) -> tuple[Any, Any, Any]:
    """The replaceable parts of a Python function: code, defaults and keyword defaults."""
    function = _function(value)
    if not isinstance(function, types.FunctionType):
        return None, None, None
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _hides(owner: object, name: str) -> bool:
    """Whether a new name hides a built-in or inherited one."""
    if isinstance(owner, types.ModuleType):
        if isinstance(vars(owner)[name], types.ModuleType):  # an imported submodule
            return False
        return owner.__name__.startswith(f"{__name__.partition('.')[0]}.") and hasattr(builtins, name)
    if isinstance(owner, dict):
        return False
    bases = owner.__mro__[1:] if isinstance(owner, type) else type(owner).__mro__
    return any(name in vars(base) and not isinstance(vars(base)[name], cached_property) for base in bases)


def _by_torch(value: object) -> bool:
    import torch

    function = _function(value)
    return isinstance(function, types.FunctionType) and function.__code__.co_filename.startswith(torch.__path__[0])


def _put(owner: object, name: str, value: object, *, away: bool = False) -> None:
    held = _held(owner)
    if isinstance(held, dict):
        held.pop(name, None) if away else held.update({name: value})
    elif away:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
