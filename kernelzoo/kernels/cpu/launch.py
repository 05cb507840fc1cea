"""How the host's kernels are compiled, laid out and launched: machine code, rows side by side, tasks, launches."""

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
from kernelzoo.kernels.shared.host_memory import flat as flat
from kernelzoo.launch import Compiled, Launch, RebindableLaunch, Step, recording

TASK_ELEMENTS = 65536
"""Least elements worth a task of its own: while the other threads are woken, one core reads these."""

MIN_LANES = 8
"""Fewer rows than this side by side leave most of a vector register idle."""

SHORT = 32
"""Reduced axes shorter than this are too short to vectorise along."""

FIRST = np.int64(0)
"""Of a kernel's units of work. Numba compiles what takes a literal 0 once more for other numbers."""

Kernel: TypeAlias = "tuple[Callable[..., None], tuple[Any, ...]]"
"""A compiled kernel and its arguments."""

# Numba starts its threads at the first question for their number, and sets OpenMP's, which is torch's too.
_of_torch = torch.get_num_threads()
if numba.get_num_threads() and torch.get_num_threads() != _of_torch:
    torch.set_num_threads(_of_torch)

# Numba's workqueue threading layer, which it falls back to where neither TBB nor OpenMP is installed, ends the process
# when two Python threads are inside parallel kernels at once. One launch uses all cores, so waiting costs little.
_launching = threading.Lock()

_alone = False
"""Whether this process may not start parallel loops: see _after_fork."""


def _after_fork() -> None:
    """In a forked child: the lock may be held by a thread that only the parent has, and GNU OpenMP, which Numba takes
    where TBB is not installed, can't be forked. Numba ends a child that enters a parallel loop if its parent had."""
    global _launching, _alone
    _launching = threading.Lock()
    with suppress(ValueError):  # the parent had started no threads: the child may start its own
        _alone = _alone or numba.threading_layer() == "omp"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def lanes_last(x: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Order the two row axes of the canonical form so that the last, the *lane* axis, is the one to go side by side.

    That is the one closer in x's memory, unless it has too few rows; the other then, if it is longer.
    """
    closer, other = (0, 2) if x.size(2) == 1 or (x.size(0) > 1 and x.stride(0) < x.stride(2)) else (2, 0)
    lane = closer if x.size(closer) >= min(MIN_LANES, x.size(other)) else other
    tensors = x, *others
    return tensors if is_batch_invariant() or lane == 2 else tuple(tensor.transpose(0, -1) for tensor in tensors)


def side_by_side(x: torch.Tensor) -> bool:
    """Whether neighbouring rows of ``lanes_last`` are best worked on together, a vector register across rows."""
    return x.size(2) >= MIN_LANES and (x.size(1) < SHORT or x.stride(2) < x.stride(1))


def tasks(units: int, elements: int) -> int:
    """Number of parallel tasks for so many independent units of work over so many elements; 1 runs on the caller."""
    if _alone:
        return 1
    threads: int = numba.get_num_threads()
    return max(1, min(threads, units, elements // TASK_ELEMENTS))


ELEMENTS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.uint16,
    torch.float8_e4m3fn: torch.uint8,
    torch.bool: torch.uint8,
}
"""Narrow floats come as integers of their width, one type each, and are widened to float32 by their bits."""


def bound(kernel: Callable[..., None], tensors: tuple[torch.Tensor, ...], units: int, *constants: Any) -> Launch:
    """A kernel that takes the tensors' memory, the rows' length, the lanes, and the strides of each tensor."""
    x = tensors[0]
    strides = (stride for tensor in tensors for stride in tensor.stride())
    shape = (x.size(1), x.size(2), *strides, *constants, units, tasks(units, x.numel()))
    arrays = [flat(tensor, ELEMENTS.get(tensor.dtype, tensor.dtype)) for tensor in tensors]
    return launcher(tensors, kernel, (*arrays, *shape))


def launcher(tensors: Sequence[torch.Tensor], kernel: Any, arguments: tuple[Any, ...]) -> Launch:
    """A launch that runs a compiled kernel with its arguments; under a recording, its step.

    The arguments begin with the memory of the canonical ``tensors``. It is flat, so that each kernel is compiled once
    per dtype, whatever the strides, and finds the rows that are contiguous to be so. The launch does not hold it: once
    cached, it must not keep the tensors of its bind.
    """
    rec = recording.get()
    if rec is not None:
        return rec.launch(_recorded(kernel, arguments, compiles=rec.compiles))
    memory = [(ctypes.c_byte * array.nbytes, array.dtype) for array in arguments[: len(tensors)]]
    run, arguments = _run(kernel, arguments)
    rest = arguments[len(tensors) :]

    def at(*addresses: int) -> None:
        with _launching:
            given = [np.frombuffer(kind.from_address(addresses[i]), dtype) for i, (kind, dtype) in enumerate(memory)]
            run(*given, *rest)

    return RebindableLaunch(at, *tensors)


def _run(kernel: Any, arguments: tuple[Any, ...]) -> Kernel:
    """What runs: of one task, the machine code of what does its work, without the loop around it, which takes longer to
    compile. It is called as it is, since its arguments are of the same types every time."""
    task, tasks = kernel.py_func.__globals__.get("_task"), arguments[-1]
    if task is None or tasks != 1:
        return kernel, arguments
    arguments = (*arguments[:-2], FIRST, arguments[-2])
    return task.compile(tuple(map(numba.typeof, arguments))), arguments


def _recorded(kernel: Any, arguments: tuple[Any, ...], *, compiles: bool) -> Step:
    """A kernel with its arguments as a step: as many blocks as tasks, of a thread each."""
    given = arguments if _written(kernel) is kernel.py_func else (arguments,)
    signature = tuple(map(numba.typeof, given))
    *names, _, _ = inspect.signature(_written(kernel)).parameters
    named = zip((*names, "units", "tasks"), arguments, strict=True)
    numbers = {name: value for name, value in named if isinstance(value, int)}
    return Step(
        kernel=f"{kernel.__name__}{signature}",
        grid=(numbers["tasks"],),
        threads=1,
        arguments=tuple(numbers.values()),
        build=(lambda: _compiled(kernel, signature, numbers)) if compiles else None,
    )


def _written(kernel: Any) -> Callable[..., None]:
    """The function that says what a kernel does."""
    function: Callable[..., None] = kernel.py_func.__globals__.get("_task", kernel).py_func
    return function


def _compiled(kernel: Any, signature: tuple[Any, ...], numbers: dict[str, int]) -> Compiled:
    """The kernel compiled for this host, whatever device is assumed."""
    kernel.compile(signature)
    function = _written(kernel)
    return Compiled(
        name=function.__name__,
        language="Numba",
        source="\n\n".join(inspect.getsource(called.py_func) for called in _with_called(kernel)),
        file=inspect.getfile(function),
        line=inspect.getsourcelines(function)[1],
        constants=numbers,
        symbol=kernel.overloads[signature].fndesc.mangled_name,
        assembly=kernel.inspect_asm(signature),
        host=(platform.machine(), f"{binding.get_host_cpu_name()}, {numba.get_num_threads()} threads"),
    )


def _with_called(kernel: Any) -> list[Any]:
    """A kernel and the compiled functions of this backend that it calls, and those that they call."""
    found = [kernel]
    for function in found:  # grows as it goes
        names = function.py_func.__code__.co_names
        called = (function.py_func.__globals__.get(name) for name in names)
        found += [other for other in dict.fromkeys(called) if isinstance(other, Dispatcher) and other not in found]
    return found


# --- Machine code kept on disk, so that a kernel is compiled once and not once per process ----------------------------
#
# Numba's own cache numbers its files by an index that processes rewrite without a lock: two that compile at once can
# give one number to two signatures, and a third then loads the code of the wrong one. Here a file's name says what it
# is for, its content says so again with a digest of the rest, and it appears whole or not at all; what is damaged is
# compiled anew. Where no folder can be written, or others could write to it, every process compiles for itself.


def compiled(**options: Any) -> Callable[[Callable[..., None]], Any]:
    """``numba.njit`` with these options, the machine code kept within Numba's folder for this source file."""

    def decorate(function: Callable[..., None]) -> Any:
        dispatcher = numba.njit(**options)(function)
        with suppress(RuntimeError):  # no folder for it
            dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


def shared_out(**options: Any) -> Callable[[Callable[..., None]], Any]:
    """A kernel of a function that does units of work, from its last but one argument to its last, compiled with these
    options. In their place the kernel takes how many units there are, and by how many tasks."""

    def decorate(function: Callable[..., None]) -> Any:
        task = compiled(**options)(function)
        kernel = FunctionType(_shared_out.__code__, {**globals(), "_task": task}, function.__name__)
        kernel.__qualname__ = f"{function.__module__}.{function.__qualname__}"  # by which it is kept
        return compiled(parallel=True)(kernel)

    return decorate


_task: Any = None
"""What a copy of ``_shared_out`` runs, which has its own."""


def _shared_out(*arguments):
    given, units, tasks = arguments[:-2], arguments[-2], arguments[-1]
    for i in numba.prange(tasks):
        _task(*given, i * units // tasks, (i + 1) * units // tasks)


_keeps: ContextVar[bool] = ContextVar("keeps", default=True)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Within the context, this thread compiles anew, and keeps nothing."""
    token = _keeps.set(False)
    try:
        yield
    finally:
        _keeps.reset(token)


_text_of = cache(code_cache.text_of)


class _Cache(caching.FunctionCache):
    """Numba's cache of a function's signatures, each in a file of its own that no other signature shares."""

    def __init__(self, function: Callable[..., None]) -> None:
        super().__init__(function)
        own, file = Path(__file__).parent, Path(inspect.getfile(function))
        folder, stamp = Path(self.cache_path, "kernelzoo"), self._impl.locator.get_source_stamp()
        if file.is_relative_to(own):  # known by what it says, and not by when and where it was installed
            stamp = None
            if numba.config.CACHE_DIR:
                folder = Path(numba.config.CACHE_DIR, "kernelzoo", file.parent.relative_to(own))
        self._cache_file = _Files(folder, self._impl.filename_base, (stamp, _text_of(own)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return super().load_overload(sig, target_context) if _keeps.get() else None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _keeps.get():
            return
        with suppress(OSError):  # of Numba's own folder, around ours: read-only, full, or another user's
            super().save_overload(sig, data)


class _Files:
    """What was compiled from one state of the source, by key; the interface of Numba's ``IndexDataCacheFile``."""

    def __init__(self, folder: Path, base: str, stamp: Any) -> None:
        self.folder, self.base = folder, base
        self.made_from = repr((numba.__version__, stamp)).encode()

    def save(self, key: Any, data: Any) -> None:
        """Keep a signature's code, if that can be."""
        code_cache.write(self.folder, self._name(key), self._content(key, serialize.dumps(data)))

    def load(self, key: Any) -> Any:
        """A signature's code, or None if it isn't there whole, from this source and by this Numba."""
        content = code_cache.read(self.folder, self._name(key)) or b""
        expected = self._content(key, b"")
        # Numba's own form of machine code is a pickle, which is a program: one that this user's own process wrote.
        return pickle.loads(content[len(expected) :]) if content.startswith(expected) else None

    def flush(self) -> None:
        """Forget all signatures."""
        for path in self.folder.glob(f"{self.base}.*.nbc"):
            path.unlink(missing_ok=True)

    def _content(self, key: Any, code: bytes) -> bytes:
        return self.made_from + repr(key).encode() + b"\0" + code

    def _name(self, key: Any) -> str:
        return f"{self.base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
