"""``kernelzoo compare``: a few implementations on a few problems in detail, also against an older results file."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelzoo.cli import against as older
from kernelzoo.cli import commits, comparing, folder, measuring, options, output
from kernelzoo.cli import rows as rows_of
from kernelzoo.cli.against import RowChange
from kernelzoo.cli.bench import Resume

Output = Annotated[Path | None, options.option("-o --output", "FILE.json[.gz]", "Write the results to this file.")]


def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Ids, globs of ids or, with --op: backend/variant, or backend for its variant auto."
            " Without one, all that --module adds.",
        ),
    ] = None,
    *,
    op: options.Ops,
    shape: options.Shapes,
    axes: options.Axes,
    workload: options.Workloads,
    dtype: options.Dtypes,
    dim: options.Dim = -1,
    baseline: Annotated[
        str,
        options.option("--baseline", "ID", "The implementation that ratios are to; by default torch's own function."),
    ] = "",
    against: Annotated[
        Path | None, options.option("--against", "FILE", "An older results file of this device to compare with.")
    ] = None,
    against_commit: Annotated[
        str, options.option("--against-commit", "COMMIT", "A commit in git to measure too, and compare with.")
    ] = "",
    allowed: Annotated[str, options.option("--allowed", "SHARE", "The slowdown that --against allows.")] = "5%",
    module: options.Modules,
    device: options.Device = "",
    rounds: options.Rounds = 15,
    cache: options.Cache = "cold",
    clock: options.Clock = "device",
    energy: options.Energy = False,
    cross_check: options.CrossCheck = False,
    patience: options.Patience = 180.0,
    waive: options.Waive,
    their_tolerance: options.TheirTolerance = False,
    definitions: Annotated[
        Path | None,
        options.option(
            "--definitions",
            "FOLDER",
            "A folder of flashinfer-bench's or SOL-ExecBench's definitions, KernelBench's or gpu-mode's problems.",
        ),
    ] = None,
    solutions: Annotated[
        Path | None, options.option("--solutions", "FOLDER", "A folder of solutions of these, to judge all.")
    ] = None,
    gpus: options.Gpus = "",
    to: Output = None,
    resume: Resume = False,
    json: options.Json = False,
) -> int:
    """Compare implementations on one or a few problems: times, ratios to a baseline, intervals and verdicts.

    The baseline is what a user would call without kernelzoo; it is measured too. The verdicts FASTER, SLOWER (by more
    than 1 %) and SAME (within 1 %) have 95 % confidence. The verdict is UNCLEAR if even four times --rounds can't tell.
    By default the shape is 4096x4096 and the dtype float32. With --against, each row is compared with the file's row of
    the same problem, device, clock and cache. --against-commit compares with a commit, which is measured before and
    after. The commit is of the repository of --module's file, or else of kernelzoo itself.

    A definition states a problem and a reference program; a solution is a kernel for it. With --definitions and
    --solutions, each solution gets a verdict: right, wrong, undecidable or refused. It is judged on at most ten
    workloads, and timed on three, with the reference, in at most 7 rounds. --resume continues the file.

    Exit status: 0; 1 if a row is wrong or failed, or slower than --against by more than --allowed; 2 for bad usage, if
    nothing could be measured, or if --against can't be judged.
    """
    options.use_definition_tolerances(their_tolerance)
    how = measuring.MeasuringOptions(rounds, cache, clock, cross_check, "compare", energy)
    if definitions or solutions or resume or gpus:
        if definitions is None or solutions is None:
            raise options.OptionError("--definitions, --solutions, --resume and --gpus need both folders")
        others = op, shape, axes, workload, dtype, baseline, against, against_commit, module, energy, waive
        if names or any(others):
            raise options.OptionError("--definitions and --solutions say what is compared; leave out what else does")
        judged = folder.JudgingOptions(definitions, solutions, device, patience, rounds, how.cache)
        return folder.judge_solution_folder(judged, gpus, to, resume=resume, json=json)
    if against and against_commit:
        raise options.OptionError("--against and --against-commit are two ways to say what is older; give one")
    limit = older.parse_percent_or_fraction(allowed)
    old = older.OldResults(against) if against else None
    console = output.console()
    tables = rows_of.Tables(full=True)
    request = comparing.ComparisonRequest(
        names or [],
        ops=options.split_words(op),
        shapes=shape,
        axes=axes,
        workloads=workload,
        dtypes=options.split_words(dtype),
        dim=dim,
        baseline=baseline,
        modules=module,
        waive=options.split_words(waive),
        device=device,
        patience=patience,
    )
    with commits.checkout(against_commit, module) if against_commit else nullcontext() as then:
        first = then.measure("first", request, how) if then else None
        told = comparing.measure_comparison(request, how, to=to, show=None if json else tables.show)
        if then and first and told.whole:
            old = older.OldResults(first, then.measure("again", request, how), name="commit")
    about, described, kind = told.about, told.problems, "commit" if then else "file"
    name, compared = then.name if then else str(against), told.compare_with(old, limit) if old else None
    if json:
        output.print_json(
            {
                "device": about.device,
                "device_name": about.device_name,
                "versions": about.versions,
                "file": str(to) if to else None,
                "problems": described,
                **({} if told.whole else {"interrupted": True}),
                "against": {kind: name, "allowed": limit, "rows": [asdict(one) for one in compared]}
                if compared is not None
                else None,
            }
        )
    else:
        rows_of.print_without_result(described)
        if compared is not None:
            console.print(f"against {name}, {limit:.1%} slower allowed", style="bold")
            output.show(console, _table(compared, kind))
    if not told.whole:
        return output.report_interruption(f"{len(described)} of {told.planned} problems", to)
    return _status([row for one in described for row in one["rows"] if row["id"] in told.asked], compared)


def _status(rows: Sequence[dict[str, Any]], compared: Sequence[RowChange] | None) -> int:
    outcomes = [row["outcome"] for row in rows]
    if "wrong" in outcomes or "failed" in outcomes or any(one.slower for one in compared or ()):
        return 1
    if "measured" not in outcomes:
        return 2
    return 2 if compared is not None and any(one.refusal for one in compared) else 0


def _table(compared: Sequence[RowChange], old: str = "file") -> output.Table:
    titles = "implementation", "problem", f">time / {old}'s", ">95 % interval", "verdict"
    made = output.make_table(*titles, optional=("95 % interval",))
    for one in compared:
        interval = output.format_interval(*one.interval).strip() if one.interval else ""
        style = "red" if one.slower else None
        made.add_row(one.id, one.problem, output.number(one.ratio), interval, one.words, style=style)
    return made
