"""Child processes: their environment variables, their temporary folders, and how they are killed.

The working directory is kept off Python's path, in this process and its children, so that no file in it is imported.
An empty entry of PYTHONPATH, most often a slip, means the working directory too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

SCRATCH = "KERNELZOO_SCRATCH"
"""The environment variable that names the folder for children's temporary files. The parent removes that folder."""

_scratch_folders: list[tempfile.TemporaryDirectory[str]] = []


def child_env(*, package_first: bool = False) -> dict[str, str]:
    """Return the environment for a child process. ``package_first``: put this package first on its PYTHONPATH."""
    places = [str(Path(__file__).parents[1])] if package_first else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places + _python_path())}


def make_scratch_folder() -> Path:
    """Make a folder that this process removes at its end. If killed, the kernelzoo process that started it does so."""
    _scratch_folders.append(tempfile.TemporaryDirectory(prefix="kernelzoo-", dir=os.environ.get(SCRATCH)))
    return Path(_scratch_folders[-1].name)


def child_processes_of(process: int) -> set[int]:
    """Return the ids of the running children of all threads of a process."""
    found = set[int]()
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            # This runs for every thread after each request. An unbuffered file takes a third of a Path's time.
            with contextlib.suppress(OSError), open(f"/proc/{process}/task/{task}/children", "rb", 0) as children:
                found.update(map(int, children.read().split()))
    return found


def kill_process_group(leader: int) -> None:
    """Kill a process, its group, and all their descendants, including stopped ones and those in other groups."""
    found, left = set[int](), [leader]
    while left:
        found |= (new := child_processes_of(left.pop()) - found)
        left += new
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    for process in found - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def drop_working_directory_from_path() -> None:
    """Remove the working directory from ``sys.path`` if an empty entry of PYTHONPATH put it there."""
    here, given = os.getcwd(), os.environ.get("PYTHONPATH")
    if given and "" in given.split(os.pathsep) and here not in map(os.path.abspath, _python_path()):
        sys.path[:] = [place for place in sys.path if place not in ("", here)]


def _python_path() -> list[str]:
    return [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
