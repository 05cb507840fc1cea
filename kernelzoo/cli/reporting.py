"""``kernelzoo report``: results as tables, a page, a folder, or blocks in documents. Also ``kernelzoo merge``."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kernelzoo import terminal
from kernelzoo.cli import measuring, options, output
from kernelzoo.files import write_atomically
from kernelzoo.measure import record, shards
from kernelzoo.report.reading import NoTimesError, load
from kernelzoo.report.results import BASELINE

Shards = Annotated[list[Path], typer.Argument(metavar="SHARD.json", help="Files of kernelzoo bench --shard K/N.")]
Merged = Annotated[
    Path, options.option("-o --output", "FILE.json[.gz]", "The results file to write, or a page: FILE.html.")
]


def report(
    files: Annotated[list[Path], typer.Argument(metavar="RESULTS.json", help="Files that commands wrote with -o.")],
    *,
    to: Annotated[
        Path | None,
        options.option(
            "-o --output",
            "PATH",
            "NAME.html: write one page that holds everything; NAME: write the folder NAME with report.md and figures.",
        ),
    ] = None,
    against: Annotated[
        list[Path],
        options.repeated(
            "--against", "OLD.json", "Older results: the page, or --markdown, says what has changed; may be repeated."
        ),
    ],
    baseline: Annotated[
        str, options.option("--baseline", "BACKEND/VARIANT", f"What ratios are to; {BASELINE} by default.")
    ] = "",
    no_figures: Annotated[bool, options.flag("--no-figures", "Write report.md without figures.")] = False,
    title: Annotated[str, options.option("--title", "TITLE", "Heading of the report.")] = "Results",
    insert: Annotated[
        list[Path],
        options.repeated(
            "--insert",
            "FILE.md",
            "Fill the blocks between <!-- results:NAME --> and <!-- /results --> in this file; may be repeated.",
        ),
    ],
    check: Annotated[bool, options.flag("--check", "Write no --insert file, but fail if one would change.")] = False,
    csv: Annotated[bool, options.flag("--csv", "Print a line of CSV for each result instead.")] = False,
    markdown: Annotated[bool, options.flag("--markdown", "Print short tables for a pull request instead.")] = False,
    json: options.Json = False,
) -> int:
    """Show results files as tables on the terminal, as a page, as a folder with figures, or inside Markdown files.

    A table has the ratio of each time to that of the baseline. --insert puts tables between marks in a Markdown file.

    Exit status: 0; 1 if --check finds an --insert file that would change; 2 for bad usage, or an unreadable file.
    """
    from kernelzoo.report import cards, rows, sections, writing

    printed = [f"--{name}" for name, asked in (("csv", csv), ("json", json), ("markdown", markdown)) if asked]
    if len(printed) > 1:
        raise options.OptionError(f"{' and '.join(printed[:2])} are two documents: name one")
    if check and not insert:
        raise options.OptionError("--check needs --insert FILE.md, the file to check")
    if against and not markdown and (to is None or not writing.is_page(to)):
        raise options.OptionError("--against is for the page and --markdown: name one with -o PAGE.html")
    if to is not None:
        writing.check_output(to)
    try:
        results = load(files)
    except NoTimesError:
        if to or printed or baseline:
            raise
        return _report_check_records(files, insert, check)
    older = load(against) if against else None
    if baseline:
        results = results.relative_to(baseline)
    text = sections.document_blocks(results)
    text |= {"cards": beside} if (beside := cards.markdown(results)) else {}
    documents = {path: writing.refresh_document(path, text) for path in insert}  # nothing is written yet
    said = list[str]()
    if csv:
        print(rows.to_csv(rows.read(*files)), end="")
    elif markdown:
        from kernelzoo.report import pull_request  # it imports numpy, which other reports do without

        print(pull_request.markdown(results, older))
    elif not json:
        print(sections.terminal_text(results, terminal.width()))
    if to is not None:
        said.append(writing.write(results, to, against=older, title=title, figures=not no_figures))
    written, outdated = _write_changed(documents, check)
    said += written
    if json:
        output.print_json({**rows.document(results), "written": said, "outdated": outdated})
    elif said:
        print("", *said, sep="\n", file=sys.stderr if csv or markdown else sys.stdout)
    return 1 if outdated else 0


def _report_check_records(files: Sequence[Path], insert_into: Sequence[Path], dry_run: bool) -> int:
    """Print or insert tables of the records of ``kernelzoo fuzz`` and similar commands. Returns the exit status."""
    from kernelzoo.report import findings, writing

    text = findings.markdown_by_kind(files)
    documents = {path: writing.refresh_document(path, text) for path in insert_into}
    if not documents:
        print(findings.terminal_text(files, terminal.width()))
    said, outdated = _write_changed(documents, dry_run)
    print(*said, sep="\n", end="\n" * bool(said))
    return 1 if outdated else 0


def _write_changed(documents: Mapping[Path, tuple[str, list[str]]], check: bool) -> tuple[list[str], list[str]]:
    """Write the changed documents, unless ``check``. Returns a line for each written, and for each outdated one."""
    said, outdated = list[str](), list[str]()
    for path, (text, changed) in documents.items():
        if changed and check:
            outdated.append(f"{path} is out of date: {', '.join(changed)}; run again without --check")
        elif changed:
            write_atomically(path, text.encode())
            said.append(f"{path}: {', '.join(changed)} refreshed")
    for line in outdated:
        print(line, file=sys.stderr)
    return said, outdated


def merge(files: Shards, *, to: Merged, json: options.Json = False) -> int:
    """Merge the results of all shards of one sweep into one file, or files of several cards into one page.

    Every shard must be there once and complete. Duplicates, gaps and shards of different sweeps are refused. With -o
    FILE.html the files may be of any cards, which the page shows one by one.

    Exit status: 0; 2 for bad usage, or files that don't make a whole sweep.
    """
    if to.suffix == ".html":
        return report(files, to=to, against=[], insert=[], json=json)
    with measuring.reserve_file(to):
        try:
            document = shards.merge_shards(files)
        except shards.ShardError as error:
            if "is no shard" not in str(error) or len({group.device for group in load(files).groups}) < 2:
                raise
            command = shlex.join(["kernelzoo", "merge", *map(str, files), "-o", "cards.html"])
            raise shards.ShardError(f"{error}; to lay several cards side by side: {command}") from None
        record.write(to, document)
    results = len(document["benchmarks"])
    if json:
        output.print_json({"file": str(to), "shards": len(files), "results": results})
    else:
        output.console().print(f"{results} results of {len(files)} shards in {to}")
    return 0
