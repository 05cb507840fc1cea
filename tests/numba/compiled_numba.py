"""Runs Numba's kernels on the host as Numba's compiler has made them: their PTX, in the emulator of tests/emulation."""

import functools
from dataclasses import dataclass, replace
from types import SimpleNamespace

import ptx
import torch

import kernelzoo.kernels.numba as backend
from kernelzoo import device as devices
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.numba import launch, source
from kernelzoo.kernels.shared import driver
from kernelzoo.kernels.shared.driver import LaunchShape
from kernelzoo.launch import Launch, RebindableLaunch, WorkspaceLaunch

DEVICE = replace(ARCHITECTURES["sm_90"], name="emulated", multiprocessors=6)
"""Few multiprocessors, so that small problems are many for them."""

_kernels = functools.lru_cache(maxsize=None)(ptx.load)


@dataclass(frozen=True)
class Emulated(launch.Kernel):
    """In the place of ``launch.LoadedKernel``."""

    device: Device
    kernel: ptx.Kernel

    def count_resident_blocks(self, threads: int) -> int:
        return 2 * self.device.multiprocessors

    def bind_shape(self, shape: LaunchShape, integer_args: tuple[int, ...]) -> launch.BindView:
        inputs = self.source.inputs

        def bind(*tensors: torch.Tensor) -> Launch:
            sizes, workspace = [ptx.extent(tensor) for tensor in tensors], tensors[inputs:-1]
            between = [tensor.data_ptr() for tensor in workspace]

            def at(*addresses: int) -> None:
                pointers = [*addresses[:-1], *between, addresses[-1]]
                self.kernel.launch(
                    (shape.grid, shape.grid_y),
                    shape.threads,
                    [*pointers, *integer_args],
                    shared_bytes=shape.shared_bytes,
                    cluster=shape.cluster,
                    cooperative=shape.cooperative,
                    memory=[(pointer, size) for pointer, size in zip(pointers, sizes, strict=True) if size],
                )

            canonical = (*tensors[:inputs], tensors[-1])
            return (
                WorkspaceLaunch(at, *canonical, workspace=workspace) if workspace else RebindableLaunch(at, *canonical)
            )

        return bind


def _compiled(made: source.Source, capability: tuple[int, int]) -> tuple[str, bytes]:
    text = source.to_ptx(made, capability)
    return source.entry_name(text), text.encode()


def install() -> None:
    """Run the kernels here from now on, in this process. Harmless if done twice."""
    devices.of = lambda x: DEVICE
    launch.LoadedKernel, launch.load_or_build = Emulated, _compiled
    load = {"load_function": lambda text, name, index: _kernels(text.decode())[name]}
    launch.driver = SimpleNamespace(**vars(driver) | load)
    backend.probe, backend.emulator = (lambda: ("cpu",)), (lambda: "the emulator of tests/emulation")
    backend.compiled_elements = 2**15
