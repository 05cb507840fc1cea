"""Output of a report: one page, a folder with Markdown and figures, or blocks of documents between markers."""

import re
from collections.abc import Mapping
from pathlib import Path

from kernelzoo.files import check_parent_folder, printable, write_atomically
from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.report import sections
from kernelzoo.report.results import Results, ResultsError

MARKER = re.compile(r"^<!-- (?:results:(?P<name>\S+)|(?P<end>/results)) -->[ \t]*(?=\r?$)", re.MULTILINE)


def is_page(path: Path) -> bool:
    return path.suffix.lower() in (".html", ".htm")


def check_output(path: Path) -> None:
    """Raise ResultsError if the path names no page or folder, FileError if its parent folder does not exist."""
    check_parent_folder(path)
    if path.is_dir() or is_page(path):
        return
    if re.fullmatch(r"\.[A-Za-z]\w*", path.suffix) or path.exists():
        raise ResultsError(
            f"can't write a report to {str(path)!r}: name a page, NAME.html, or a folder, which then holds report.md "
            "and its figures"
        )


def write(
    results: Results, path: Path, *, against: Results | None = None, title: str = "Results", figures: bool = True
) -> str:
    """Write one self-contained page if ``path`` ends in .html, else ``path``/report.md and its figures.

    Returns a sentence that says what was written. ``against``: older results for the page to compare. Raises
    ResultsError for another kind of path or a missing package, OSError if something can't be written.
    """
    check_output(path)
    if is_page(path):
        try:
            from kernelzoo.report.page import write_page
        except ImportError as error:
            raise ResultsError(f"the page needs jinja2 ({error}); pip install 'kernelzoo[report]'") from error
        write_page(results, path, against=against, title=title)
        return f"{path} written: one page, no network needed"
    path.mkdir(exist_ok=True)
    drawn = _draw_figures(results, path) if figures else {}
    document = path / "report.md"
    write_atomically(document, sections.report(results, printable(title), drawn).encode())
    return f"{document} written" + (f"; figures beside it, as PNG and SVG: {len(drawn)}" if figures else "")


def _draw_figures(results: Results, directory: Path) -> dict[tuple[str, str, str], str]:
    """Draw every figure into a folder. Returns each figure's file name by group label, operation and dtype."""
    try:
        from kernelzoo.report import figure
    except ImportError as error:
        raise ResultsError(f"figures need matplotlib ({error}); pip install 'kernelzoo[report]'") from error
    drawn = {}
    alone = sum(group.clock not in OF_CALLS for group in results.groups) == 1
    for group, slug in zip(results.groups, results.slugs(), strict=True):
        if group.clock in OF_CALLS:  # a table is enough
            continue
        for op in group.operations():
            for dtype in group.dtypes(op):
                name = f"{op}-{dtype}" if alone else f"{op}-{dtype}-{slug}"
                figure.save(figure.draw(group, op, dtype), directory / name)
                drawn[group.label, op, dtype] = f"{name}.png"
    return drawn


def insert(document: str, text: Mapping[str, str], where: str) -> tuple[str, list[str]]:
    """Insert each block's text between its markers. Returns the document and the names of changed blocks.

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


def refresh_document(path: Path, text: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a document with its blocks inserted, and the names of changed blocks. Raises ResultsError."""
    try:
        document = path.read_bytes().decode()
    except OSError as error:
        raise ResultsError(f"can't read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ResultsError(f"{path} is not UTF-8 text: {error}") from error
    return insert(document, text, str(path))
