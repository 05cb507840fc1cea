"""Child processes: what they see of the environment, and the folders that they leave.

The working directory is kept off Python's path, here and there, so that no file in it is imported. An empty entry of
PYTHONPATH, most often a slip, means the working directory too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

SCRATCH = "KERNELZOO_SCRATCH"
"""The variable with the folder that a process removes when it ends those that it has started."""

_made: list[tempfile.TemporaryDirectory[str]] = []


def environment(*, here: bool = False) -> dict[str, str]:
    """This process's environment for a child. ``here`` puts this package's path first."""
    places = [str(Path(__file__).parents[1])] if here else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places + _named())}


def scratch() -> Path:
    """A new folder, gone when this process ends, also by a signal if another process of kernelzoo has started it."""
    _made.append(tempfile.TemporaryDirectory(prefix="kernelzoo-", dir=os.environ.get(SCRATCH)))
    return Path(_made[-1].name)


def children_of(process: int) -> set[int]:
    """The numbers of the processes that it has started and that run; of those of all its threads."""
    found = set[int]()
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            # Of every thread, after each request: an unbuffered file is read in a third of a Path's time.
            with contextlib.suppress(OSError), open(f"/proc/{process}/task/{task}/children", "rb", 0) as children:
                found.update(map(int, children.read().split()))
    return found


def end_group(leader: int) -> None:
    """Kill a process, its group, and all that they have started, also in groups of their own or stopped."""
    found, left = set[int](), [leader]
    while left:
        found |= (new := children_of(left.pop()) - found)
        left += new
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    for process in found - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def leave_working_directory() -> None:
    """Remove what an empty entry of PYTHONPATH put on this process's path."""
    here, given = os.getcwd(), os.environ.get("PYTHONPATH")
    if given and "" in given.split(os.pathsep) and here not in map(os.path.abspath, _named()):
        sys.path[:] = [place for place in sys.path if place not in ("", here)]


def _named() -> list[str]:
    return [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
