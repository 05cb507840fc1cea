"""A sweep over the GPUs of a Ray cluster, with one actor and guard for each GPU.

If a worker's process or host is lost, another worker replaces it and runs its race again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelzoo.errors import KernelZooError
from kernelzoo.measure import record
from kernelzoo.measure.gpus import Gpu
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.worker_process import IMPORTING, GuardError, Json, LostError, ProcessDescription, RaceLostError

TRIES = 4
"""After this number of lost workers, the sweep continues without the race that lost them."""

STARTING = 2 * IMPORTING
"""Seconds that a worker may take to start before its GPU counts as lost."""


class RayMissingError(KernelZooError, RuntimeError):
    """Ray is not installed, or no cluster has a GPU."""


@contextlib.contextmanager
def connect_to_cluster(address: str) -> Iterator[None]:
    """Return a context that is connected to a Ray cluster. Raises RayMissingError.

    The address is ``address``, else ``RAY_ADDRESS``. Without both, a new cluster starts on this machine.
    """
    try:
        import ray
    except ImportError:
        raise RayMissingError("--engine ray needs Ray; pip install 'kernelzoo[ray]'") from None
    ends = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address or None, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RayMissingError(f"no Ray cluster can be used: {str(error).partition(chr(10))[0]}") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ends)  # Ray's handler would end this process without our hint how to continue
    try:
        yield
    finally:
        with contextlib.redirect_stdout(sys.stderr):  # Ray prints late output here
            ray.shutdown()


def worker_starters(device: str, modules: Sequence[str], patience: float) -> list[Callable[[], RayWorker]]:
    """Return, for each GPU of the cluster, a function that starts a worker. Raises RayMissingError without a GPU."""
    import ray

    count = int(ray.cluster_resources().get("GPU", 0))
    if not count:
        raise RayMissingError("the Ray cluster has no GPU; kernelzoo doctor says what is missing on this machine")
    paths = [os.path.abspath(module) for module in modules]
    ours = record.digest_sources(list(map(Path, paths)))
    return [lambda: RayWorker(device, paths, patience, ours)] * count


class RayWorker:
    """A local proxy for a guard on one GPU of the cluster. It handles one request at a time.

    Raises GuardError if the guard can't start, or if its host has other code of kernelzoo or of the modules.
    """

    def __init__(self, device: str, modules: Sequence[str], patience: float, source: Json) -> None:
        self._given = device, list(modules), patience
        self._source, self._over = source, threading.Event()
        self._actor: Any = None
        self.about: ProcessDescription
        self._call("a worker")

    def _start(self) -> None:
        import ray

        # The actor's class is found by name, in the kernelzoo of that host.
        made = ray.remote(num_gpus=1, num_cpus=0, max_restarts=0, max_task_retries=0)(_RemoteGuard)
        self._actor = made.remote(*self._given)
        try:
            self.about, source = ray.get(self._actor.open_guard.remote(), timeout=STARTING)
        except ray.exceptions.GetTimeoutError:
            raise LostError(f"no GPU of the cluster was free for a worker within {STARTING:g} s") from None
        if source != self._source:
            where = self.about.gpu["host"] if self.about.gpu else "a host"
            raise GuardError(f"{where} has another kernelzoo, or other files of --module; install the same on each")

    def race(self, problem: Problem, ids: Sequence[str], **how: Any) -> tuple[list[Json], list[Json]]:
        """Measure implementations; see :meth:`kernelzoo.measure.guard.Guard.race`. Progress is not reported.

        Raises LostError if no GPU is left to replace a lost worker, RaceLostError after TRIES lost workers.
        """
        how = {name: value for name, value in how.items() if name != "progress"}
        found: tuple[list[Json], list[Json]] = self._call(problem.id, "race", problem, list(ids), **how)
        return found

    def find_fuzzing_limits(self, id: str) -> Json:
        """Return the largest fuzzing case; see :meth:`kernelzoo.measure.guard.Guard.find_fuzzing_limits`."""
        return dict(self._call(id, "find_fuzzing_limits", id))

    def close(self) -> None:
        """End the worker and its guard."""
        self._over.set()
        self._end()

    def _call(self, task: str, *method: Any, **how: Any) -> Any:
        """Call a method of the remote guard, and return its result. Replace a lost worker. ``task`` is for messages.

        Without a ``method``, only start a worker. Raises GuardError if it fails, RaceLostError after TRIES losses.
        """
        import ray

        for left in reversed(range(TRIES)):
            fresh = self._actor is None
            try:
                if fresh:
                    self._start()
                return ray.get(self._actor.ask.remote(*method, **how)) if method else None
            except ray.exceptions.RayTaskError as error:
                if fresh:
                    self._end()
                raise GuardError(_shorten_error(error.cause)) from None
            except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
                self._end()
                if self._over.is_set():
                    raise GuardError("the worker was ended") from None
                if not left:
                    words = f"{task} has lost {TRIES} workers, the last one by: {_shorten_error(error)}"
                    raise RaceLostError(words) from None
            except KernelZooError:
                self._end()
                raise
        raise AssertionError

    def _end(self) -> None:
        import ray

        actor, self._actor = self._actor, None
        if actor is not None:
            with contextlib.suppress(Exception):  # it or Ray is gone
                ray.kill(actor)


class _RemoteGuard:
    """The remote side: a guard in a process that Ray started with one GPU."""

    def __init__(self, device: str, modules: list[str], patience: float) -> None:
        self._given = device, modules, patience
        self._guard: Guard | None = None
        self._host = socket.gethostname()

    def open_guard(self) -> tuple[ProcessDescription, Json]:
        """Start the guard. Returns its description, and digests of the code on this host."""
        import ray

        device, modules, patience = self._given
        (index,) = ray.get_gpu_ids()
        gpu = Gpu(int(index) if str(index).isdigit() else 0, os.environ["CUDA_VISIBLE_DEVICES"])
        self._guard = Guard(device, modules, patience=patience, gpu=gpu)
        about = self._guard.about
        where = {"host": self._host} | (about.gpu or {"index": gpu.index, "uuid": None})
        self._guard.about = replace(about, gpu=where, host={"machine": record.machine(about.device_name)})
        return self._guard.about, record.digest_sources(list(map(Path, modules)))

    def ask(self, name: str, *given: Any, **how: Any) -> Any:
        """Call a method of the guard."""
        assert self._guard is not None
        return getattr(self._guard, name)(*given, **how)


def _shorten_error(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
