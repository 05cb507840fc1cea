"""Record the CuPy launches in a user's code, for a device that is described but absent."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import cupy

from kernelzoo.device import Device
from kernelzoo.errors import InspectionError
from kernelzoo.kernels.cupy import compiler
from kernelzoo.kernels.shared.absent import IDLE, with_stubs
from kernelzoo.launch import Compiled, LaunchStep, recording


class RecordedModule:
    """A stand-in for ``cupy.RawModule`` on an absent device. It compiles a kernel only when asked for its code."""

    device: Device

    def __init__(
        self,
        *,
        code: str | None = None,
        options: Sequence[str] = (),
        name_expressions: Sequence[str] | None = None,
        enable_cooperative_groups: bool = False,
        **others: Any,  # such as ``path`` and ``backend``
    ) -> None:
        unsupported = {name: value for name, value in others.items() if value not in (None, "nvrtc", False)}
        if code is None or unsupported:
            given = ", ".join(f"{name}={value!r}" for name, value in unsupported.items())
            raise InspectionError(f"CUDA C++ is compiled here from code, by NVRTC alone; got {given}")
        self._code, self._options, self._expressions = code, tuple(options), tuple(name_expressions or ())
        self.cooperative = enable_cooperative_groups
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals is globals():
            frame = frame.f_back
        self._file, self._line = frame.f_code.co_filename, frame.f_lineno

    def compile(self, *args: Any, **named: Any) -> None:
        """Do nothing: a kernel is compiled only when its code is asked for."""

    def get_function(self, name: str) -> RecordedKernel:
        return RecordedKernel(self, name)

    def compile_kernel(self, name: str) -> Compiled:
        """Compile a kernel. It may include the headers that CuPy provides."""
        file = Path(self._file)
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        line = text.count("\n", 0, text.index(self._code)) + 1 if self._code in text else self._line
        defined = (option[2:].partition("=") for option in self._options if option.startswith("-D"))
        constants = {key: value or "1" for key, _, value in defined}
        capability = self.device.capability
        made = _program(self._code, self._expressions, capability, (*self._options, *_headers()))
        return compiler.describe_program(made, name, capability, self._code, file, line, constants)


class RecordedKernel:
    """A kernel of a ``RecordedModule``. A call records a launch."""

    max_dynamic_shared_size_bytes = preferred_shared_memory_carveout = 0

    def __init__(self, module: RecordedModule, name: str) -> None:
        self.module, self.name = module, name

    def compile(self, *args: Any, **named: Any) -> None:
        """Do nothing: a kernel is compiled only when its code is asked for."""

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Any, *, shared_mem: int = 0) -> None:
        module, name = self.module, self.name
        if not module.device.is_nvidia:
            raise InspectionError(f"{name} is CUDA C++, which is not for {module.device.arch}")
        if (rec := recording.get()) is not None:
            rec.steps.append(
                LaunchStep(
                    kernel=name,
                    grid=tuple(grid),
                    threads=math.prod(block),
                    shared_bytes=shared_mem,
                    cooperative=module.cooperative,
                    build=lambda: module.compile_kernel(name),
                    constants=(module._code, module._options),
                    block=tuple(block),
                )
            )


def _kernel(code: str, name: str, options: Sequence[str] = (), backend: str = "nvrtc", **others: Any) -> RecordedKernel:
    """Stand in for ``cupy.RawKernel``, as ``RecordedModule`` does for ``cupy.RawModule``."""
    return RecordedModule(code=code, options=options, backend=backend, **others).get_function(name)


_program = cache(compiler.compile_code)


def _headers() -> tuple[str, ...]:
    bundled = Path(cupy.__file__).parent / "_core" / "include"
    folders = [bundled, *bundled.glob("cupy/_cccl/*/"), Path(cupy.cuda.get_cuda_path() or "/usr/local/cuda", "include")]
    return tuple(f"-I{folder}" for folder in folders)


@contextmanager
def record_user_launches(device: Device) -> Iterator[None]:
    """Record launches of CuPy kernels within the context, instead of running them. Streams and events do nothing."""
    RecordedModule.device = device
    streams = with_stubs(cupy.cuda, Stream=IDLE, ExternalStream=IDLE, Event=IDLE, Device=IDLE)
    with with_stubs(cupy, RawKernel=_kernel, RawModule=RecordedModule), streams:
        yield
