"""Blocks of a document that are generated from results, between markers that name them."""

import re
from collections.abc import Mapping
from pathlib import Path

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
