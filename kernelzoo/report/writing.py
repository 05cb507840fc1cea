"""Writes a report: one page, or a folder with Markdown and figures."""

import re
from pathlib import Path

from kernelzoo.files import check_folder, printable, write_whole
from kernelzoo.measure.measurement import OF_CALLS
from kernelzoo.report import sections
from kernelzoo.report.results import Results, ResultsError


def is_page(path: Path) -> bool:
    return path.suffix.lower() in (".html", ".htm")


def check_output(path: Path) -> None:
    """Raise ResultsError for what is no page or folder, FileError if its place does not exist."""
    check_folder(path)
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
    drawn = _draw(results, path) if figures else {}
    document = path / "report.md"
    write_whole(document, sections.report(results, printable(title), drawn).encode())
    return f"{document} written" + (f"; figures beside it, as PNG and SVG: {len(drawn)}" if figures else "")


def _draw(results: Results, directory: Path) -> dict[tuple[str, str, str], str]:
    """Draw every figure into a folder; returns their names by label, operation and dtype."""
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
