"""Loads every definition and solution of other people's problem sets, and prints how many load and why others don't.

``python bench/other_sets.py FOLDER ...`` looks for JSON files below each folder. A definition is loaded, which runs its
code. Of a solution only the file is read, unless ``--build`` is given. With ``--run SECONDS`` each reference is also
judged by its own definition, on the smallest sizes that its constraints allow.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelzoo import definitions
from kernelzoo.definitions.files import DefinitionError, read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--names", action="store_true", help="name the files that are refused")
    given = parser.parse_args()
    for folder in given.folders:
        print(f"{folder}:")
        for kind, load in (("definition", definitions.load_definition), ("solution", read)):
            report(kind, tuple(files(folder, kind)), load, given.names)


def files(folder: Path, kind: str) -> Iterator[Path]:
    """The files of a kind below a folder, each definition's name once."""
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


def kind_of(data: dict[str, Any]) -> str:
    if "sources" in data:
        return "solution"
    return "definition" if {"axes", "inputs", "outputs", "reference"} <= {*data} else ""


def report(kind: str, paths: tuple[Path, ...], load: Any, names: bool) -> None:
    refused = defaultdict[str, list[Path]](list)
    for path in paths:
        try:
            load(path)
        except DefinitionError as error:
            refused[reason(str(error), path)].append(path)
        except Exception as error:
            refused[f"FAILS: {type(error).__name__}: {error}"].append(path)
    count = Counter({why: len(some) for why, some in refused.items()})
    print(f"  {len(paths)} {kind}s: {len(paths) - count.total()} load, {count.total()} refused")
    for why, number in count.most_common():
        print(f"    {number:4} {why}")
        for path in refused[why] if names else ():
            print(f"           {path}")


def reason(words: str, path: Path) -> str:
    """A refusal without what differs between files: their names, and the names of inputs."""
    words = words.replace(str(path), "").lstrip(" :,")
    return re.sub(r"'\w+'", "'…'", words)[:160]


if __name__ == "__main__":
    main()
