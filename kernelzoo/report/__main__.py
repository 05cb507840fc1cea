"""``python -m kernelzoo.report RESULTS.json... [-o PAGE.html | -o DIR] [--insert FILE]``: the report of results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelzoo.errors import KernelZooError
from kernelzoo.files import printable, write_whole
from kernelzoo.report import markers, sections, writing
from kernelzoo.report.reading import load
from kernelzoo.report.results import BASELINE, Results, ResultsError

OUTDATED, FAILED = 1, 2
"""Exit statuses: ``--check`` found a document that would change; the report could not be made."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m kernelzoo.report",
        description="Print the ratios of benchmark results to a baseline; write them as a report or into documents.",
    )
    parser.add_argument("results", nargs="+", metavar="RESULTS.json", help="what the benches' --benchmark-json wrote")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PATH",
        help="write one page with everything in it if this ends in .html, else PATH/report.md and its figures",
    )
    parser.add_argument(
        "--against",
        type=Path,
        action="append",
        default=[],
        metavar="OLD.json",
        help="older results, for the page to say what changed since; may be repeated",
    )
    parser.add_argument("--baseline", metavar="BACKEND/VARIANT", help=f"what ratios are taken to (default: {BASELINE})")
    parser.add_argument("--variant", default="", help="comma-separated variants to show (default: all)")
    parser.add_argument("--no-figures", action="store_true", help="of report.md, write the tables alone")
    parser.add_argument("--title", default="Results", help="heading of the report")
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
    if options.against and (options.output is None or not writing.is_page(options.output)):
        parser.error("--against is for the page: name one with -o PAGE.html")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a device's name may hold what the terminal can't show
    try:
        results = load(options.results)
        against = load(options.against) if options.against else None
        if options.variant:
            variants = tuple(options.variant.split(","))
            results = results.only(variants)
            against = against and against.only(tuple(variant for variant in variants if variant in against.variants))
        if options.baseline:
            results = results.relative_to(options.baseline)
        documents = _refreshed(results, options.insert)
        print(sections.terminal(results))
        if options.output is not None:
            written = writing.write(
                results, options.output, against=against, title=options.title, figures=not options.no_figures
            )
            print(f"\n{written}")
        outdated = False
        for path, (text, changed) in documents.items():
            if not changed:
                continue
            if options.check:
                outdated = True
                print(f"{path} is out of date: {', '.join(changed)}; run again without --check", file=sys.stderr)
            else:
                write_whole(path, text.encode())
                print(f"{path}: {', '.join(changed)} refreshed")
    except KernelZooError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(printable(f"error: can't write {error.filename or 'the output'}: {error.strerror}"), file=sys.stderr)
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
        documents[path] = markers.insert(document, text, str(path))
    return documents


if __name__ == "__main__":
    sys.exit(main())
