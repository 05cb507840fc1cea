"""Programs of languages whose compilers need no device: kept on disk by what makes them, loaded once a device.

A program is any frozen dataclass that says what is compiled.
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
from kernelzoo.kernels.shared.driver import Parameters, Shape
from kernelzoo.launch import Launch, RebindableLaunch, WorkspaceLaunch


def on_disk(language: str, what: object, make: Callable[[], bytes]) -> bytes:
    """What ``make`` returns, from the language's cache on disk if it is there. what: all that tells it from others."""
    name = f"{hashlib.sha256(repr(what).encode()).hexdigest()}.bin"
    with suppress(RuntimeError):  # a user without a home
        if (kept := code_cache.read(user_cache.folder(language), name)) is not None:
            return kept
    made = make()
    with suppress(RuntimeError):
        code_cache.write(user_cache.folder(language), name, made)
    return made


def loaded(program: Any, device: Device, code: Callable[[Any, int], tuple[bytes, str]]) -> int:
    """The driver's handle of a program on a device, made on first use and kept. Safe from several threads.

    code: machine code for a compute capability, and its entry.
    """
    found = _functions.get((program, device.index))
    if found is None:
        with _loading:
            found = _functions.get((program, device.index))
            if found is None:
                binary, symbol = code(program, device.capability)
                found = _functions[program, device.index] = driver.load(binary, symbol, device.index)
    return found


def launch_of(
    function: int,
    shape: Shape,
    parameters: Parameters,
    tensors: Sequence[torch.Tensor],
    workspace: Sequence[torch.Tensor],
    device: Device,
) -> Launch:
    """The launch of a loaded program, whose parameters begin with the addresses of the canonical tensors."""
    at = driver.movable(function, shape, parameters, device)
    return WorkspaceLaunch(at, *tensors, workspace=workspace) if workspace else RebindableLaunch(at, *tensors)


_loading = threading.Lock()
_functions: dict[tuple[Any, int], int] = {}
