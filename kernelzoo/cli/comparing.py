"""Comparison of implementations on a few problems, for the command ``compare`` and for Python."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernelzoo import registry
from kernelzoo.cli import measuring, options, sizes
from kernelzoo.cli import rows as rows_of
from kernelzoo.cli.against import OldResults, RowChange
from kernelzoo.cli.progress import Bar
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.record import Record
from kernelzoo.measure.worker_pool import WorkerPool
from kernelzoo.measure.worker_process import ProcessDescription
from kernelzoo.report.rows import Rows

Row = dict[str, Any]


@dataclass(frozen=True)
class ComparisonRequest:
    """The options that say which implementations are compared, and on which problems."""

    names: Sequence[str]
    ops: Sequence[str] = ()
    shapes: Sequence[str] = ()
    axes: Sequence[str] = ()
    workloads: Sequence[Path] = ()
    dtypes: Sequence[str] = ()
    dim: int = -1
    baseline: str = ""
    modules: Sequence[Path] = ()
    waive: Sequence[str] = ()
    device: str = ""
    patience: float = 180.0


@dataclass
class ComparisonResults:
    """The results that :func:`measure_comparison` returns."""

    about: ProcessDescription
    asked: set[str]
    """The requested ids. They include the baseline only if the user named it."""
    planned: int
    problems: list[Row] = field(default_factory=list)
    """The measured problems; see :func:`kernelzoo.cli.rows.describe_problem`."""
    results: list[tuple[Sequence[Row], Sequence[Row]]] = field(default_factory=list)
    """For each problem, its entries of the results file and its failures."""
    whole: bool = True
    """False if Ctrl-C ended the measurement."""

    def compare_with(self, old: OldResults, allowed: float) -> list[RowChange]:
        """Compare the requested ids with older results. ``allowed``: the largest slowdown that is no regression."""
        each = zip(self.problems, self.results, strict=False)  # Ctrl-C may leave one list longer
        return [one for told, results in each for one in old.compare(told, *results, allowed) if one.id in self.asked]


def measure_comparison(
    request: ComparisonRequest,
    settings: measuring.MeasuringOptions,
    *,
    to: Path | None = None,
    show: Callable[[Row], None] | None = None,
) -> ComparisonResults:
    """Measure a request's problems. After each problem, call ``show`` with its results and write them to ``to``."""
    asked, shapes = request, request.shapes
    names, given = asked.names, asked.baseline
    if not names and not asked.modules:
        raise options.OptionError("name the implementations to compare, or a file that adds some by --module")
    if not asked.modules:  # a module may add names
        options.match_ids(options.known_ids(), [*names, *([given] if given else [])], asked.ops)
    sizes.parse_shapes(asked.dim, shapes or [sizes.SHAPE])
    modules = options.check_modules(asked.modules)
    with (
        Bar() as bar,
        nullcontext() if to is None else measuring.reserve_file(to),
        WorkerPool([partial(Guard, asked.device, modules, patience=asked.patience)]) as crew,
    ):
        known = crew.first_worker.about.summaries
        names = names or sorted({*known} - {i.id for i in registry.implementations()})  # here no module ran
        ids = options.match_ids(known, names, asked.ops)
        settings = replace(settings, waive=options.match_ids(ids, asked.waive) if asked.waive else ())
        by_op = {
            name: [id for id in ids if options.op_of(id) == name] for name in dict.fromkeys(map(options.op_of, ids))
        }
        bases = {name: choose_baseline(known, given, name, found) for name, found in by_op.items()}
        plan = [
            (problem, list(dict.fromkeys([bases[problem.op], *by_op[problem.op]])))
            for problem in sizes.problems(
                list(by_op),
                shapes or sizes.default_shapes(by_op, bool(asked.axes or asked.workloads)),
                asked.dtypes,
                dim=asked.dim,
                sizes=asked.axes,
                usual=("float32",),
                workloads=asked.workloads,
            )
        ]
        record = Record(to, crew.devices, modules=list(map(Path, modules))) if to else None
        told = ComparisonResults(crew.first_worker.about, {*ids, *(bases.values() if given else ())}, len(plan))
        try:
            for problem, entries, failed in measuring.measure_plan(crew, plan, settings, bar):
                if record:
                    record.add(entries, failed)
                told.problems.append(rows_of.describe_problem(problem, entries, failed, bases[problem.op]))
                told.results.append((entries, failed))
                if show:
                    with bar.hide_while_printing():
                        show(told.problems[-1])
        except KeyboardInterrupt:
            told.whole = False
        told.about = crew.first_worker.about
    return told


def compare(
    *ids: str,
    op: str = "",
    shapes: Iterable[Sequence[int]] = (),
    axes: Iterable[Mapping[str, int]] = (),
    dtypes: Iterable[str] = (),
    dim: int = -1,
    baseline: str = "",
    modules: Iterable[str | Path] = (),
    device: str = "",
    rounds: int = 15,
    cache: str = "cold",
    clock: str = "device",
) -> Rows:
    """Compare implementations as the command ``kernelzoo compare`` does, and return its rows.

    ``ids``: ids or globs of ids; if ``op`` is given, also ``backend/variant``. If the operation does not work by rows,
    give ``axes`` instead of ``shapes``. Each row also has the facts of its problem. Times are in µs. ``verdict`` is
    FASTER, SLOWER, SAME or UNCLEAR, and None for the baseline. If a row has no time, its ``outcome`` is not
    ``measured``, and ``reason`` says why. Progress goes to standard error. Raises OptionError for wrong arguments.

    ::

        kernelzoo.compare("torch/eager", "triton", op="softmax", shapes=[(4096, 1024)], dtypes=["bfloat16"])
    """
    request = ComparisonRequest(
        ids,
        ops=options.split_words([op]),
        shapes=["x".join(map(str, shape)) for shape in shapes],
        axes=[",".join(f"{name}={size}" for name, size in of.items()) for of in axes],
        dtypes=list(map(options.full_dtype, dtypes)),
        dim=dim,
        baseline=baseline,
        modules=list(map(Path, modules)),
        device=device,
    )
    told = measure_comparison(request, measuring.MeasuringOptions(rounds, cache, clock, True, "compare"))
    if not told.whole:
        raise KeyboardInterrupt
    rows = [
        {key: fact for key, fact in problem.items() if key != "rows"} | row
        for problem in told.problems
        for row in problem["rows"]
    ]
    every = dict.fromkeys(key for row in rows for key in row)
    return Rows({**every, **row} for row in rows)


def choose_baseline(known: Mapping[str, str], requested: str, op: str, ids: Sequence[str]) -> str:
    """Return the baseline's id: ``requested``, or the registry's if known, or ``ids[0]``. Raises OptionError."""
    if not requested:
        return usual if (usual := registry.baseline(op)) in known else ids[0]
    found = options.match_ids(known, [requested], [op])
    if len(found) > 1:
        raise options.OptionError(f"--baseline {requested!r} names {len(found)} implementations, must name one")
    return found[0]
