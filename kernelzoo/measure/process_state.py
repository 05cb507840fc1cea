"""Process state that a kernel must not change, compared after binding and after each turn.

A language may start native threads (OpenMP's, Numba's and torch's pools). Nothing tells them from a kernel's, so only
their counts are compared. A thread that runs Python, or a child process, belongs to the kernel. The exception is
torch's compiler (``_threads``, ``_children``).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from kernelzoo.errors import ContractError, DeviceLostError
from kernelzoo.measure import trusted

KIND = "changes the process"

_ENDING = 0.2
"""Seconds that a thread or a child process may take to end."""


@dataclass(frozen=True)
class Piece:
    """One piece of state, by its name in a message."""

    name: str
    read: Callable[[], Any]
    undo: Callable[[Any], object] | None = None
    """Restores the old value; None where nothing can."""
    left: bool = False
    """Whether it is a tuple to which a kernel adds."""
    config: bool = True
    """Whether a file of kernels may change it on loading."""


def _cut(length: Callable[[], int], pop: Callable[[], object], before: tuple[object, ...]) -> None:
    while length() > len(before):
        pop()


def _cut_modes(length: Callable[[], int], modes: Any, before: tuple[object, ...]) -> None:
    """Pop new modes, and clear torch's flag, which a pop leaves set."""
    _cut(length, modes._pop_mode, before)
    modes._is_in_torch_dispatch_mode = length() > 0


def _pieces() -> list[Piece]:
    """All pieces of state. Modes and hooks come first, since they may affect reading the others."""
    import torch
    from torch import overrides
    from torch.utils import _python_dispatch as dispatch

    c: Any = torch._C  # torch has no types for these
    t: Any = torch
    functions: Any = overrides
    modes: Any = dispatch
    pieces = [
        Piece(
            "a TorchDispatchMode",
            lambda: tuple(modes._get_current_dispatch_mode_stack()),
            partial(_cut_modes, c._len_torch_dispatch_stack, modes),
            left=True,
            config=False,
        ),
        Piece(
            "a TorchFunctionMode",
            lambda: tuple(functions._get_current_function_mode_stack()),
            partial(_cut, c._len_torch_function_stack, functions._pop_mode),
            left=True,
        ),
        Piece("a profile hook", sys.getprofile, sys.setprofile, config=False),
        Piece("a trace hook", sys.gettrace, sys.settrace, config=False),
        Piece("a profile hook of threads", threading.getprofile, lambda was: threading.setprofile(was), config=False),
        Piece("a trace hook of threads", threading.gettrace, lambda was: threading.settrace(was), config=False),
        Piece("the monitoring tools", _monitoring, config=False),
        Piece("an override of torch's operators", partial(_overrides, t.library), left=True, config=False),
        Piece("grad mode", t.is_grad_enabled, t.set_grad_enabled),
        Piece("inference mode", t.is_inference_mode_enabled),
        Piece("autocast", lambda: (t.is_autocast_enabled("cpu"), t.is_autocast_enabled("cuda"))),
        Piece("anomaly mode", t.is_anomaly_enabled, t.set_anomaly_enabled),
        Piece("torch's dispatch keys", lambda: _keys(c), config=False),
        Piece("the default dtype", t.get_default_dtype, t.set_default_dtype),
        Piece("torch's thread count", t.get_num_threads, t.set_num_threads),
        Piece("torch's interop thread count", t.get_num_interop_threads),
        Piece("Numba's thread count", _numba_threads, _set_numba_threads),
        Piece("deterministic algorithms", t.get_deterministic_debug_mode, t.set_deterministic_debug_mode),
        Piece("the precision of float32 products", t.get_float32_matmul_precision, t.set_float32_matmul_precision),
        *(
            Piece(f"torch.backends.{name}", partial(getattr, of, flag), partial(setattr, of, flag))
            for name, of, flag in (
                ("cudnn.deterministic", t.backends.cudnn, "deterministic"),
                ("cudnn.benchmark", t.backends.cudnn, "benchmark"),
                ("cudnn.enabled", t.backends.cudnn, "enabled"),
            )
        ),
        Piece("floating point (subnormals, rounding)", _arithmetic, lambda was: _default_arithmetic()),
        Piece("the processors it may run on", partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0)),
        Piece("its priority", lambda: (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))),
        Piece("its limits", _limits, _set_limits),
        Piece("the handlers of signals", _handlers, _set_handlers, config=False),
        Piece("a timer", lambda: tuple(signal.getitimer(n)[0] > 0 for n in range(3)), _stop_timers, config=False),
        Piece("the environment", _environment, _set_environment),
        Piece("the working directory", os.getcwd, os.chdir),
        Piece("the switch interval", sys.getswitchinterval, sys.setswitchinterval),
        Piece("threads", _threads, left=True, config=False),
        Piece("child processes", _children, left=True, config=False),
    ]
    if t.cuda.is_available() and t.cuda.is_initialized():
        pieces += [
            Piece("the current device", t.cuda.current_device, t.cuda.set_device),
            Piece("the current stream", t.cuda.current_stream, t.cuda.set_stream),
        ]
    return pieces


class Watch:
    """A snapshot of this process and of :mod:`kernelzoo.measure.trusted`.

    >>> import torch
    >>> watch = Watch()
    >>> torch.set_default_dtype(torch.float64)
    >>> watch.changes()
    ['changed the default dtype from torch.float32 to torch.float64']
    """

    def __init__(self) -> None:
        with contextlib.suppress(ImportError):
            # Compilers show progress bars, whose monitor thread would be blamed on a kernel.
            import tqdm

            tqdm.tqdm.monitor_interval = 0
        self._trusted = trusted.taken()
        self._tasks = _tasks()
        self._before = [(piece, piece.read()) for piece in _pieces()]

    def changes(self, *, config: bool = True) -> list[str]:
        """Descriptions of what changed, undone where possible. Without ``config``, settings that a user may choose do
        not count."""
        undone, lasting = self._changes(config)
        return lasting + undone

    def _changes(self, config: bool) -> tuple[list[str], list[str]]:
        """Changes that were undone, and changes that can't be."""
        undone, lasting = list[str](), list[str]()
        if new := _tasks() - self._tasks:
            self._tasks |= new
            _begun(new)
        if replaced := self._trusted.replaced():  # first, since the rest relies on them
            undone.append(f"replaced {trusted.told(replaced)}")
        for piece, before in self._before:
            now = piece.read()
            if now == before or not (config or not piece.config):
                continue
            if piece.left and not set(now) - set(before):
                continue
            if piece.left and piece.undo is None and not (now := _waited(piece, before)):
                continue
            words = _words(piece, before, now)
            with contextlib.suppress(Exception):  # if it can't be undone, it still differs
                if piece.undo is not None:
                    piece.undo(before)
            (undone if piece.undo is not None and piece.read() == before else lasting).append(words)
        return undone, lasting

    def check(self, id: str) -> None:
        """Raise ContractError for changes that were all undone, else DeviceLostError. After a lasting change this
        process can't measure."""
        undone, lasting = self._changes(True)
        words = "; ".join(lasting + undone)
        if lasting:
            raise DeviceLostError(id, words)
        if undone:
            raise ContractError(words, KIND)

    @contextmanager
    def left_alone(self, id: str) -> Iterator[None]:
        """A context that is checked at its end, even after an error: a change may explain it."""
        try:
            yield
        finally:
            self.check(id)


def _words(piece: Piece, before: Any, now: Any) -> str:
    if piece.left:
        new = [one for one in now if one not in before]
        return f"left {piece.name} behind: {', '.join(map(_name, new))}"
    if isinstance(before, dict):
        names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
        return f"changed {piece.name}: {', '.join(names)}"
    if before is None:
        return f"left {piece.name} behind"
    return f"changed {piece.name} from {_name(before)} to {_name(now)}"


def _name(value: Any) -> str:
    plain = isinstance(value, str | int | float | tuple | set) or type(value).__module__ == "torch"
    return str(value) if plain else type(value).__name__


def _waited(piece: Piece, before: tuple[object, ...]) -> tuple[object, ...]:
    """What is left of the new entries after some time to end."""
    until = time.monotonic() + _ENDING
    while set(now := piece.read()) - set(before):
        if time.monotonic() > until:
            return tuple(now)
        time.sleep(0.002)
    return ()


def _monitoring() -> tuple[object, ...]:
    monitoring: Any = getattr(sys, "monitoring", None)  # Python 3.12 and later
    if monitoring is None:
        return ()
    tools = [(monitoring.get_tool(n), n) for n in range(6)]
    return tuple((tool, tool and monitoring.get_events(n)) for tool, n in tools)


def _overrides(library: Any) -> tuple[str, ...]:
    """Kernels that Python registered for torch's operators on the measured devices. torch's compiler registers
    others."""
    impls: set[str] = getattr(library, "_impls", set())
    return tuple(sorted(name for name in impls if name.startswith("aten/") and name.endswith(("/CPU", "/CUDA"))))


def _keys(c: Any) -> tuple[int, int]:
    return c._dispatch_tls_local_include_set().raw_repr(), c._dispatch_tls_local_exclude_set().raw_repr()


def _numba_threads() -> int | None:
    """Numba's thread count; None while it is the default. Asking earlier would start the threads."""
    parallel: Any = sys.modules.get("numba.np.ufunc.parallel")
    if parallel is None or not parallel._is_initialized:
        return None
    count: int = parallel.get_num_threads()
    return None if count == parallel.config.NUMBA_NUM_THREADS else count


def _set_numba_threads(count: int | None) -> None:
    parallel: Any = sys.modules["numba.np.ufunc.parallel"]
    parallel.set_num_threads(count or parallel.config.NUMBA_NUM_THREADS)


_SMALLEST, _TINY = sys.float_info.min, 2.0**-60


def _arithmetic() -> str:
    """The rounding and subnormal mode of this thread, by a computation. No other way works on every architecture."""
    flushes = _SMALLEST * 0.5 == 0
    rounds = 1.0 + _TINY != 1.0 or -1.0 - _TINY != -1.0 or 1.0 - _TINY != 1.0
    return "other than IEEE 754's" if flushes or rounds else "IEEE 754's"


def _default_arithmetic() -> None:
    import torch

    torch.set_flush_denormal(False)
    ctypes.CDLL(None).fesetenv(ctypes.c_void_p(-1))  # FE_DFL_ENV


_LIMITS = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}


def _limits() -> dict[str, tuple[int, int]]:
    return {name: resource.getrlimit(number) for name, number in _LIMITS.items()}


def _set_limits(before: dict[str, tuple[int, int]]) -> None:
    for name, limit in before.items():
        resource.setrlimit(_LIMITS[name], limit)


def _handlers() -> dict[str, object]:
    return {number.name: signal.getsignal(number) for number in signal.Signals}


def _set_handlers(before: dict[str, Any]) -> None:
    for name, handler in before.items():
        if signal.getsignal(signal.Signals[name]) is not handler:
            signal.signal(signal.Signals[name], handler)


def _stop_timers(before: tuple[bool, ...]) -> None:
    for number, running in enumerate(before):
        if not running:
            signal.setitimer(number, 0)


_COMPILERS = ("TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_", "KMP_")
"""Environment variables that languages set for their compilers and threads."""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_COMPILERS)}


def _set_environment(before: dict[str, str]) -> None:
    for name in {*before, *_environment()}:
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]


def _tasks() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def _begun(tasks: set[str]) -> None:
    """Wait until these threads block, or for a short time. Python lists a thread only after it has run, so the next
    implementation would be blamed."""
    until = time.monotonic() + _ENDING
    while tasks and time.monotonic() < until:
        time.sleep(0.002)  # releases the interpreter
        tasks = {task for task in tasks if _state(f"self/task/{task}") == "R"}


def _state(task: str) -> str:
    """The state letter of proc(5), such as R (running) and Z (ended); "" for a thread that is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def _threads() -> tuple[str, ...]:
    """Threads that run Python, except torch's compiler: its idle pool, and the reader of its processes' answers."""
    from kernelzoo.torch_private import inductor_pool

    pool: Any = inductor_pool()
    begun = pool is not None and pool.pool.cache_info().currsize
    own = {t.ident for t in tuple(pool.pool()._threads)} if begun else set()  # a copy, since the pool may grow
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return tuple(
        f"{names.get(ident, 'without a name')} ({ident})"
        for ident, frame in sys._current_frames().items()
        if not (ident in own and frame.f_globals.get("__name__") == "concurrent.futures.thread")
        and not any("/torch/_inductor/compile_worker/" in f.f_code.co_filename for f in _stack(frame))
    )


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


_LEGAL_CHILDREN = ("/torch/_inductor/compile_worker/", "from multiprocessing.resource_tracker import main")
"""In the command line of torch's compiler, and of the process that counts what Python's multiprocessing shares: Numba
starts the latter with its threads, from Python 3.14 on."""


def _children() -> tuple[str, ...]:
    """Child processes that run, except those of torch's compiler and multiprocessing's resource tracker."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            with open(f"/proc/self/task/{task}/children") as names:
                children = names.read().split()
            for child in children:
                command = Path(f"/proc/{child}/cmdline").read_text().split("\0")
                if _state(child) != "Z" and not any(legal in " ".join(command) for legal in _LEGAL_CHILDREN):
                    found.append(f"{os.path.basename(command[0])} ({child})")
    return tuple(found)
