"""``python -m kernelzoo.report RESULTS.json... [-o PAGE.html | -o FOLDER] [--insert FILE]``: a report of results."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from kernelzoo import terminal
from kernelzoo.errors import KernelZooError
from kernelzoo.files import printable, write_whole
from kernelzoo.report import cards, data, findings, markers, rows, sections, writing
from kernelzoo.report.reading import NoTimesError, load
from kernelzoo.report.results import BASELINE

OUTDATED, FAILED = 1, 2
"""Exit statuses: ``--check`` found an outdated document; bad usage, or no report could be made."""


def main(argv: Sequence[str] | None = None, program: str = "python -m kernelzoo.report") -> int:
    """Make a report; the exit status. Bad usage raises SystemExit."""
    options = _parsed(list(sys.argv[1:] if argv is None else argv), program)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a device's name may have characters that the terminal lacks
    try:
        return _report(options)
    except KernelZooError as error:
        return _refuse(printable(str(error)), options.json)
    except OSError as error:
        return _refuse(printable(f"can't write {error.filename or 'the output'}: {error.strerror}"), options.json)


def _report(options: argparse.Namespace) -> int:
    if options.output is not None:
        writing.check_output(options.output)
    try:
        results = load(options.results)
    except NoTimesError:
        if any((options.output, options.csv, options.json, options.markdown, options.baseline)):
            raise
        return _report_checks(options)
    against = load(options.against) if options.against else None
    if options.baseline:
        results = results.relative_to(options.baseline)
    text = sections.blocks(results)
    text |= {"cards": beside} if (beside := cards.markdown(results)) else {}
    documents = _refreshed(text, options.insert)
    said = list[str]()
    if options.csv:
        print(rows.to_csv(rows.read(*options.results)), end="")
    elif options.markdown:
        from kernelzoo.report import pull_request  # it imports numpy, which other reports do without

        print(pull_request.markdown(results, against))
    elif not options.json:
        print(sections.terminal(results, terminal.width()))
    if options.output is not None:
        figures = not options.no_figures
        said.append(writing.write(results, options.output, against=against, title=options.title, figures=figures))
    refreshed, outdated = _written(documents, options.check)
    said += refreshed
    if options.json:
        print(json.dumps({**data.document(results), "written": said, "outdated": outdated}, indent=1))
    elif said:
        print("", *said, sep="\n", file=sys.stderr if options.csv or options.markdown else sys.stdout)
    return OUTDATED if outdated else 0


def _refuse(words: str, json_too: bool) -> int:
    print(f"error: {words}", file=sys.stderr)
    if json_too:
        print(json.dumps({"error": words}))
    return FAILED


def _parsed(arguments: Sequence[str], program: str) -> argparse.Namespace:
    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise SystemExit(_refuse(f"{message}; see {program} --help", "--json" in arguments))

    parser = Parser(
        prog=program,
        description=f"Print what results files hold: the ratio of each time to that of a baseline ({BASELINE}). Write "
        "it as a page or a folder, or refresh blocks in documents.",
    )
    parser.add_argument("results", nargs="+", metavar="RESULTS.json", help="files that commands wrote with -o")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PATH",
        help="NAME.html: write one page that holds everything; NAME: write the folder NAME with report.md and figures",
    )
    parser.add_argument(
        "--against",
        type=Path,
        action="append",
        default=[],
        metavar="OLD.json",
        help="older results: the page, or --markdown, says what has changed since; may be repeated",
    )
    parser.add_argument("--baseline", metavar="BACKEND/VARIANT", help=f"what ratios are to (default: {BASELINE})")
    parser.add_argument("--no-figures", action="store_true", help="write report.md without figures")
    parser.add_argument("--title", default="Results", help="heading of the report (default: %(default)s)")
    parser.add_argument(
        "--insert",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.md",
        help="fill the blocks between <!-- results:NAME --> and <!-- /results --> in this file; may be repeated",
    )
    parser.add_argument("--check", action="store_true", help="write no --insert file, but fail if one would change")
    parser.add_argument("--json", action="store_true", help="print all of it as one JSON document instead")
    parser.add_argument("--csv", action="store_true", help="print a line of CSV for each result instead")
    parser.add_argument("--markdown", action="store_true", help="print short tables for a pull request instead")
    options = parser.parse_args(arguments)
    documents = [f"--{name}" for name in ("csv", "json", "markdown") if getattr(options, name)]
    if len(documents) > 1:
        parser.error(f"{' and '.join(documents[:2])} are two documents: name one")
    if options.check and not options.insert:
        parser.error("--check needs --insert FILE.md, the file to check")
    if options.against and not options.markdown and (options.output is None or not writing.is_page(options.output)):
        parser.error("--against is for the page and --markdown: name one with -o PAGE.html")
    return options


def _report_checks(options: argparse.Namespace) -> int:
    """Print records of checks as tables, or put them into documents."""
    documents = _refreshed(findings.blocks(options.results), options.insert)
    if not documents:
        print(findings.terminal(options.results, terminal.width()))
    said, outdated = _written(documents, options.check)
    print(*said, sep="\n", end="\n" * bool(said))
    return OUTDATED if outdated else 0


def _refreshed(text: Mapping[str, str], paths: Sequence[Path]) -> dict[Path, tuple[str, list[str]]]:
    """Every document with its blocks filled, and the names of changed blocks. Nothing is written yet."""
    return {path: markers.refreshed(path, text) for path in paths}


def _written(documents: Mapping[Path, tuple[str, list[str]]], check: bool) -> tuple[list[str], list[str]]:
    """Write the documents that change, or only tell them. Returns what was written, and what is out of date."""
    said, outdated = list[str](), list[str]()
    for path, (text, changed) in documents.items():
        if changed and check:
            outdated.append(f"{path} is out of date: {', '.join(changed)}; run again without --check")
        elif changed:
            write_whole(path, text.encode())
            said.append(f"{path}: {', '.join(changed)} refreshed")
    for line in outdated:
        print(line, file=sys.stderr)
    return said, outdated


if __name__ == "__main__":
    sys.exit(main())
