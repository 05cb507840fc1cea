"""Compiled programs of languages whose compilers need no GPU: cached on disk, and loaded once per device.

A program is any frozen dataclass that identifies what to compile.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from kernelzoo import user_cache
from kernelzoo.device import Device
from kernelzoo.kernels.shared import code_cache, driver
from kernelzoo.kernels.shared.driver import LaunchShape, Parameters
from kernelzoo.launch import Launch, RebindableLaunch, WorkspaceLaunch


def load_or_build(language: str, identity: object, make: Callable[[], bytes]) -> bytes:
    """Return cached machine code, or make it and cache it. ``identity``: its repr identifies the code."""
    name = f"{hashlib.sha256(repr(identity).encode()).hexdigest()}.bin"
    with suppress(RuntimeError):  # a user without a home
        if (kept := code_cache.read_code(user_cache.folder(language), name)) is not None:
            return kept
    made = make()
    with suppress(RuntimeError):
        code_cache.write_code(user_cache.folder(language), name, made)
    return made


def load_program(program: Any, device: Device, code: Callable[[Any, int], tuple[bytes, str]]) -> int:
    """Return the driver's handle of a program on a device. The program is loaded at first use. Thread-safe.

    code: a function that returns machine code for a compute capability, and its entry's symbol.
    """
    found = _functions.get((program, device.index))
    if found is None:
        with _loading:
            found = _functions.get((program, device.index))
            if found is None:
                binary, symbol = code(program, device.capability)
                found = _functions[program, device.index] = driver.load_function(binary, symbol, device.index)
    return found


def make_launch(
    function: int,
    shape: LaunchShape,
    parameters: Parameters,
    tensors: Sequence[torch.Tensor],
    workspace: Sequence[torch.Tensor],
    device: Device,
) -> Launch:
    """Return the launch of a loaded program. Its first parameters must be the addresses of ``tensors``."""
    at = driver.make_launcher(function, shape, parameters, device)
    return WorkspaceLaunch(at, *tensors, workspace=workspace) if workspace else RebindableLaunch(at, *tensors)


_loading = threading.Lock()
_functions: dict[tuple[Any, int], int] = {}
