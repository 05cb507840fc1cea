"""``python -m kernelzoo.report RESULTS.json... [-o DIR] [--insert FILE]``: the report of measured results."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelzoo.errors import KernelZooError
from kernelzoo.report import sections
from kernelzoo.report.results import Results, ResultsError, load, printable

OUTDATED, FAILED = 1, 2
"""Exit statuses: ``--check`` found a document that would change; the report could not be made."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m kernelzoo.report",
        description="Print the ratios to torch of benchmark results, and write them as a report or into documents.",
    )
    parser.add_argument("results", nargs="+", metavar="RESULTS.json", help="what the benches' --benchmark-json wrote")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write DIR/report.md and its figures")
    parser.add_argument("--variant", default="", help="comma-separated variants to show (default: all)")
    parser.add_argument("--no-figures", action="store_true", help="write the tables alone")
    parser.add_argument("--title", default="Results", help="heading of report.md")
    parser.add_argument(
        "--insert",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.md",
        help="replace what stands between <!-- results:NAME --> and <!-- /results --> in this file; may be repeated",
    )
    parser.add_argument("--check", action="store_true", help="write no --insert file, but fail if one would change")
    options = parser.parse_args(argv)
    if options.check and not options.insert:
        parser.error("--check needs --insert FILE.md, the file to check")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a device's name may hold what the terminal can't show
    try:
        results = load(options.results)
        if options.variant:
            results = results.only(tuple(options.variant.split(",")))
        documents = _refreshed(results, options.insert)
        print(sections.terminal(results))
        if options.output is not None:
            _write(results, printable(options.title), options.output, figures=not options.no_figures)
        outdated = False
        for path, (text, changed) in documents.items():
            if not changed:
                continue
            if options.check:
                outdated = True
                print(f"{path} is out of date: {', '.join(changed)}; run again without --check", file=sys.stderr)
            else:
                path.write_text(text, encoding="utf-8", newline="")
                print(f"{path}: {', '.join(changed)} refreshed")
    except KernelZooError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"error: can't write {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
        return FAILED
    return OUTDATED if outdated else 0


def _refreshed(results: Results, paths: Sequence[Path]) -> dict[Path, tuple[str, list[str]]]:
    """Every document with its blocks filled, and the names of those that changed; nothing is written yet."""
    text = sections.blocks(results)
    documents = {}
    for path in paths:
        try:
            document = path.read_bytes().decode("utf-8")
        except OSError as error:
            raise ResultsError(f"can't read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ResultsError(f"{path} is not UTF-8 text: {error}") from error
        documents[path] = sections.insert(document, text, str(path))
    return documents


def _write(results: Results, title: str, directory: Path, figures: bool) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    drawn = _draw(results, directory) if figures else {}
    path = directory / "report.md"
    path.write_text(sections.report(results, title, drawn), encoding="utf-8", newline="\n")
    print(f"\n{path} written" + (f"; figures beside it, as PNG and SVG: {len(drawn)}" if figures else ""))


def _draw(results: Results, directory: Path) -> dict[tuple[str, str, str, str], str]:
    """Draw every figure into a folder; their names by device, clock, operation and dtype."""
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
                drawn[group.device, group.clock, op, dtype] = f"{name}.png"
    return drawn


def _suffixes(results: Results) -> list[str]:
    """What tells the figures of several groups apart; nothing if there is one."""
    if sum(group.clock != "submit" for group in results.groups) == 1:
        return [""] * len(results.groups)
    slugs = [re.sub(r"[^a-z0-9]+", "-", f"-{group.device}-{group.clock}".lower()) for group in results.groups]
    return [slug if slugs.count(slug) == 1 else f"{slug}-{i}" for i, slug in enumerate(slugs, start=1)]


if __name__ == "__main__":
    sys.exit(main())
