"""The page that sets languages side by side: launches, first calls, speed, and the lines of each form.

``python bench/records.py pages`` writes it, of the source and of what ``bench/results/`` holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from kernelzoo import registry
from kernelzoo.files import read_json
from kernelzoo.packages import LANGUAGES
from kernelzoo.report import score
from kernelzoo.report.lines import lines_to_read
from kernelzoo.report.reading import load
from kernelzoo.report.results import Problem
from kernelzoo.report.table import Cell, Table

NAMES = {backend: name for backend, name in LANGUAGES.items() if backend not in ("cpu", "torch")}
OPS = ("softmax", "min")
_SHORT = "Short rows that begin anywhere in vectors are read number by number."
_EDGES = "The edges of short rows that begin anywhere in vectors are read number by number"
_PARTS = "in longer ones a thread has code for a part of a vector beside that for a whole one"
REASONS = {
    "softmax": {
        "triton": "Programs that share a row meet through memory, where clusters have shared memory in common; of very "
        "long rows a part is read twice; (1009, 9973) fills 0.6 of a tile, a power of two.",
        "gluon": f"{_EDGES}; all programs take one row of (5, 3000017) at a time.",
        "cutile": _SHORT,
        "cute": f"{_SHORT[:-1]}; {_PARTS}; (64, 4194304) is read twice, by two launches.",
        "helion": f"{_SHORT[:-1]}; long rows are read twice.",
        "cupy": "Problems of a few microseconds.",
        "numba": "Of very long rows a part is read twice; problems of a few microseconds.",
    },
    "min": {
        "triton": "Half precision is compared in float32, where an instruction of CUDA C compares two numbers at once.",
        "gluon": f"{_EDGES}.",
        "cutile": _SHORT,
        "cute": f"{_SHORT[:-1]}; {_PARTS}.",
        "helion": "Several programs take a row by two launches.",
        "cupy": "Problems of a few microseconds.",
        "numba": "Short rows that begin anywhere in vectors.",
    },
}
"""Of the worst points of a language: what its source and its machine code (``kernelzoo inspect``) show there."""
WORST = 4
INTRODUCTION = """\
What a language costs beside its kernels' speed. A dash: not measured yet.

- *score*: limit / time of `auto`, geometric mean over [the map]({map}/report.md), with the problems that it took.
- *bound*, *call*: the host's time to launch what is bound, and for a whole call of (64, 64) float32.
- *its own*: an empty kernel launched again and again, the fastest way that the language's own documentation shows
  (bench/test_submit.py names the page). CuTe has TVM FFI. Helion makes none, so its kernel writes a number a row.
- *first call*: of a layout, in the median over a dozen problems, with an empty cache of machine code and with a filled
  one, the import left out; and what the import takes.

Lines of a form are those of its own files, and of what these call on the GPU, wherever it stands. Python of other files
that plans and launches is left out, as are comments, docstrings and blank lines."""
WORST_POINTS = """\
Time of the fastest of these languages / its own, mean over the map, and where that is least:"""


def made(files: Sequence[Path]) -> str:
    """The page, a table of measurements and one of lines for each operation."""
    gpu = files[0].name.partition("-")[0]
    parts = ["# The languages side by side", INTRODUCTION.replace("{map}", f"{gpu}-map")]
    for op in OPS:
        parts += [f"## {op}", measurements(op, files).markdown(), lines_of(op).markdown()]
        parts += [WORST_POINTS, worst_points(op, files)]
    named = ", ".join(f"{file.name} ({measured_on(file)})" for file in files)
    return "\n\n".join([*parts, f"From {named}."]) + "\n"


def measured_on(file: Path) -> str:
    """The device of a record, and its day."""
    held = read_json(file)
    if "environment" in held:
        return f"{held['environment']['device']}, {held['started'][:10]}"
    return f"{held['benchmarks'][0]['extra_info']['device']}, {held['datetime'][:10]}"


def measurements(op: str, files: Sequence[Path]) -> Table:
    """A line for each language."""
    scores, submits, calls = _scores(op, files), _submits(op, files), _first_calls(op, files)
    lines = []
    for backend, name in NAMES.items():
        ways = [submits.get(f"{backend}/{op}/{way}", "-") for way in ("bound", "call")]
        ways.append(submits.get(f"{backend}/min/language", "-"))  # the same empty kernel for every operation
        firsts = calls.get(backend, ("-", "-", "-"))
        lines.append([Cell(text) for text in (name, scores.get(backend, "-"), *ways, *firsts)])
    headers = ["language", "score", "bound, us", "call, us", "its own, us", "first call, ms", "cache filled, ms"]
    return Table([*headers, "import, ms"], lines)


def _scores(op: str, files: Sequence[Path]) -> dict[str, str]:
    found: dict[str, str] = {}
    maps = [file for file in files if "-map-" in file.name]
    for group in load(maps).groups if maps else ():
        table = score.score_table(group, op)
        for name, mean, *_, problems in () if table is None else table.rows:
            backend, _, variant = name.text.partition("/")
            if variant.startswith("auto"):
                took, _, of = problems.text.partition(" of ")
                found[backend] = mean.text + ("" if took == of else f" ({problems.text})")
    return found


def worst_points(op: str, files: Sequence[Path]) -> str:
    """Each language beside the best of them on each problem of the map: the mean, the least shares, and why."""
    maps = [file for file in files if "-map-" in file.name]
    rows = [row for group in load(maps).groups for row in group.select(op).rows] if maps else []
    taken: dict[Problem, dict[str, float]] = {}
    for row in rows:
        if row.backend in NAMES and row.variant == "auto":
            taken.setdefault(row.problem, {})[row.backend] = row.seconds
    lines = []
    for backend, name in NAMES.items():
        shares = sorted((min(own.values()) / own[backend], p) for p, own in taken.items() if backend in own)
        if shares:
            least = ", ".join(f"{share:.2f} at {p.dtype} {p.shape}" for share, p in shares[:WORST])
            lines.append(
                f"- **{name}**: {geometric_mean(share for share, _ in shares):.2f}; {least}. {REASONS[op][backend]}"
            )
    return "\n".join(lines)


def _submits(op: str, files: Sequence[Path]) -> dict[str, str]:
    held = [entry for file in files if "-submit" in file.name for entry in read_json(file)["benchmarks"]]
    return {entry["extra_info"]["id"]: f"{entry['stats']['median'] * 1e6:.1f}" for entry in held}


def _first_calls(op: str, files: Sequence[Path]) -> dict[str, tuple[str, str, str]]:
    found: dict[str, tuple[str, str, str]] = {}
    for file in files:
        if "-first-call-" not in file.name:
            continue
        rows: list[dict[str, Any]] = [
            row for row in read_json(file)["rows"] if row["id"].split("/")[1] == op and row["outcome"] == "measured"
        ]
        if rows:
            middle = (f"{median(row[key] for row in rows):.0f}" for key in ("empty_ms", "stored_ms", "load_ms"))
            empty, stored, load_ms = middle
            found[rows[0]["id"].partition("/")[0]] = empty, stored, load_ms
    return found


def lines_of(op: str) -> Table:
    """A line for each form that two languages have at the least, a column for each language."""
    forms = {backend: _forms(backend, op) for backend in NAMES}
    names = dict.fromkeys(form for held in forms.values() for form in held)
    shared = [form for form in names if sum(form in held for held in forms.values()) > 1]
    lines = [
        [Cell(form), *(Cell(str(held[form]) if form in held else "-") for held in forms.values())] for form in shared
    ]
    return Table(["lines of", *NAMES.values()], lines)


def _forms(backend: str, op: str) -> dict[str, int]:
    """The lines of each form, as ``kernelzoo.report.lines`` counts them."""
    forms = (i for i in registry.implementations(backend, op) if not i.chooses)
    return {form.variant: lines for form in forms if (lines := lines_to_read(form.id))}
