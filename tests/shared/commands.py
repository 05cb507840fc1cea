"""What documents show to be run: their blocks, how each is marked, and whether what it prints is what is shown.

A block of shell commands has ``console`` beside its fence, one of Python ``python``, one of a session ``pycon``. Its first
line may say why it is not run everywhere:

    # on a GPU           run where there is one, else only parsed
    # takes long         only parsed

What installs (pip, git, nox, python -m venv) is only parsed too.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
ON_A_GPU, TAKES_LONG = "# on a GPU", "# takes long"
INSTALLS = ("pip", "git", "nox", "python3 -m venv", "python -m venv")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.stem}:{self.line}"

    @property
    def mark(self) -> str:
        first = self.text.partition("\n")[0]
        return first if first in (ON_A_GPU, TAKES_LONG) else ""

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Each command of a console, and the lines shown below it."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command.partition("  #")[0].strip(), [line for line in shown.splitlines() if line.strip()]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[2], textwrap.dedent(found[3]))
        for found in FENCE.finditer(text)
    ]


def words(command: str) -> list[str]:
    """A command's words, without the variables that it sets."""
    given = shlex.split(command)
    while given and re.fullmatch(r"[A-Z_]+=.*", given[0]):
        given = given[1:]
    return given


def missing(shown: Sequence[str], printed: str) -> list[str]:
    """Lines that a document shows and the command did not print, numbers and what depends on the machine aside."""
    there = {plain(line) for line in printed.splitlines()}
    return [line for line in shown if not line.strip().startswith("...") and plain(line) not in there]


def plain(line: str) -> str:
    """The line less what another machine, or another run, prints in its place."""
    line = re.sub(r"\b(SAME|FASTER|SLOWER|UNCLEAR)\b", "VERDICT", line)
    line = re.sub(r"\b(disturbed|flags)\b", "", line)
    line = re.sub(r"^\S.*(?=, wall clock)|(?<= on ).*(?=, wall clock)", "HOST", line)
    line = re.sub(r"─+|-{3,}", "─", line)
    line = re.sub(r"(?<![\w.])[-+]?\d[\d,.]*(e[-+]?\d+)?\*?", "0", line)
    return " ".join(line.split())


class Forked:
    """Runs programs, each in a child of one process that has imported torch and no more."""

    def __init__(self) -> None:
        alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
        wide = {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=pipe, stdout=pipe, env={**alone, **wide}, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            _pipe(self._process.stdin).close()
        self._process.wait()

    def run(self, folder: Path, given: Sequence[str]) -> tuple[int, str]:
        """The exit status and all that it printed. ``given`` is ``-c`` and a program, or a command's words."""
        _pipe(self._process.stdin).write(json.dumps([str(folder), list(given)]) + "\n")
        _pipe(self._process.stdin).flush()
        status, printed = json.loads(_pipe(self._process.stdout).readline())
        return status, printed


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _child(folder: str, given: list[str]) -> int:
    program, *rest = given
    os.chdir(folder)
    sys.path.insert(0, folder)
    if program == "kernelzoo":
        from kernelzoo.cli import main

        sys.argv = given
        return main(rest)
    if program == "pytest":
        import pytest

        return int(pytest.main(["-p", "no:cacheprovider", "-p", "no:hypothesispytest", *rest]))
    if program == "-c":
        exec(compile(rest[0], "block", "exec"), {"__name__": "__main__"})
    elif program == "python":
        sys.argv = rest
        runpy.run_path(rest[0], run_name="__main__")
    else:
        raise SystemExit(f"no way to run {program!r}")
    return 0


def _serve() -> None:
    import tempfile
    import traceback

    import torch  # noqa: F401 - what all of them need

    for line in sys.stdin:
        folder, given = json.loads(line)
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if not child:
                sys.stdin = io.StringIO()
                for stream in (1, 2):
                    os.dup2(said.fileno(), stream)
                try:
                    status = _child(folder, given)
                except SystemExit as end:
                    status = end.code if isinstance(end.code, int) else int(end.code is not None)
                except BaseException:
                    traceback.print_exc()
                    status = 1
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
            _, status = os.waitpid(child, 0)
            said.seek(0)
            print(json.dumps([os.waitstatus_to_exitcode(status), said.read().decode()]), flush=True)


if __name__ == "__main__":
    _serve()
