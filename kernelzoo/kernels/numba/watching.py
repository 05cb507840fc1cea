"""Record a user's own Numba launches for a device that is described but not present."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numba import cuda
from numba.cuda import types
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.np.numpy_support import from_dtype
from numba.cuda.typing.typeof import Purpose, typeof

from kernelzoo.device import Device
from kernelzoo.errors import InspectionError
from kernelzoo.kernels.numba import source
from kernelzoo.kernels.shared.absent import IDLE, with_stubs
from kernelzoo.launch import Compiled, LaunchStep, recording
from kernelzoo.operations import dtype_name


def _numba_type(value: Any) -> Any:
    """Return the Numba type of an argument. A tensor has the type of an array with its layout."""
    if not isinstance(value, torch.Tensor):
        return typeof(value, Purpose.argument)
    return types.Array(from_dtype(np.dtype(dtype_name(value.dtype))), value.ndim, "C" if value.is_contiguous() else "A")


@contextmanager
def record_user_launches(device: Device) -> Iterator[None]:
    """Record each kernel launch within the context instead of running it. Streams do nothing."""

    def configure(self: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        grid, block = (tuple(n) if isinstance(n, tuple | list) else (n,) for n in (griddim, blockdim))

        def launch(*args: Any) -> None:
            if not device.is_nvidia:
                raise InspectionError(f"{self.py_func.__name__} is Numba CUDA, which is not for {device.arch}")
            kinds = tuple(map(_numba_type, args))
            if (rec := recording.get()) is not None:
                build, threads = partial(_compile_launch, self, kinds, device), math.prod(block)
                step = LaunchStep(
                    self.py_func.__qualname__, grid, threads, sharedmem, constants=kinds, block=block, build=build
                )
                rec.steps.append(step)

        return launch

    calls = {"as_cuda_array": lambda x, *sync: x, "external_stream": IDLE, "default_stream": IDLE, "stream": IDLE}
    with with_stubs(CUDADispatcher, configure=configure), with_stubs(cuda, **calls, synchronize=IDLE):
        yield


def _compile_launch(dispatcher: Any, kinds: tuple[Any, ...], device: Device) -> Compiled:
    capability = source.capability_pair(device)
    told = {"debug", "lineinfo", "fastmath", "opt", "launch_bounds"} & {*dispatcher.targetoptions}
    options = {name: dispatcher.targetoptions[name] for name in told}
    with source.compiling:
        ptx, _ = cuda.compile(
            dispatcher.py_func, types.void(*kinds), device=False, abi="numba", cc=capability, output="ptx", **options
        )
        return source.describe_binary(dispatcher.py_func, str(ptx), capability, {})
