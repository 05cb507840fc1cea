"""Processes of ours that begin as forks of one that has imported torch, which costs each two seconds of a processor.

A fork is a child of the process that asks for it, in the environment that it is given. A judge's runners are forks of
what the judge was when it began. What would start Python or torch in another way starts cold.
"""

import atexit
import contextlib
import ctypes
import fcntl
import glob
import itertools
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any, NoReturn

AT_IMPORT = re.compile(r"PYTHON(?!PATH)|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|LD_|TORCH_|PYTORCH_")
"""Variables that Python and torch read as they start."""
MOST = 3
"""Servers at once, each of which has torch in memory."""
WORKER, JUDGE, PROBE = "kernelzoo.measure.worker", "kernelzoo.measure.judge.process", "kernelzoo.cli.probe"
INSPECTING = "kernelzoo.inspecting"
_SET, _GET = 36, 37  # PR_SET_CHILD_SUBREAPER and PR_GET_CHILD_SUBREAPER of <sys/prctl.h>
_places = {*sys.path}
_alone = threading.RLock()


Fork = Callable[[dict[str, Any], Sequence[int]], int]
"""Asks for a child of this process that has these files as its first ones: its number, or 0 if none is made."""


def _ask(asked: socket.socket, request: dict[str, Any], files: Sequence[int]) -> int:
    """The parent of what the other end forks ends at once, so that this process becomes its parent."""
    libc, before, made = ctypes.CDLL(None), ctypes.c_int(), 0
    with _alone:
        libc.prctl(_GET, ctypes.byref(before), 0, 0, 0)
        libc.prctl(_SET, 1, 0, 0, 0)
        with contextlib.suppress(OSError):
            socket.send_fds(asked, [json.dumps(request).encode()], files)
            made = int(asked.recv(64) or 0)
        libc.prctl(_SET, before.value, 0, 0, 0)
    return made


_servers: dict[str, Fork] = {}


def server(environment: dict[str, str]) -> Fork | None:
    """The server of this process whose Python and torch started in such an environment; None if others are too many."""
    with _alone:
        key = _read_at_import(environment)
        if not _finds_what_we_do(environment) or sys.platform != "linux":
            return None
        if key not in _servers and len(_servers) < MOST:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [sys.executable, "-P", __file__, str(theirs.fileno())]
                process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], env=environment, stdout=subprocess.DEVNULL
                )
            atexit.register(lambda: (ours.close(), process.wait()))
            _servers[key] = partial(_ask, ours)
        return _servers.get(key)


def _read_at_import(environment: dict[str, str]) -> str:
    return json.dumps(sorted(pair for pair in environment.items() if AT_IMPORT.match(pair[0]) and pair[1]))


def _finds_what_we_do(environment: dict[str, str]) -> bool:
    return {*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))} <= _places


def popen(find: Callable[[dict[str, str]], Fork | None], modules: Sequence[str]) -> type[subprocess.Popen[Any]]:
    """A Popen that has Python run these modules, or anything if there are none, in forks of the server it finds."""

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def _execute_child(self, args: Any, *given: Any) -> None:
            kept, cwd, env, new_session = given[3], given[4], given[5] or dict(os.environ), given[20]
            words = list(map(str, args)) if isinstance(args, list) else []
            python, words = words[:1] == [sys.executable], words[2:] if words[1:2] == ["-P"] else words[1:]
            fits = python and (not modules or (words[:1] == ["-m"] and words[1] in modules))
            files = [number if file < 0 else file for number, file in enumerate((given[9], given[12], given[14]))]
            request = {"command": words, "cwd": cwd and str(cwd), "kept": [*kept], "session": bool(new_session)}
            made = fits and (found := find(env)) and found({**request, "env": env}, [*files, *kept])
            if not made:
                super()._execute_child(args, *given)  # type: ignore[misc]
                return
            self.pid, self._child_created = made, True
            self._close_pipe_fds(*given[9:15])  # type: ignore[attr-defined]

    return Popen


def forking(*modules: str) -> SimpleNamespace:
    """The module subprocess, whose processes of these modules, or of all if there are none, are such forks."""
    names = {**vars(subprocess), "Popen": popen(server, modules)}
    run = FunctionType(subprocess.run.__code__, names)
    run.__kwdefaults__ = subprocess.run.__kwdefaults__
    return SimpleNamespace(**{**names, "run": run})


def found_at(folder: str) -> None:
    """Let forks find modules there too, none of which stands in for what they have imported."""
    _places.add(folder)


def warm_workers() -> None:
    """Let what this process starts of ours be forks."""
    from kernelzoo.cli import commits, probe
    from kernelzoo.measure import worker_process

    made = forking(WORKER, JUDGE, PROBE, "kernelzoo")
    for module in (worker_process, probe, commits):
        module.subprocess = made  # type: ignore[attr-defined]


def run(command: Sequence[str], folder: str, environment: dict[str, str]) -> tuple[int, str, str]:
    """The exit status, standard output and standard error of what Python runs there, its path aside."""
    at_import = environment | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    pipe, made = subprocess.PIPE, popen(lambda given: server(at_import), ())
    words = [sys.executable, *command]
    with made(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, cwd=folder, env=environment, text=True) as one:
        out, err = one.communicate()
    return one.returncode, out, err


def _serve(asked: socket.socket) -> None:
    while True:
        message, files, *_ = socket.recv_fds(asked, 2**20, 64)
        if not message:
            return
        read, write = os.pipe()
        if not (between := os.fork()):
            if child := os.fork():
                os.write(write, str(child).encode())
                os._exit(0)
            _leave(partial(_become, json.loads(message), files))
        os.waitpid(between, 0)
        asked.send(os.read(read, 64))
        for file in (read, write, *files):
            os.close(file)


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Run the command as the process that was asked for."""
    if request["session"]:
        os.setsid()
    wanted = [0, 1, 2, *request["kept"]]
    for file, number in zip([fcntl.fcntl(file, fcntl.F_DUPFD, 512) for file in files], wanted, strict=True):
        os.dup2(file, number)
    _close_all_but(wanted)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        how = {"errors": "backslashreplace", "buffering": 1} if name == "stderr" else {}
        stream = open(number, "w" if number else "r", closefd=False, **how)  # type: ignore[call-overload]  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(request["cwd"] or ".")
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # as found in another environment
    added = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:] = [*added, *(place for place in sys.path if place not in before)]
    first, *words = request["command"]
    if words[:1] == ["pytest"] or any(glob.glob(f"{place}/*.dist-info") for place in added):
        for name in [name for name in sys.modules if name.partition(".")[0] == "kernelzoo"]:
            del sys.modules[name]  # pytest rewrites what it imports; a package is known at the first import
    if first != "-m" or words[:1] not in ([WORKER], [PROBE], [INSPECTING]):  # which start none of ours
        _fork_what_it_starts()
    sys.argv = words if first == "-m" else [first, *words[first == "-c" :]]
    if first == "-m":
        runpy.run_module(words[0], run_name="__main__", alter_sys=words[0] != "kernelzoo")
    elif first == "-c":
        exec(compile(words[0], "block", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(first, run_name="__main__")


def _fork_what_it_starts() -> None:
    """Have what this process starts of ours forked from what it is now."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not os.fork():
        for number in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        _close_all_but([0, 1, 2, theirs.fileno()])
        _serve(theirs)
        os._exit(0)
    theirs.close()
    as_now, here = _read_at_import(dict(os.environ)), partial(_ask, ours)
    _places.update(sys.path)

    def find(given: dict[str, str]) -> Fork | None:
        return here if _read_at_import(given) == as_now and _finds_what_we_do(given) else None

    subprocess.Popen = popen(find, (WORKER, JUDGE, PROBE))  # type: ignore[misc]


def _close_all_but(kept: Sequence[int]) -> None:
    for low, high in itertools.pairwise([*sorted(kept), 4096]):
        os.closerange(low + 1, high)


def _leave(what: Callable[[], object]) -> NoReturn:
    """Do it, and end the process as Python would."""
    status = 0
    try:
        what()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status and end.code != status:
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    import torch  # noqa: F401 - what all of them need

    import kernelzoo.measure.judge.process  # noqa: F401

    for name in (WORKER, JUDGE):  # what runs as a program
        del sys.modules[name]
    _serve(socket.socket(fileno=int(sys.argv[1])))
