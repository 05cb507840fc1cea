"""PTX run on the host: ``ptx.load(text)["name"].launch(grid, block, arguments, memory=tensors)``.

Each kernel becomes a C++ function that machine.cpp runs for each thread, in another order at each launch. It finds
addresses out of bounds, meetings that lanes miss and endless waits; no missing fence, approximation's error or time.
"""

import ctypes
import functools
import itertools
import pickle
import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import host_compiler

from .text import PtxError
from .translating import Kernel as _Kernel
from .translating import named, translated

__all__ = ["Kernel", "PtxError", "extent", "load"]

HERE = Path(__file__).parent
_FLAGS = ("-fno-strict-aliasing", "-ffp-contract=off", "-fno-math-errno")
_SYSTEM_BYTES = 1024
"""Of shared memory before a block's own."""

_lock = threading.Lock()
_seeds = itertools.count()


class _Launch(ctypes.Structure):
    """``Launch`` of machine.hpp."""

    _fields_ = (
        ("step", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p),
        *((name, ctypes.c_uint32 * 3) for name in ("grid", "block", "cluster")),
        *((name, ctypes.c_uint32)
          for name in ("resident", "thread_bytes", "local_bytes", "static_bytes", "dynamic_at", "shared_end")),
        ("seed", ctypes.c_uint64),
        ("spans", ctypes.c_void_p),
        ("span_count", ctypes.c_uint32),
        ("checks_spans", ctypes.c_uint32),
        ("dependent", ctypes.c_uint32),
    )  # fmt: skip


class _Span(ctypes.Structure):
    """``Span`` of machine.hpp."""

    _fields_ = (("start", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("written", ctypes.c_uint32))


def load(text: str) -> "dict[str, Kernel]":
    """The kernels of a module by name. Raises PtxError, which quotes what it doesn't know."""
    code, kernels = pickle.loads(host_compiler.kept(lambda: pickle.dumps(translated(text)), _translator(), text))
    library = _library(code)
    return {name: Kernel(name, kernel, library) for name, kernel in kernels.items()}


@functools.cache
def _translator() -> str:
    """All that makes C++ of PTX."""
    return "".join(file.read_text(encoding="utf-8") for file in sorted(HERE.glob("*.py")))


@functools.cache
def _machine() -> Any:
    """machine.cpp, whose functions the kernels' libraries find."""
    return ctypes.CDLL(str(host_compiler.compiled(_source("machine.cpp"), "-O2", *_FLAGS)), mode=ctypes.RTLD_GLOBAL)


def _library(code: str) -> Any:
    """The library of a module's kernels."""
    _machine()
    library = host_compiler.compiled(code, "-Og", *_FLAGS, "-fvisibility=hidden", header=_source("machine.hpp"))
    return ctypes.CDLL(str(library))


def _source(name: str) -> str:
    """A file of this folder with those that it includes, so that a library is known by all of them."""
    text = (HERE / name).read_text(encoding="utf-8").replace("#pragma once\n", "")
    return re.sub(r'#include "(.*)"\n', lambda found: _source(found[1]), text)


class Kernel:
    """A kernel that can be launched."""

    def __init__(self, name: str, kernel: _Kernel, library: Any) -> None:
        self.name, self._kernel, self._library = name, kernel, library
        self._step = ctypes.cast(library[kernel.name], ctypes.c_void_p)
        self._bytes = ctypes.c_uint32.in_dll(library, f"{kernel.name}_bytes").value
        count = ctypes.c_uint32.in_dll(library, "module_span_count").value
        self._own = list((_Span * count).in_dll(library, "module_spans")) if count else []

    @property
    def parameter_sizes(self) -> tuple[int, ...]:
        """Bytes of each parameter."""
        return tuple(size for _, size in self._kernel.parameters)

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any],
        *,
        shared_bytes: int = 0,
        cluster: int | Sequence[int] = 1,
        cooperative: bool = False,
        dependent: bool = False,
        memory: Iterable[Any] | None = None,
        seed: int | None = None,
    ) -> None:
        """Run all blocks, and return. Raises PtxError.

        grid: in blocks. arguments: each parameter's bytes, ctypes object or integer, or the driver's ``kernelParams``.
        memory: what may be touched, as tensors or ``(address, bytes[, False: only read])``; None: anything, unchecked.
        cooperative: all blocks are there at once. dependent: it must wait (griddepcontrol.wait) before it touches
        memory. seed: of the order of threads; None: another at each launch.
        """
        axes, kernel = [_three(sizes) for sizes in (grid, block, cluster)], self._kernel
        if kernel.cluster and cluster == 1:
            axes[2] = _three(kernel.cluster)
        if kernel.block and axes[1] != _three(kernel.block):
            raise PtxError(f"{self.name}: blocks are of {kernel.block} threads, and not of {axes[1]}")
        parameters = ctypes.create_string_buffer(self._parameters(arguments), max(1, kernel.parameter_bytes))
        spans = [*self._own, _Span(ctypes.addressof(parameters), kernel.parameter_bytes, 0)]
        spans += map(_span, memory or ())
        held = (_Span * len(spans))(*spans)
        align = kernel.dynamic_align
        dynamic_at = -(-(_SYSTEM_BYTES + kernel.static_bytes) // align) * align
        number = next(_seeds) if seed is None else seed
        launch = _Launch(
            self._step,
            ctypes.addressof(parameters),
            *((ctypes.c_uint32 * 3)(*sizes) for sizes in axes),
            axes[0][0] * axes[0][1] * axes[0][2] if cooperative else 0,
            -(-self._bytes // 64) * 64,
            kernel.local_bytes,
            kernel.static_bytes,
            dynamic_at,
            dynamic_at + shared_bytes,
            number,
            ctypes.addressof(held),
            len(spans),
            memory is not None,
            dependent,
        )
        message = ctypes.create_string_buffer(4096)
        with _lock:
            failed = _machine().ptx_launch(ctypes.byref(launch), message, len(message))
        if failed:
            raise PtxError(f"{self.name}, seed {number}: {named(message.value.decode(), kernel)}")

    def _parameters(self, arguments: Sequence[Any]) -> bytes:
        places = self._kernel.parameters
        if isinstance(arguments, ctypes.Array):
            arguments = [ctypes.string_at(arguments[k], size) for k, (_, size) in enumerate(places)]
        if len(arguments) != len(places):
            raise PtxError(f"{self.name} takes {len(places)} parameters, got {len(arguments)}")
        made = bytearray(self._kernel.parameter_bytes)
        for k, (argument, (start, size)) in enumerate(zip(arguments, places, strict=True)):
            value = (
                (argument % (1 << 8 * size)).to_bytes(size, "little") if isinstance(argument, int) else bytes(argument)
            )
            if len(value) != size:
                raise PtxError(f"{self.name}: parameter {k} takes {size} bytes, got {len(value)}")
            made[start : start + size] = value
        return bytes(made)


def _three(sizes: int | Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*((sizes,) if isinstance(sizes, int) else sizes), 1, 1)[:3]
    return x, y, z


def _span(what: Any) -> _Span:
    address, size, written = (*what, True)[:3] if isinstance(what, tuple) else (what.data_ptr(), extent(what), True)
    return _Span(address, size, written)


def extent(x: Any) -> int:
    """Bytes of a tensor from its first element to the end of the last."""
    ends = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return int(ends * x.element_size() if x.numel() else 0)
