"""``install()`` runs kernels of Triton, Gluon and Helion on the host by the PTX emulator of tests/emulation."""

import ctypes
import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ptx
import torch

from kernelzoo import device as devices
from kernelzoo.device import ARCHITECTURES
from kernelzoo.kernels.shared import described, jit
from kernelzoo.launch import Launch, RebindableLaunch, WorkspaceLaunch

DEVICE = replace(ARCHITECTURES["sm_90"], name="emulated", multiprocessors=6)
"""Few multiprocessors, so that small problems are many for them."""
LANGUAGES = ("triton", "gluon", *(("helion",) if importlib.util.find_spec("helion") else ()))
_TYPES = {"fp32": ctypes.c_float, "fp64": ctypes.c_double}

_kernels = functools.lru_cache(maxsize=None)(ptx.load)


class Program:
    """A compiled kernel, with what ``jit.bind_grid`` asks of one that is loaded."""

    run = None

    def __init__(self, compiled: Any) -> None:
        self.compiled, self.metadata, self.name = compiled, compiled.metadata, compiled.name
        self.n_regs = jit.resources(compiled, DEVICE).registers

    def launch(self, programs: int, values: list[Any], memory: list[tuple[int, int]]) -> None:
        metadata = self.metadata
        if metadata.global_scratch_size or metadata.profile_scratch_size or metadata.num_ctas != 1:
            raise NotImplementedError("scratch memory, or several blocks to a program")
        _kernels(self.compiled.asm["ptx"])[self.name].launch(
            programs,
            32 * metadata.num_warps,
            parameters(self.compiled, values),
            shared_bytes=metadata.shared,
            cooperative=bool(metadata.launch_cooperative_grid),
            memory=memory,
        )


def parameters(compiled: Any, values: list[Any]) -> list[Any]:
    """What a kernel takes of the values, without those that are compiled in; and no scratch memory."""
    found: list[Any] = []
    for value, kind in zip(values, compiled.src.signature.values(), strict=True):
        if kind in _TYPES:
            found.append(_TYPES[kind](value))
        elif kind != "constexpr":
            found.append(int(value))
    return [*found, 0, 0]


def _compiled(
    x: torch.Tensor, kernel: Any, args: tuple[Any, ...], options: dict[str, Any], *, loads: bool = False
) -> Program:
    return Program(_compile(x, kernel, args, options))


def launch_of_helion(program: Program, programs: int, tensors: Sequence[torch.Tensor], args: tuple[Any, ...]) -> Launch:
    """In the place of Helion's ``launch_of``: the canonical tensors may stand anywhere."""
    sizes = [ptx.extent(arg) if isinstance(arg, torch.Tensor) else 0 for arg in args]
    plain = [arg.data_ptr() if isinstance(arg, torch.Tensor) else arg for arg in args]
    which = [next((i for i, tensor in enumerate(tensors) if tensor is arg), None) for arg in args]

    def at(*addresses: int) -> None:
        values = [value if i is None else addresses[i] for value, i in zip(plain, which, strict=True)]
        program.launch(programs, values, [(v, size) for v, size in zip(values, sizes, strict=True) if size])

    workspace = [a for a, i in zip(args, which, strict=True) if i is None and isinstance(a, torch.Tensor)]
    return WorkspaceLaunch(at, *tensors, workspace=workspace) if workspace else RebindableLaunch(at, *tensors)


def launch_of(kernel: Any, program: Program, programs: int, args: tuple[Any, ...], tensors: int = 2) -> Launch:
    """In the place of ``jit.launch_of``."""
    return launch_of_helion(program, programs, args[:tensors], args)


_compile: Callable[..., Any] = jit.compile_program


def install() -> None:
    """Run the kernels here from now on, in this process. Harmless if done twice."""
    described.triton.runtime.driver.set_active(described.SimulatedDriver(DEVICE))
    devices.of = lambda x: DEVICE
    jit.compile_program, jit.launch_of = _compiled, launch_of
    if "helion" in LANGUAGES:
        importlib.import_module("kernelzoo.kernels.helion.launch").make_launch = launch_of_helion
    for name in LANGUAGES:
        package = importlib.import_module(f"kernelzoo.kernels.{name}")
        package.probe, package.emulator = (lambda: ("cpu",)), (lambda: "the emulator of tests/emulation")
        package.compiled_elements = 2**15
