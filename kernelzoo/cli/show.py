"""``kernelzoo show``: an operation's plain form in each language, one below the other."""

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import typer

from kernelzoo import operations, packages, side_by_side
from kernelzoo.cli import options, output
from kernelzoo.cli.inspection import print_text
from kernelzoo.report.reading import load


def show(
    op: Annotated[
        str, typer.Argument(metavar="OP", help="The operation, such as rms_norm.", autocompletion=options.complete_ops)
    ],
    *,
    language: Annotated[
        list[str],
        options.repeated("--language", "NAME", "Languages, comma-separated or repeated: triton,cute. All by default."),
    ],
    results: Annotated[
        list[Path] | None, options.option("--results", "FILE.json", "Show the scores in this results file.")
    ] = None,
    markdown: Annotated[bool, options.flag("--markdown", "Print a page, with each kernel folded.")] = False,
    json: options.Json = False,
) -> int:
    """Show an operation's simplest kernel in each language: its source, its lines of code, and its score.

    The source is read, and no language needs to be installed. A score is the geometric mean, over the problems in
    --results, of the shortest possible time / the time. kernelzoo inspect --source prints any other implementation.

    Exit status: 0; 2 for an unknown name, or a file without results.
    """
    options.check_names("operation", [op], operations.OPERATIONS)
    chosen = options.split_words(language)
    options.check_names("language", chosen, packages.LANGUAGES)
    scores = _load_scores(op, results) if results else {}
    if markdown:
        print(side_by_side.format_comparison_page(op, scores), end="")
        return 0
    found = side_by_side.simplest_variants(op, chosen)
    if json:
        output.print_json({"operation": op, "forms": [_variant_json(name, one, scores) for name, one in found.items()]})
        return 0
    console = output.console()
    for name, form in found.items():
        title = packages.LANGUAGES[name]
        if form is None:
            console.print(f"{title}: has no {op} yet\n", style="dim")
            continue
        console.print(f"{title}: {form.id}, {side_by_side.describe_variant(form, scores)}", style="bold")
        console.print(form.summary)
        for kind, text in form.code:
            console.print()
            print_text(text, kind)
        console.print()
    return 0


def _variant_json(language: str, form: Any, scores: dict[str, float]) -> dict[str, Any]:
    if form is None:
        return {"language": language, "id": None}
    best = scores.get(f"{form.id.rpartition('/')[0]}/auto")
    facts = {"language": language, "id": form.id, "lines": form.lines, "score": scores.get(form.id), "best_score": best}
    return {**facts, "summary": form.summary, "code": [{"kind": kind, "text": text} for kind, text in form.code]}


def _load_scores(op: str, results: Sequence[Path]) -> dict[str, float]:
    """Return the score of each implementation of an operation, by id."""
    shares = dict[str, list[float]]()
    for row in (row for group in load(results).groups for row in group.rows):
        if row.op == op and row.of_limit:
            shares.setdefault(f"{row.backend}/{op}/{row.variant}", []).append(row.of_limit)
    return {id: geometric_mean(taken) for id, taken in shares.items()}
