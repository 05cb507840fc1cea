"""``cupy.RawKernel`` as far as an example needs it, run by the emulator: a user's own CUDA C++, on the host."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import emulator
import host_compiler

# What the headers of CUDA have, and the emulator's own has not: half precisions as types, and functions of numbers.
_HEADERS = r"""
struct __half {
  unsigned short bits;
  __half(float v) : bits(ptx::float_to_half(v)) {}
  operator float() const { return ptx::half_to_float(bits); }
};
struct __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16(float v) : bits(ptx::float_to_bfloat(v)) {}
  operator float() const { return ptx::bfloat_to_float(bits); }
};
"""

_seeds = itertools.count()


@functools.cache
def _entry(code: str, name: str, options: tuple[str, ...]) -> Any:
    defined = "".join("#define {} {}\n".format(*option[2:].split("=")) for option in options)
    source = (
        f"#include <math.h>\n#define __CUDA_ARCH__ 900\n{emulator._visible('')}{_HEADERS}{defined}"
        f"{emulator.translated(code)}\n"
        'extern "C" __attribute__((visibility("default"))) void entry(void** parameters) {'
        f" emulator::call(&{name}, parameters); }}\n"
    )
    emulator.runtime()
    return ctypes.CDLL(str(host_compiler.compiled(source, *emulator._KERNEL_FLAGS))).entry


class RawKernel:
    """A kernel of that name; its options are definitions alone."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        self._entry, self._name = _entry(code, name, options), name
        self._flush = "double" not in "".join(options)

    def __call__(self, grid: tuple[int], block: tuple[int], args: Sequence[int | float]) -> None:
        values = [ctypes.c_double(v) if isinstance(v, float) else ctypes.c_int64(v) for v in args]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        launch = emulator._Launch(
            ctypes.cast(self._entry, ctypes.c_void_p),
            ctypes.addressof(pointers),
            (ctypes.c_uint32 * 2)(*grid, 1),
            *block,
            1,  # cluster
            0,  # cooperative
            0,  # bytes of shared memory
            80,  # nothing waits for launches before it
            self._flush,
            next(_seeds),
        )
        message = ctypes.create_string_buffer(2048)
        with emulator._lock:
            failed = emulator.runtime().emulator_launch(ctypes.byref(launch), message, len(message))
        if failed:
            raise emulator.EmulatorError(f"{self._name}: {message.value.decode()}")


cupy = SimpleNamespace(
    RawKernel=RawKernel,
    cuda=SimpleNamespace(Stream=SimpleNamespace(null=contextlib.nullcontext())),
)
"""In the place of the module."""
