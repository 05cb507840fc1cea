"""What documents show to be run: their ``console`` and ``python`` blocks, and whether they print what is shown.

A first line ``# on a GPU`` or ``# takes long`` marks a block as (there) only parsed, as what installs is.
``python tests/shared/commands.py PAGE...`` runs a page's blocks and puts what they print below each command.
"""

import contextlib
import importlib.util
import io
import itertools
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn, Self

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
ON_A_GPU, TAKES_LONG = "# on a GPU", "# takes long"
NEEDS = {
    "triton": "triton", "gluon": "triton", "cutile": "cutile_cache", "cute": "nvidia_cutlass_dsl", "helion": "helion",
    "cupy": "cupy", "numba": "numba_cuda", "cpu": "numba",
}  # fmt: skip
"""Backends, and the packages without which they can do nothing."""
DISTURBED = re.compile(r"^(\d+ disturbed rounds? w|~ disturbed)")
"""A line that a busy machine adds."""
INSTALLS = ("pip", "git", "nox", ".venv/bin/", "python3 -m venv", "python -m venv")


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
    """A command's words, without the variables that it sets; of a word with braces one for each name in them."""
    given = [
        start + name + end
        for start, names, end in (
            re.fullmatch(r"([^{]*)(?:\{(.*)\})?([^}]*)", word).groups("") for word in shlex.split(command)
        )
        for name in names.split(",")
    ]
    while given and re.fullmatch(r"[A-Z_]+=.*", given[0]):
        given = given[1:]
    return given


def missing(shown: Sequence[str], printed: str) -> list[str]:
    """Lines that a document shows and the command did not print, numbers and what depends on the machine aside."""
    there = {plain(line) for line in printed.splitlines()} | {"..."}
    return [line for line in shown if plain(line) not in there and not DISTURBED.search(line)]


def plain(line: str) -> str:
    """The line less what another machine, or another run, prints in its place."""
    if re.search(r"\d+ passed, \d+ refused, \d+ findings", line):
        return line.strip()
    line = re.sub(r"\b(SAME|FASTER|SLOWER|UNCLEAR)\b", "VERDICT", line)
    line = re.sub(r"(, \d+)? ~", "", line)
    line = re.sub(r"^\S.*(?=, wall clock)|(?<= on ).*(?=, wall clock)", "HOST", line)
    line = re.sub(r"─+|-{3,}", "─", line)
    line = re.sub(r"(?<![\w.])[-+]?\d([\d,.]*\d)?(e[-+]?\d+)?\*?", "0", line)
    return " ".join(line.split())


class Forked:
    """Runs programs, each in a child of one process that has imported torch and no more."""

    def __init__(self, columns: int = 200) -> None:
        # Under pytest-xdist, which these variables tell of, pytest-benchmark would measure nothing.
        alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
        wide = {"COLUMNS": str(columns), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
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
        _pipe(self._process.stdout).close()

    def run(self, folder: Path, given: Sequence[str], gpu: bool = False) -> tuple[int, str, str]:
        """The exit status, standard output and standard error of a command; only ``gpu`` lets it see GPUs."""
        _pipe(self._process.stdin).write(json.dumps([str(folder), list(given), gpu]) + "\n")
        _pipe(self._process.stdin).flush()
        status, out, err = json.loads(_pipe(self._process.stdout).readline())
        return status, out, err


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    """Runs ``python -m MODULE`` in a fork of this process, which has torch already, and not in a new Python.

    Not where there are other threads: one may hold a lock, as that of an import, which the fork never gets.
    """

    def __init__(self, args: Sequence[str], **settings: Any) -> None:
        if list(args[:1]) == [sys.executable] and "-m" in args and threading.active_count() == 1:
            kept = sorted({0, 1, 2, *settings.get("pass_fds", ())})
            settings["preexec_fn"] = partial(_module, list(args[args.index("-m") + 1 :]), kept, settings.get("env"))
        super().__init__(args, **settings)


def _module(given: list[str], kept: list[int], env: dict[str, str] | None) -> None:
    for low, high in itertools.pairwise([*kept, 4096]):
        os.closerange(low + 1, high)  # one of these tells the parent that the program has begun
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
    sys.stdin, sys.argv = open(0), ["-m", *given[1:]]  # noqa: SIM115
    _leave(lambda: runpy.run_module(given[0], run_name="__main__", alter_sys=False) and None)


def _leave(what: Callable[[], int | None]) -> NoReturn:
    """Do it, and end the process as Python would."""
    try:
        status = what() or 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _child(folder: str, given: list[str]) -> int:
    program, *rest = given
    subprocess.Popen = _Popen  # type: ignore[misc]
    os.chdir(folder)
    sys.path.insert(0, folder)  # and of what this one starts, as if it were installed
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
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
    import torch  # noqa: F401 - what all of them need

    for line in sys.stdin:
        folder, given, gpu = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if not child:
                sys.stdin = io.StringIO()
                if not gpu:
                    os.environ["CUDA_VISIBLE_DEVICES"] = ""
                for number, file in ((1, out), (2, err)):
                    os.dup2(file.fileno(), number)
                _leave(partial(_child, folder, given))
            _, status = os.waitpid(child, 0)
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read().decode())
            print(json.dumps([os.waitstatus_to_exitcode(status), *said]), flush=True)


def workplace(folder: Path) -> Path:
    """A folder that has all that the project's has, and may be written to."""
    for path in ROOT.iterdir():
        if path.name not in ("out", ".git", ".venv"):
            (folder / path.name).symlink_to(path)
    return folder


def runs_here(command: str) -> bool:
    """Whether it does anything but install, in a language that is installed here."""
    if command.startswith(INSTALLS):
        return False
    names = {name for word in words(command) for name in word.split("/")[0].split(",")}
    return all(importlib.util.find_spec(package) for name, package in NEEDS.items() if name in names)


def _refresh(pages: Sequence[str]) -> None:
    for page in map(Path, pages):
        text = page.read_text(encoding="utf-8")
        with Forked() as forked, tempfile.TemporaryDirectory() as folder:
            here = workplace(Path(folder))
            for block in blocks(page):
                if block.language != "console" or block.mark:
                    continue
                for command, shown in block.commands():
                    if not runs_here(command):
                        continue
                    _, out, err = forked.run(here, words(command))
                    fresh = "".join(
                        f"{line.rstrip()}\n" for line in out.splitlines() if line.strip() and not DISTURBED.search(line)
                    )
                    if shown and not any(line.startswith("...") for line in shown):
                        start = text.index(f"$ {command}")
                        start = text.index("\n", start) + 1
                        end = min(i for i in (text.find("$ ", start), text.find("```", start)) if i >= 0)
                        text = text[:start] + fresh + text[end:]
                    elif missing(shown, out + err):
                        print(f"{page.name}: $ {command}\n{fresh}{err}")
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        _refresh(sys.argv[1:])
    else:
        _serve()
