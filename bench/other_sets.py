"""Loads every definition and solution of other people's problem sets, and prints how many load and why others don't.

``python bench/other_sets.py FOLDER ...`` looks for JSON files below each folder. A definition is loaded, which runs its
code. Of a solution only the file is read. ``bench/references.py`` runs the references too.

``python bench/other_sets.py CLONE --history -o FOLDER`` writes every definition that a git repository ever had, on any
branch: of each name the newest version. flashinfer-bench has removed most of its own.

``python bench/other_sets.py VERDICTS.json ... --record FILE.md`` writes what ``kernelzoo compare --definitions`` found
of solutions: how many are wrong and by what kind, each with its case, and how their speed compares with what is
published. A page that is there gets it between its markers.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelzoo import definitions
from kernelzoo.cli import verdicts
from kernelzoo.definitions.files import DefinitionError, read
from kernelzoo.files import read_json
from kernelzoo.report import writing

EMPTY = "# Verdicts on public solutions\n\n<!-- results:verdicts -->\n<!-- /results -->\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--record", type=Path, metavar="FILE.md", help="write the verdicts of results files")
    parser.add_argument("--names", action="store_true", help="name the files that are refused")
    parser.add_argument("--history", action="store_true", help="the folder is a git repository: write its definitions")
    parser.add_argument("-o", dest="to", type=Path, default=Path("out/history"), help="where --history writes")
    given = parser.parse_args()
    if given.history:
        print(f"{sum(extract(clone, given.to) for clone in given.folders)} definitions in {given.to}")
        return
    if given.record:
        there, made = given.record, recorded(given.folders)
        page = there.read_text(encoding="utf-8") if there.exists() else EMPTY
        there.write_text(writing.insert(page, {"verdicts": made}, str(there))[0], encoding="utf-8")
        return
    signal.signal(signal.SIGALRM, _late)
    for folder in given.folders:
        print(f"{folder}:")
        for kind, load in LOADS.items():
            if paths := tuple(files(folder, kind)):
                report(kind, paths, load, given.names)


class LateError(BaseException):
    """The time is over; no function of an operation takes it for its own failure."""


def _late(number: int, frame: object) -> None:
    raise LateError


_MOST = 30
"""Seconds that a file may take to load."""

LOADS = {
    "definition": definitions.load_definition,
    "solution": read,
    "problem": definitions.load_problem,
    "folder": definitions.load_task_folder,
}
"""What loads each kind of file. A problem is a Python file of KernelBench, a folder one of gpu-mode."""


def files(folder: Path, kind: str) -> Iterator[Path]:
    """The files of a kind below a folder, each definition's name once."""
    if kind == "folder":
        yield from (path.parent for path in sorted(folder.rglob("task.yml")) if definitions.is_task_folder(path.parent))
        return
    if kind == "problem":
        yield from (path for path in sorted(folder.rglob("*.py")) if definitions.is_problem(path))
        return
    seen = set[str]()
    for path in sorted(folder.rglob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if not isinstance(data, dict) or kind != kind_of(data):
            continue
        name = str(data.get("name", path))
        if kind == "definition" and name in seen:
            continue
        seen.add(name)
        yield path


def extract(clone: Path, to: Path) -> int:
    """Write the newest version of each definition in a repository's history; return how many there are."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(clone), *words], check=True, capture_output=True, text=True).stdout

    newest = dict[str, tuple[str, str]]()
    for line in git("log", "--all", "--format=", "--raw", "--no-abbrev", "--no-renames", "--", "*.json").splitlines():
        facts, _, path = line.partition("\t")
        blob = facts.split()[3]
        if "definitions/" in path and blob.strip("0"):
            newest.setdefault(Path(path).name, (path, blob))
    count = 0
    for path, blob in newest.values():
        text = git("cat-file", "blob", blob)
        if isinstance(data := json.loads(text), dict) and kind_of(data) == "definition":
            (to / path).parent.mkdir(parents=True, exist_ok=True)
            (to / path).write_text(text, encoding="utf-8")
            count += 1
    return count


def kind_of(data: dict[str, Any]) -> str:
    if "sources" in data:
        return "solution"
    return "definition" if {"axes", "inputs", "outputs", "reference"} <= {*data} else ""


def report(kind: str, paths: tuple[Path, ...], load: Any, names: bool) -> None:
    refused = defaultdict[str, list[Path]](list)
    for path in paths:
        signal.alarm(_MOST)
        try:
            load(path)
        except LateError:
            refused[f"takes more than {_MOST} seconds to load here"].append(path)
        except DefinitionError as error:
            refused[reason(str(error), path)].append(path)
        except Exception as error:
            refused[f"FAILS: {type(error).__name__}: {error}"].append(path)
        finally:
            signal.alarm(0)
    count = Counter({why: len(some) for why, some in refused.items()})
    print(f"  {len(paths)} {kind}s: {len(paths) - count.total()} load, {count.total()} do not")
    for why, number in count.most_common():
        print(f"    {number:4} {why}")
        for path in refused[why] if names else ():
            print(f"           {path}")


def recorded(paths: list[Path]) -> str:
    """The verdicts in results files as Markdown."""
    documents = [read_json(path) for path in paths]
    found = [one for document in documents for one in document["kernelzoo"].get("verdicts", ())]
    latest = list({(one["definition"], one["file"]): one for one in found}.values())
    devices = dict.fromkeys(str(document["machine_info"].get("device")) for document in documents)
    kinds = Counter((one["verdict"], one["kind"]) for one in latest if one["verdict"] != "right")
    lines = [f"On {', '.join(devices)}: {verdicts.tally_text(latest)}.", ""]
    lines += ["| verdict | kind | solutions |", "|:--|:--|--:|"]
    lines += [f"| {verdict} | {kind} | {number} |" for (verdict, kind), number in kinds.most_common()]
    for verdict in ("wrong", "undecidable", "refused"):
        some = sorted((one for one in latest if one["verdict"] == verdict), key=lambda one: one["definition"])
        lines += ["", f"## {verdict.capitalize()}", ""] if some else []
        lines += [f"- `{one['definition']}`: {verdicts.verdict_text(one)}{_whose(one)}" for one in some]
    right = sorted((one for one in latest if one["verdict"] == "right"), key=lambda one: one["definition"])
    lines += ["", "## Right", "", "| definition | solution | µs | speedup | published |", "|:--|:--|--:|--:|--:|"]
    for one in right:
        ratio, stated, us = one["ratio"], one["published_speedup"], one["median_us"]
        figures = (f"{x:.3g}" if x else "" for x in (us, ratio and 1 / ratio, stated))
        lines.append(f"| {one['definition']} | {one['solution']} | {' | '.join(figures)} |")
    return "\n".join(lines)


def _whose(one: dict[str, Any]) -> str:
    link = f", {one['link']}" if one.get("link") else ""
    return f" ({one['solution']}, by {one['author']}{link})" if one.get("author") else f" ({one['file']})"


def reason(words: str, path: Path) -> str:
    """A refusal without what differs between files: their names, and the names of inputs."""
    words = words.replace(str(path), "").lstrip(" :,")
    return re.sub(r"'\w+'", "'…'", words)[:160]


if __name__ == "__main__":
    main()
