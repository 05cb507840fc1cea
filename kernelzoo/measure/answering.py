"""The child's side of a measuring process: it reads requests and answers them.

Requests are lines of JSON on standard input. Replies go to a file descriptor, each with its request's number.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from kernelzoo.children import kill_process_group
from kernelzoo.errors import CacheWarning, DeviceLostError, KernelZooError


class RequestServer:
    """A server for requests. Its method ``on_open`` answers the request ``open``, and so on."""

    def __init__(self, replies: IO[str]) -> None:
        self._replies, self._process = replies, os.getpid()
        self.number = 0
        """The number of the current request, which its replies repeat."""
        self.in_hand = False
        """Whether the current request is running an implementation."""

    def on_confirm(self) -> dict[str, Any]:
        """Return an empty reply, which confirms that the previous request is finished."""
        return {}

    def warn(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
    ) -> None:
        """Send a CacheWarning to the parent, which shows it to the user. Print any other warning."""
        if issubclass(category, CacheWarning):
            self.send_reply(warning=str(message))
        else:
            print(f"{filename}:{lineno}: {category.__name__}: {message}", file=sys.stderr)

    def _report_progress(self, stage: str, id: str, **more: Any) -> None:
        self.in_hand = True
        self.send_reply(stage=stage, id=id, **more)

    def send_reply(self, **reply: Any) -> None:
        """Send a reply to the parent. If a GPU kernel's code has forked this process, end the forked child instead."""
        if os.getpid() != self._process:
            os._exit(1)
        print(json.dumps({**reply, "number": self.number}), file=self._replies, flush=True)


def serve(make: Callable[[IO[str]], RequestServer], descriptor: int, lifeline: int) -> None:
    """Answer requests until the parent process ends. Replies go to ``descriptor``. The end closes ``lifeline``."""
    _exit_when_guard_ends(lifeline)
    with contextlib.suppress(OSError):  # if memory runs out, Linux ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    faulthandler.enable()
    worker = make(os.fdopen(descriptor, "w", buffering=1))
    os.register_at_fork(after_in_child=partial(os.close, descriptor))  # a forked child must not reply
    warnings.showwarning = worker.warn
    for line in sys.stdin:
        request = json.loads(line)
        worker.number, worker.in_hand = request.pop("number"), False
        handle: Callable[..., dict[str, Any]] = getattr(worker, f"on_{request.pop('do')}")
        try:
            reply: dict[str, Any] = {"done": handle(**request)}
        except KernelZooError as error:
            # An error of the running implementation is its failure, not a refusal of the request.
            words = error.reason if isinstance(error, DeviceLostError) else f"raised {type(error).__name__}: {error}"
            reply = {"lost": words} if worker.in_hand else {"error": str(error)}
        worker.send_reply(**reply)


def _exit_when_guard_ends(lifeline: int) -> None:
    """Let a helper process kill this one and its children when the guard ends. A thread could be blocked by kernels."""
    if child := os.fork():
        os.waitpid(child, 0)
        os.close(lifeline)
        return
    if os.fork() == 0:  # an orphan, so that a kernel that waits for its children does not wait for it
        with contextlib.suppress(BaseException):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            group = os.getpgrp()  # its number is that of its first process
            os.setpgid(0, 0)  # the group may be stopped, and this process must not be
            os.closerange(0, lifeline)
            os.closerange(lifeline + 1, 4096)
            os.read(lifeline, 1)
            kill_process_group(group)
    os._exit(0)
