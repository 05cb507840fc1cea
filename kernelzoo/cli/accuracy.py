"""``kernelzoo accuracy``: the error of each implementation, in units in the last place."""

import math
import secrets
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from kernelzoo import operations
from kernelzoo.check import accuracy as engine
from kernelzoo.cli import guards as processes
from kernelzoo.cli import options, output, recording
from kernelzoo.cli.progress import Bar
from kernelzoo.measure.guard import Guard


def accuracy(
    *,
    ids: options.Ids = None,
    values: Annotated[
        str, options.option("--values", "N", "Values for each implementation and dtype, such as 1e8.")
    ] = "1e6",
    seed: options.Seed = None,
    jobs: options.Jobs = 0,
    module: options.Modules,
    backend: options.Backends,
    op: options.Ops,
    variant: options.Variants,
    dtype: options.Dtypes,
    device: options.Device = "",
    gpus: options.Gpus = "",
    patience: options.Patience = 180.0,
    to: options.RunRecord = None,
    json: options.Json = False,
) -> int:
    """Measure the error of every element, in units in the last place (ulp), on random and hard values.

    The reference is computed in float64, and for float64 in double-double arithmetic. torch's own function is measured
    too, for comparison. Each problem runs twice and must give the same bits. A minimum must be exact.

    Exit status: 0; 1 if an error is larger than the contract allows, a minimum is wrong, bits differ, or a kernel
    fails; 2 for an unknown name, or if nothing could be measured.
    """
    recording.check_output(to)
    count = _parse_count(values)
    run = recording.Recording("kernelzoo-accuracy/1")
    seed = secrets.randbits(32) if seed is None else seed
    asked = (ids or (), options.split_words(op), options.split_words(backend), options.split_words(variant))
    options.select_ids_before_modules(module, *asked)
    rows: list[dict[str, Any]] = []
    with Bar() as bar, processes.open_processes_for_ids(module, device, gpus, patience, *asked) as (guards, chosen):
        tasks = _group_into_tasks(chosen, options.split_words(dtype))
        bar.set_total(len(tasks), len(tasks))
        done, whole = 0, True

        def measure_errors(guard: Guard, task: Task) -> Iterator[list[dict[str, Any]]]:
            bar.show_step(" ".join(task[:2]))
            yield guard.accuracy(*task, count, seed)

        try:
            for guard, _, found in guards.run_tasks(tasks, measure_errors, guards.count_processes(jobs, len(tasks))):
                done += 1
                rows += found if not guards.places else [{**row, "gpu": guard.about.gpu} for row in found]
                bar.begin_item(1)
        except KeyboardInterrupt:
            whole = False
    ops = list(operations.OPERATIONS)
    order = list(dict.fromkeys(dtype for operation in operations.OPERATIONS.values() for dtype in operation.dtypes))
    rows.sort(
        key=lambda row: (ops.index(row["op"]), order.index(row["dtype"]), not engine.is_torch_id(row["id"]), row["id"])
    )
    document = run.document(guards.first.about, rows, seed=seed, **({} if whole else {"interrupted": True}))
    recording.write(to, document)
    if json:
        output.print_json(document)
    else:
        _print(rows, seed)
    if not whole:
        part = f"{done} of {len(tasks)} groups of implementations"
        return output.report_interruption(part, to, f"--seed {seed} draws the same values again")
    ours = [row for row in rows if not engine.is_torch_id(row["id"])]
    bad = [row for row in ours if row.get("failed") or row["wrong"] or not row["same_bits"]]
    measured = any(row.get("problems") for row in ours)
    return 1 if bad else 0 if measured else 2


def _parse_count(text: str) -> int:
    """Parse ``"1e8"`` into a number of values. Raises OptionError."""
    try:
        count = float(text)
    except ValueError:
        count = math.nan
    if not 1 <= count <= 1e12:
        raise options.OptionError(f"no number of values {text!r}; write one from 1 to 1e12, such as 1e8")
    return int(count)


Task = tuple[str, str, list[str]]
"""An operation, a dtype, and implementations of one backend, which are measured on the same values."""


def _group_into_tasks(ids: Sequence[str], dtypes: Sequence[str]) -> list[Task]:
    """Group ids into tasks, and add tasks for torch's functions. Raises UnknownNameError for an unknown dtype."""
    tasks = list[Task]()
    taken = {dtype for id in ids for dtype in operations.OPERATIONS[options.op_of(id)].dtypes}
    options.check_names("dtype", dtypes, taken)
    for op in dict.fromkeys(options.op_of(id) for id in ids):
        for dtype in engine.dtypes(op):
            if not dtypes or dtype in dtypes:
                tasks += [(op, dtype, [engine.torch_id(op)])] if engine.torch_id(op) else []
                for backend in dict.fromkeys(id.split("/")[0] for id in ids):
                    of_backend = [id for id in ids if id.startswith(f"{backend}/{op}/")]
                    tasks += [(op, dtype, of_backend)] if of_backend else []
    return tasks


def _print(rows: Sequence[dict[str, Any]], seed: int) -> None:
    console = output.console()
    rounded = (
        *("dtype", ">worst, ulp", ">allowed, ulp", ">wrong", "same bits", "where", ">mean, ulp", ">99.99 %, ulp"),
        *(">subnormal, ulp", ">values"),
    )
    exact = ("dtype", ">wrong", "same bits", ">values")
    optional = ("values", "subnormal, ulp", "99.99 %, ulp", "mean, ulp", "where")
    tables = {
        name: output.make_table(name, *(rounded if op.rounds else exact), optional=optional)
        for name, op in operations.OPERATIONS.items()
    }
    for row in rows:
        if row.get("failed"):
            console.print(f"{row['id']} {row['dtype']}: {row['failed']}", style="red")
        elif row["unavailable"]:
            console.print(f"{row['id']} can't be measured here: {row['unavailable']}", style="dim")
        elif not operations.OPERATIONS[row["op"]].rounds:
            tables[row["op"]].add_row(
                row["id"], row["dtype"], str(row["wrong"]), _format_same_bits(row), f"{row['values']:.3g}"
            )
        else:
            numbers = (row["mean_ulp"], row["p9999_ulp"], row["worst_subnormal_ulp"])
            tables[row["op"]].add_row(
                *(row["id"], row["dtype"], output.number(row["worst_ulp"]), output.number(row["allowed_ulp_there"])),
                *(str(row["wrong"]), _format_same_bits(row)),
                f"{row['worst_family']}, {row['worst_length']}{' across' if row['worst_dim'] == 0 else ''}",
                *map(output.number, numbers),
                f"{row['values']:.3g}",
            )
    for table in tables.values():
        if table.rows:
            output.show(console, table)
            console.print()
    console.print(f"seed {seed}")


def _format_same_bits(row: dict[str, Any]) -> str:
    return "yes" if row["same_bits"] else "NO"
