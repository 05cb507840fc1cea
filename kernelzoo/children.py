"""Keeps the working directory off the path of Python, here and in the processes that are started: a file there must not
pass for a language. An empty entry of PYTHONPATH, which is most often a slip, stands for it too."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def environment(*, here: bool = False) -> dict[str, str]:
    """What a child is given: the environment of this process, less the empty entries of PYTHONPATH. ``here`` puts this
    package's own place first."""
    places = [str(Path(__file__).parents[1])] if here else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places + _named())}


def leave_working_directory() -> None:
    """Take off this process's path what an empty entry of PYTHONPATH put there."""
    here, given = os.getcwd(), os.environ.get("PYTHONPATH")
    if given and "" in given.split(os.pathsep) and here not in map(os.path.abspath, _named()):
        sys.path[:] = [place for place in sys.path if place not in ("", here)]


def _named() -> list[str]:
    return [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
