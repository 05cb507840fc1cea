"""What documents show to be run: their ``console`` and ``python`` blocks, and whether they print what is shown.

A first line ``# on a GPU`` or ``# takes long`` marks a block as (there) only parsed, as what installs is.
``python tests/shared/commands.py PAGE...`` runs a page's blocks and puts what they print below each command.
"""

import importlib.util
import os
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import warm

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
    line = re.sub(r"95 % interval", "", line)  # a disturbed row has none, and neither has its table
    line = re.sub(r"(\[[^]]*\]\s+)?\b(SAME|FASTER|SLOWER|UNCLEAR)\b", "VERDICT", line)
    line = re.sub(r"(, \d+)? ~", "", line)
    line = re.sub(r"^\S.*(?=, wall clock)|(?<= on ).*(?=, wall clock)", "HOST", line)
    line = re.sub(r"─+|-{3,}", "─", line)
    line = re.sub(r"(?<![\w.])[-+]?\d([\d,.]*\d)?(e[-+]?\d+)?\*?", "0", line)
    return " ".join(line.split())


def run(folder: Path, given: Sequence[str], gpu: bool = False, columns: int = 200) -> tuple[int, str, str]:
    """The exit status, standard output and standard error of a command; only ``gpu`` lets it see GPUs.

    The folder is on Python's path, also of what the command starts, as if it were installed.
    """
    # Under pytest-xdist, which these variables tell of, pytest-benchmark would measure nothing.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    env |= {"COLUMNS": str(columns), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    env |= {} if gpu else {"CUDA_VISIBLE_DEVICES": ""}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), env.get("PYTHONPATH"))))
    program, *rest = given
    if program == "pytest":
        rest = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", *rest]
    command = {"kernelzoo": ["-m", program], "pytest": ["-m", program], "python": [], "-c": ["-c"]}[program]
    return warm.run([*command, *rest], str(folder), env)


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
        with tempfile.TemporaryDirectory() as folder:
            here = workplace(Path(folder))
            for block in blocks(page):
                if block.language != "console" or block.mark:
                    continue
                for command, shown in block.commands():
                    if not runs_here(command):
                        continue
                    _, out, err = run(here, words(command))
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
    _refresh(sys.argv[1:])
