"""Blocks of a document that are generated from results, between markers that name them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kernelzoo.errors import KernelZooError
from kernelzoo.files import printable, write_whole
from kernelzoo.report.results import ResultsError

MARKER = re.compile(r"^<!-- (?:results:(?P<name>\S+)|(?P<end>/results)) -->[ \t]*(?=\r?$)", re.MULTILINE)


def insert(document: str, text: Mapping[str, str], where: str) -> tuple[str, list[str]]:
    """Insert each block's text between its markers; returns the document and the names of changed blocks.

    A marker stands alone on its line. Raises ResultsError for markers without a pair, for a block that ``text`` lacks,
    and for a document without markers.
    """
    newline = "\r\n" if "\r\n" in document else "\n"
    parts: list[str] = []
    changed: list[str] = []
    copied, opened = 0, None
    for marker in MARKER.finditer(document):
        line = document.count("\n", 0, marker.start()) + 1
        if marker["end"]:
            if opened is None:
                raise ResultsError(f"{where}, line {line}: <!-- /results --> closes no block")
            fresh = f"\n{text[opened['name']]}\n".replace("\n", newline)
            if document[opened.end() : marker.start()] != fresh:
                changed.append(opened["name"])
            parts += [document[copied : opened.end()], fresh]
            copied, opened = marker.start(), None
        elif opened is not None:
            raise ResultsError(f"{where}, line {line}: close block {opened['name']!r} first, with <!-- /results -->")
        elif marker["name"] not in text:
            known = ", ".join(text)
            raise ResultsError(f"{where}, line {line}: the results hold no block {marker['name']!r}; known: {known}")
        else:
            opened = marker
    if opened is not None:
        raise ResultsError(f"{where}: close block {opened['name']!r} with <!-- /results --> on a line of its own")
    if not parts:
        raise ResultsError(
            f"{where} has no place for results; add <!-- results:summary --> and <!-- /results -->, on own lines"
        )
    return "".join([*parts, document[copied:]]), changed


def refreshed(path: Path, text: Mapping[str, str]) -> tuple[str, list[str]]:
    """A document with its blocks inserted, and the names of changed blocks. Nothing is written. Raises ResultsError."""
    try:
        document = path.read_bytes().decode()
    except OSError as error:
        raise ResultsError(f"can't read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ResultsError(f"{path} is not UTF-8 text: {error}") from error
    return insert(document, text, str(path))


def main(
    program: str, about: str, blocks: Callable[[list[Path]], Mapping[str, str]], argv: Sequence[str] | None
) -> int:
    """The command line of a module that makes blocks of files; returns the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.json", help="what a run wrote with -o")
    parser.add_argument("--insert", type=Path, metavar="FILE.md", help="put the blocks into this document")
    parser.add_argument("--check", action="store_true", help="write no document, but fail if it would change")
    options = parser.parse_args(argv)
    if options.check and options.insert is None:
        parser.error("--check needs --insert FILE.md, the file to check")
    try:
        made = blocks(options.files)
        if options.insert is None:
            print("\n\n".join(made.values()))
            return 0
        text, changed = refreshed(options.insert, made)
        if changed and options.check:
            print(f"{options.insert} is out of date: {', '.join(changed)}", file=sys.stderr)
            return 1
        write_whole(options.insert, text.encode())
    except (KernelZooError, OSError) as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0
