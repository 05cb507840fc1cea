"""Compiles, caches and launches the host's kernels, in parallel tasks, and orders the axes of their tensors."""

import ctypes
import hashlib
import inspect
import os
import pickle
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias

import numba
import numpy as np
import torch
from llvmlite import binding
from numba.core import caching, serialize
from numba.core.dispatcher import Dispatcher

from kernelzoo.device import is_batch_invariant
from kernelzoo.kernels.shared import code_cache
from kernelzoo.kernels.shared.host_memory import flat_array
from kernelzoo.launch import Compiled, Launch, LaunchStep, RebindableLaunch, recording

TASK_ELEMENTS = 65536
"""The fewest elements per parallel task. One core reads them in the time that other threads need to wake up."""

MIN_LANES = 8
"""The fewest neighbouring rows to vectorise across. Fewer would leave most of a vector register idle."""

SHORT = 32
"""The shortest reduced axis that is worth vectorising along."""

FIRST = np.int64(0)
"""The index of a kernel's first unit of work. For a literal 0, Numba would compile the function again."""

Kernel: TypeAlias = "tuple[Callable[..., None], tuple[Any, ...]]"
"""A compiled kernel and its arguments."""

# Asking Numba for its number of threads starts them. It also changes OpenMP's number, which torch uses: restore it.
_of_torch = torch.get_num_threads()
if numba.get_num_threads() and torch.get_num_threads() != _of_torch:
    torch.set_num_threads(_of_torch)

# Without TBB and OpenMP, Numba falls back to its workqueue threading layer, which ends the process if two Python
# threads are in parallel kernels at once. So launches take this lock. Waiting costs little: a launch uses all cores.
_launching = threading.Lock()

_single_threaded = False
"""Whether this process must not start parallel loops: see _reset_after_fork."""


def _reset_after_fork() -> None:
    """Make a new lock in a forked child, because a thread of the parent may hold the old one. Forbid parallel loops if
    Numba uses GNU OpenMP. That ends a child that runs such a loop if its parent ran one."""
    global _launching, _single_threaded
    _launching = threading.Lock()
    with suppress(ValueError):  # the parent started no threads, so the child may start them
        _single_threaded = _single_threaded or numba.threading_layer() == "omp"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def move_lanes_last(x: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Order the two row axes of canonical tensors: the last one, the *lane* axis, is then the one to vectorise across.

    That is the axis with the smaller stride in x. If it has too few rows, the other axis is taken if it has more.
    """
    closer, other = (0, 2) if x.size(2) == 1 or (x.size(0) > 1 and x.stride(0) < x.stride(2)) else (2, 0)
    lane = closer if x.size(closer) >= min(MIN_LANES, x.size(other)) else other
    tensors = x, *others
    return tensors if is_batch_invariant() or lane == 2 else tuple(tensor.transpose(0, -1) for tensor in tensors)


def vectorises_across(x: torch.Tensor) -> bool:
    """Whether to vectorise across neighbouring rows (*side by side*), not along one. ``x``: see ``move_lanes_last``."""
    return x.size(2) >= MIN_LANES and (x.size(1) < SHORT or x.stride(2) < x.stride(1))


def count_tasks(units: int, elements: int) -> int:
    """Return the number of parallel tasks for independent units of work. A single task runs in the calling thread."""
    if _single_threaded:
        return 1
    threads: int = numba.get_num_threads()
    return max(1, min(threads, units, elements // TASK_ELEMENTS))


ELEMENTS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.uint16,
    torch.float8_e4m3fn: torch.uint8,
    torch.bool: torch.uint8,
}
"""The integer dtype as which a kernel receives elements. It widens narrow floats to float32 from their bits."""


def bind_launch(kernel: Callable[..., None], tensors: tuple[torch.Tensor, ...], units: int, *constants: Any) -> Launch:
    """Bind a kernel to tensors' memory, n, lanes (last axis's size), strides, ``constants``, ``units``, task count."""
    x = tensors[0]
    strides = (stride for tensor in tensors for stride in tensor.stride())
    shape = (x.size(1), x.size(2), *strides, *constants, units, count_tasks(units, x.numel()))
    arrays = [flat_array(tensor, ELEMENTS.get(tensor.dtype, tensor.dtype)) for tensor in tensors]
    return make_launch(tensors, kernel, (*arrays, *shape))


def make_launch(tensors: Sequence[torch.Tensor], kernel: Any, arguments: tuple[Any, ...]) -> Launch:
    """Return a launch that runs a compiled kernel. In a recording, the launch adds a step instead of running.

    The first arguments are the memory of the canonical ``tensors``, as flat arrays. So a kernel is compiled once per
    dtype, for all strides, and tests itself whether rows are contiguous. The launch keeps no reference to the arrays,
    because a cached launch must not keep its bind's tensors alive.
    """
    rec = recording.get()
    if rec is not None:
        return rec.make_launch(_record_step(kernel, arguments, compiles=rec.can_compile))
    memory = [(ctypes.c_byte * array.nbytes, array.dtype) for array in arguments[: len(tensors)]]
    run, arguments = _choose_task_or_loop(kernel, arguments)
    rest = arguments[len(tensors) :]

    def launch_at(*addresses: int) -> None:
        with _launching:
            given = [np.frombuffer(kind.from_address(addresses[i]), dtype) for i, (kind, dtype) in enumerate(memory)]
            run(*given, *rest)

    return RebindableLaunch(launch_at, *tensors)


def _choose_task_or_loop(kernel: Any, arguments: tuple[Any, ...]) -> Kernel:
    """Return the function to run and its arguments. A single task is called directly, as machine code for these
    argument types, because a parallel loop takes longer to compile."""
    task, tasks = kernel.py_func.__globals__.get("_task"), arguments[-1]
    if task is None or tasks != 1:
        return kernel, arguments
    arguments = (*arguments[:-2], FIRST, arguments[-2])
    return task.compile(tuple(map(numba.typeof, arguments))), arguments


def _record_step(kernel: Any, arguments: tuple[Any, ...], *, compiles: bool) -> LaunchStep:
    """Return the recorded step of a kernel: one block of one thread per task."""
    given = arguments if _source_function(kernel) is kernel.py_func else (arguments,)
    signature = tuple(map(numba.typeof, given))
    *names, _, _ = inspect.signature(_source_function(kernel)).parameters
    named = zip((*names, "units", "tasks"), arguments, strict=True)
    numbers = {name: value for name, value in named if isinstance(value, int)}
    return LaunchStep(
        kernel=f"{kernel.__name__}{signature}",
        grid=(numbers["tasks"],),
        threads=1,
        arguments=tuple(numbers.values()),
        build=(lambda: _describe_code(kernel, signature, numbers)) if compiles else None,
    )


def _source_function(kernel: Any) -> Callable[..., None]:
    """Return the Python function that contains the kernel's code, not the parallel loop around it."""
    function: Callable[..., None] = kernel.py_func.__globals__.get("_task", kernel).py_func
    return function


def _describe_code(kernel: Any, signature: tuple[Any, ...], numbers: dict[str, int]) -> Compiled:
    """Return a description of the kernel as compiled for this host, whatever device is simulated."""
    kernel.compile(signature)
    function = _source_function(kernel)
    return Compiled(
        name=function.__name__,
        language="Numba",
        source="\n\n".join(inspect.getsource(called.py_func) for called in _called_functions(kernel)),
        file=inspect.getfile(function),
        line=inspect.getsourcelines(function)[1],
        constants=numbers,
        symbol=kernel.overloads[signature].fndesc.mangled_name,
        assembly=kernel.inspect_asm(signature),
        host=(platform.machine(), f"{binding.get_host_cpu_name()}, {numba.get_num_threads()} threads"),
    )


def _called_functions(kernel: Any) -> list[Any]:
    """Return a kernel and all compiled functions of this backend that it calls, directly or not."""
    found = [kernel]
    for function in found:  # grows as it goes
        names = function.py_func.__code__.co_names
        called = (function.py_func.__globals__.get(name) for name in names)
        found += [other for other in dict.fromkeys(called) if isinstance(other, Dispatcher) and other not in found]
    return found


# --- Machine code kept on disk, so that a kernel is compiled once and not once per process ----------------------------
#
# Numba's own cache numbers its files in an index that processes rewrite without a lock. If two processes compile at
# once, two signatures can get one number, and a third process then loads the wrong code. Here a file's name and content
# both state its signature, the content has a digest, and writes are atomic. Damaged code is compiled again. If no
# folder can be written, or other users could write to it, every process compiles for itself.


def cached_njit(**options: Any) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator like ``numba.njit``, which caches machine code in Numba's folder for the source file."""

    def decorate(function: Callable[..., None]) -> Any:
        dispatcher = numba.njit(**options)(function)
        with suppress(RuntimeError):  # there is no folder for it
            dispatcher._cache = _CodeCache(function)
        return dispatcher

    return decorate


def parallel_kernel(**options: Any) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that makes a parallel kernel, with these compiler options. A function's last two arguments
    are its range of units of work. The kernel's are the number of units and that of tasks."""

    def decorate(function: Callable[..., None]) -> Any:
        task = cached_njit(**options)(function)
        kernel = FunctionType(_run_tasks_in_parallel.__code__, {**globals(), "_task": task}, function.__name__)
        kernel.__qualname__ = f"{function.__module__}.{function.__qualname__}"  # its cache files have this name
        return cached_njit(parallel=True)(kernel)

    return decorate


_task: Any = None
"""What ``_run_tasks_in_parallel`` calls. Each kernel is a copy of that function with its own global ``_task``."""


def _run_tasks_in_parallel(*arguments):
    given, units, tasks = arguments[:-2], arguments[-2], arguments[-1]
    for i in numba.prange(tasks):
        _task(*given, i * units // tasks, (i + 1) * units // tasks)


_keeps: ContextVar[bool] = ContextVar("keeps", default=True)


@contextmanager
def compiling_without_cache() -> Iterator[None]:
    """Return a context in which this thread compiles kernels again, and caches nothing."""
    token = _keeps.set(False)
    try:
        yield
    finally:
        _keeps.reset(token)


_text_of = cache(code_cache.digest_sources)


class _CodeCache(caching.FunctionCache):
    """Numba's cache of a function's signatures, with a separate file for each signature."""

    def __init__(self, function: Callable[..., None]) -> None:
        super().__init__(function)
        own, file = Path(__file__).parent, Path(inspect.getfile(function))
        folder, stamp = Path(self.cache_path, "kernelzoo"), self._impl.locator.get_source_stamp()
        if file.is_relative_to(own):  # identified by its content, not by when and where it was installed
            stamp = None
            if numba.config.CACHE_DIR:
                folder = Path(numba.config.CACHE_DIR, "kernelzoo", file.parent.relative_to(own))
        self._cache_file = _CodeFiles(folder, self._impl.filename_base, (stamp, _text_of(own)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return super().load_overload(sig, target_context) if _keeps.get() else None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _keeps.get():
            return
        with suppress(OSError):  # of Numba's own folder, which contains ours: read-only, full, or another user's
            super().save_overload(sig, data)


class _CodeFiles:
    """Cache files by key, for one version of the source. The interface is that of Numba's ``IndexDataCacheFile``."""

    def __init__(self, folder: Path, base: str, stamp: Any) -> None:
        self.folder, self.base = folder, base
        self.made_from = repr((numba.__version__, stamp)).encode()

    def save(self, key: Any, data: Any) -> None:
        """Store a signature's code, if possible."""
        code_cache.write_code(self.folder, self._name(key), self._content(key, serialize.dumps(data)))

    def load(self, key: Any) -> Any:
        """Return a signature's code, or None if it is missing, damaged, or of another source or Numba version."""
        content = code_cache.read_code(self.folder, self._name(key)) or b""
        expected = self._content(key, b"")
        # Numba stores machine code as a pickle. Loading it may run code, but only this user's processes wrote it.
        return pickle.loads(content[len(expected) :]) if content.startswith(expected) else None

    def flush(self) -> None:
        """Forget all signatures."""
        for path in self.folder.glob(f"{self.base}.*.nbc"):
            path.unlink(missing_ok=True)

    def _content(self, key: Any, code: bytes) -> bytes:
        return self.made_from + repr(key).encode() + b"\0" + code

    def _name(self, key: Any) -> str:
        return f"{self.base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
