"""Write a report to where it shall be: one page, or a folder of Markdown and figures."""

from __future__ import annotations

import re
from pathlib import Path

from kernelzoo.files import printable, write_whole
from kernelzoo.report import sections
from kernelzoo.report.results import Results, ResultsError


def is_page(path: Path) -> bool:
    return path.suffix.lower() in (".html", ".htm")


def write(
    results: Results, path: Path, *, against: Results | None = None, title: str = "Results", figures: bool = True
) -> str:
    """Write one self-contained page if ``path`` ends in .html, else ``path``/report.md and its figures.

    Says in words what was written. ``against`` are older results for the page to compare with; ``figures=False``
    leaves out those of report.md. Raises ResultsError if a package is missing that this takes, and OSError if
    something can't be written.
    """
    if is_page(path):
        try:
            from kernelzoo.report.page import write_page
        except ImportError as error:
            raise ResultsError(
                f"the page needs plotly and jinja2 ({error}); pip install 'kernelzoo[report]'"
            ) from error
        write_page(results, path, against=against, title=title)
        return f"{path} written; it holds everything and fetches nothing"
    path.mkdir(parents=True, exist_ok=True)
    drawn = _draw(results, path) if figures else {}
    document = path / "report.md"
    write_whole(document, sections.report(results, printable(title), drawn).encode())
    return f"{document} written" + (f"; figures beside it, as PNG and SVG: {len(drawn)}" if figures else "")


def _draw(results: Results, directory: Path) -> dict[tuple[str, str, str], str]:
    """Draw every figure into a folder; their names by label of the group, operation and dtype."""
    try:
        from kernelzoo.report import figure
    except ImportError as error:
        raise ResultsError(f"figures need matplotlib ({error}); pip install 'kernelzoo[report]'") from error
    drawn = {}
    for group, suffix in zip(results.groups, _suffixes(results), strict=True):
        if group.clock == "submit":  # a table says it all
            continue
        for op in group.operations():
            for dtype in group.dtypes(op):
                name = f"{op}-{dtype}{suffix}"
                figure.save(figure.draw(group, op, dtype), directory / name)
                drawn[group.label, op, dtype] = f"{name}.png"
    return drawn


def _suffixes(results: Results) -> list[str]:
    """What tells the figures of several groups apart; nothing if there is one."""
    if sum(group.clock != "submit" for group in results.groups) == 1:
        return [""] * len(results.groups)
    slugs = [re.sub(r"[^a-z0-9]+", "-", f"-{group.device}-{group.clock}".lower()) for group in results.groups]
    return [slug if slugs.count(slug) == 1 else f"{slug}-{i}" for i, slug in enumerate(slugs, start=1)]
