"""The host's kernels as Numba compiles them for this processor: their source, and the assembly that LLVM makes."""

from __future__ import annotations

import os
import tempfile

if __name__ == "__main__":
    # Code out of a cache has no assembly to show. Numba reads this at import.
    _EMPTY = tempfile.TemporaryDirectory()
    os.environ["NUMBA_CACHE_DIR"] = _EMPTY.name

import inspect
import platform
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numba
from llvmlite import binding
from numba.core.dispatcher import Dispatcher

from kernelzoo.inspect import Kernel, Request, answer, launched, place
from kernelzoo.kernels.cpu import min as minima
from kernelzoo.kernels.cpu import softmax
from kernelzoo.registry import Launch


def kernels(request: Request) -> tuple[Kernel, ...]:
    """The kernels of a launch, for this host, whatever architecture is asked for; bound and compiled, not run."""
    steps: list[Kernel | tuple[Any, tuple[Any, ...]]] = []

    def recording(*given: tuple[Any, tuple[Any, ...]]) -> Launch:
        return lambda: steps.extend(given)

    with ExitStack() as stack:
        for module in (minima, softmax):
            stack.enter_context(mock.patch.object(module, "launcher", recording))
        ran = launched(request, steps, device="cpu")
    return tuple(step if isinstance(step, Kernel) else _kernel(step, ran) for step in steps)


def _kernel(step: tuple[Any, tuple[Any, ...]], ran: str) -> Kernel:
    kernel, arguments = step
    signature = tuple(map(numba.typeof, arguments))
    kernel.compile(signature)
    functions = _with_called(kernel)
    named = zip(inspect.signature(kernel.py_func).parameters, arguments, strict=True)
    return Kernel(
        name=kernel.py_func.__name__,
        language="Numba",
        implementation=ran,
        arch=platform.machine(),
        device=f"{binding.get_host_cpu_name()}, {numba.get_num_threads()} threads",
        source="\n\n".join(inspect.getsource(function.py_func) for function in functions),
        source_file=place(inspect.getfile(kernel.py_func), inspect.getsourcelines(kernel.py_func)[1]),
        sass=kernel.inspect_asm(kernel.signatures[-1]),
        constants={name: value for name, value in named if isinstance(value, int)},
    )


def _with_called(kernel: Any) -> list[Any]:
    """A kernel and the compiled functions of its module that it calls, and those that they call."""
    found = [kernel]
    for function in found:  # grows as it goes
        names = function.py_func.__code__.co_names
        called = (function.py_func.__globals__.get(name) for name in names)
        found += [other for other in dict.fromkeys(called) if isinstance(other, Dispatcher) and other not in found]
    return found


if __name__ == "__main__":
    answer(kernels)
