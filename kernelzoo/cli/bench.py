"""``kernelzoo bench``: measure many implementations on many problems, into a results file."""

from __future__ import annotations

import datetime
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from kernelzoo import measure, operations, registry
from kernelzoo.cli import measuring, options, output, recording, sizes
from kernelzoo.cli import rows as rows_of
from kernelzoo.cli.guards import check_gpus
from kernelzoo.cli.progress import Bar
from kernelzoo.measure import first_call as first
from kernelzoo.measure import shards
from kernelzoo.measure.gpus import Gpu
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.record import Record, RecordError
from kernelzoo.measure.worker_pool import Worker, WorkerPool
from kernelzoo.measure.worker_process import GuardError

Seed = Annotated[int, options.option("--seed", "S", "Seed of the problems that --shapes random:COUNT draws.", min=0)]
Resume = Annotated[bool, options.flag("--resume", "Continue the results file: measure what it lacks.")]


def bench(
    *,
    shapes: Annotated[
        str,
        options.option(
            "--shapes",
            "SET",
            "A set of shapes: quick, host, sweep, full, map, axes, people, hidden, vocabulary, odd or random:COUNT.",
        ),
    ] = "quick",
    seed: Seed = 0,
    shape: options.Shapes,
    dim: options.Dim = -1,
    axes: options.Axes,
    workload: options.Workloads,
    op: options.Ops,
    dtype: options.Dtypes,
    backend: options.Backends,
    variant: options.Variants,
    module: options.Modules,
    device: options.Device = "",
    gpus: options.Gpus = "",
    engine: Annotated[
        str, options.option("--engine", "local|ray", "Measure here, or on every GPU of a Ray cluster.")
    ] = "local",
    address: Annotated[
        str, options.option("--address", "HOST:PORT", "The Ray cluster; by default that of RAY_ADDRESS, or a new one.")
    ] = "",
    shard: Annotated[
        str, options.option("--shard", "K/N", "Measure every N-th problem, from the K-th on; see kernelzoo merge.")
    ] = "",
    rounds: options.Rounds = 15,
    cache: options.Cache = "cold",
    clock: options.Clock = "device",
    energy: options.Energy = False,
    cross_check: options.CrossCheck = False,
    patience: options.Patience = 180.0,
    waive: options.Waive,
    first_call: Annotated[
        bool,
        options.flag(
            "--first-call", "Measure the first call in a process instead, with empty and with filled disk caches."
        ),
    ] = False,
    to: Annotated[
        Path | None,
        options.option("-o --output", "FILE.json[.gz]", "The results file; by default out/bench-TIME.json."),
    ] = None,
    resume: Resume = False,
    json: options.Json = False,
) -> int:
    """Measure implementations on a set of problems, and write the results to a file after each problem.

    Each implementation is checked before it is timed. If one is wrong, crashes or hangs, only its own row is lost. If
    it is unclear which is faster, up to four times --rounds are measured. However the run ends, the file is complete
    up to that point, and --resume continues it. Dtypes are float32 and bfloat16 by default.

    With several GPUs, each takes the next problem when it is free. The largest problem is first measured on all of
    them. Results of a card more than 2 % slower than the fastest are flagged.

    With --first-call, the command measures the first call in a process, and the first call of a second shape. Without
    --variant, it measures the variant auto of each backend. The shapes are fixed, and the dtype is float32 by default.

    Exit status: 0; 1 if a row is wrong or failed; 2 for bad usage, or if nothing could be measured; 130 after Ctrl-C.
    """
    wanted = options.split_words(op) or tuple(operations.MAPPED)
    if first_call:
        if shape or axes or workload or resume or gpus or shard or address or engine != "local":
            raise options.OptionError("--first-call has its own problems, and takes neither --shape nor --resume")
        chosen = wanted, options.split_words(backend), options.split_words(variant) or ("auto",)
        return _first_calls(chosen, options.split_words(dtype), module, device, patience, to, json)
    asked = (wanted, options.split_words(backend), options.split_words(variant))
    part, places = shards.parse_shard(shard), _parse_gpu_options(engine, address, gpus, device)
    options.select_ids_before_modules(module, (), *asked)
    sized = partial(
        sizes.problems, wanted, shape, options.split_words(dtype), shapes, dim, axes, workloads=workload, seed=seed
    )
    if not module:  # modules may add names in the measuring process
        sized()
    shape_set = "custom" if shape or axes or workload else measure.label(shapes, seed)
    how = measuring.MeasuringOptions(rounds, cache, clock, cross_check, shape_set, energy)
    if resume and to is None:
        raise options.OptionError("--resume needs the file to continue: -o FILE")
    path = to or Path("out", f"bench-{datetime.datetime.now():%Y%m%d-%H%M%S}.json")
    console, errors = output.console(), output.console(errors=True)
    tables = rows_of.Tables()
    modules = options.check_modules(module)
    measured: list[dict[str, Any]] = []
    workers: list[dict[str, Any]] = []
    record: Record | None = None
    ended, interrupted, whole, count = "", False, list[Any](), 0
    if to is None:
        path.parent.mkdir(exist_ok=True)
    try:
        with (
            Bar() as bar,
            measuring.reserve_file(path, resume=resume),
            _open_workers(places, engine, address, device, modules, patience) as crew,
        ):
            about = crew.first_worker.about
            ids: Sequence[str] = options.select_ids(about.summaries, (), *asked)
            how = replace(how, waive=options.match_ids(ids, options.split_words(waive)) if waive else ())
            # The baseline comes first: rounds are added until the verdicts against it are clear.
            ids = sorted(ids, key=lambda id: id != registry.baseline(options.op_of(id)))
            whole = [(problem, [id for id in ids if options.op_of(id) == problem.op]) for problem in sized()]
            record = Record(
                path,
                crew.devices,
                resume=resume,
                # In a cluster, each result has the versions of its host.
                versions=about.versions if engine == "local" else None,
                rounds=rounds,
                modules=list(map(Path, modules)),
                shard=part.describe(whole, vars(how)) if part else None,
            )
            _require_runnable_backend(crew.first_worker, ids, options.split_words(backend))
            whole = part.select_part(whole) if part else whole
            plan = [(p, record.ids_to_run(p, of_p, cache, clock)) for p, of_p in whole]
            plan = [(problem, left) for problem, left in plan if left]
            count = len(whole) - len(plan)
            if resume:
                with bar.hide_while_printing():
                    errors.print(f"{path} holds {len(record.entries)} results; {len(plan)} problems are left")
            checked = measuring.compare_cards(crew, plan, how, bar)
            if places or engine == "ray":
                record.add_workers(workers := measuring.describe_workers(crew, checked))
                if not json:
                    with bar.hide_while_printing():
                        measuring.print_card_check(workers)
            slower = {w["gpu"]["uuid"] for w in workers if w["gpu"] and w["check"] and w["check"]["slower"]}
            for problem, entries, failed in measuring.measure_plan(crew, plan, how, bar, slower):
                record.add(entries, failed)
                measured.append(rows_of.describe_problem(problem, entries, failed, registry.baseline(problem.op)))
                if not json:
                    with bar.hide_while_printing():
                        tables.show(measured[-1])
    except KeyboardInterrupt:
        interrupted = True
        ended = f"interrupted after {count + len(measured)} of {len(whole)} problems" if whole else "interrupted"
    except (GuardError, RecordError) as error:
        if record is None or not record.entries:  # there is no result to keep
            raise
        ended = f"error: {output.shorten_reason(str(error))}"
    kept = record.entries if record else []
    bad = [f for f in record.failed if f["outcome"] != "refused"] if record else []
    if json:
        output.print_json(
            {
                "file": str(path) if path.exists() else None,
                "results": len(kept),
                "interrupted": interrupted,
                "error": ended.removeprefix("error: ") if ended.startswith("error: ") else None,
                "problems": measured,
                **({"workers": workers} if workers else {}),
            }
        )
    else:
        rows_of.print_without_result(measured)
        tables.print_marks_summary()
        console.print(f"{len(kept)} results in {path}" if kept else "nothing could be measured")
    if ended:
        again = ["kernelzoo", *sys.argv[1:], *([] if to else ["-o", str(path)]), *([] if resume else ["--resume"])]
        hint = f"{path} has what was measured; to continue: {shlex.join(again)}"
        errors.print(f"{ended}; {hint if path.exists() else 'nothing was measured yet'}")
        return 130 if interrupted else 2
    return 1 if bad else 0 if kept else 2


def _parse_gpu_options(engine: str, address: str, gpus: str, device: str) -> list[Gpu]:
    """Return the GPUs that ``--gpus`` names. Raises OptionError, GpusError or UnknownNameError for wrong options."""
    options.check_names("engine", [engine], ("local", "ray"))
    if engine == "ray" and (gpus or device):
        raise options.OptionError("--engine ray takes every GPU of the cluster: leave out --gpus and --device")
    if address and engine != "ray":
        raise options.OptionError("--address names a Ray cluster: add --engine ray")
    return check_gpus(gpus, device)


@contextmanager
def _open_workers(
    places: Sequence[Gpu | None], engine: str, address: str, device: str, modules: Sequence[str], patience: float
) -> Iterator[WorkerPool]:
    """A context with one worker per GPU in ``places`` or in a Ray cluster, or else one on the device."""
    if engine == "ray":
        from kernelzoo.measure import over_ray

        with (
            output.only_this_thread_prints(),
            over_ray.connect_to_cluster(address),
            WorkerPool(over_ray.worker_starters("cuda", modules, patience)) as crew,
        ):
            yield crew
        return
    with WorkerPool([partial(Guard, device, modules, patience=patience, gpu=gpu) for gpu in places or [None]]) as crew:
        yield crew


def _require_runnable_backend(worker: Worker, ids: Sequence[str], requested: Sequence[str]) -> None:
    """Raise OptionError if backends are ``requested`` by name, but none of them can run on this machine."""
    first = {id.split("/")[0]: id for id in reversed(ids)} if requested else {}
    reasons = [worker.find_fuzzing_limits(id)["unavailable"] for id in first.values()]
    if reasons and all(reasons):
        raise options.OptionError("; ".join(dict.fromkeys(reasons)))


def _first_calls(
    chosen: tuple[Sequence[str], Sequence[str], Sequence[str]],
    dtypes: Sequence[str],
    module: Sequence[Path],
    device: str,
    patience: float,
    to: Path | None,
    json: bool,
) -> int:
    """Measure, print and record first calls of ``chosen``: operations, backends, variants. Returns the exit status."""
    options.select_ids_before_modules(module, (), *chosen)
    if to is not None:
        measuring.check_free(to)
    modules = options.check_modules(module)
    dtypes = dtypes or ("float32",)
    if not module:
        sizes.problems(chosen[0], (), dtypes)  # raises for unknown names
    with Bar(), Guard(device, modules) as guard:  # only lists the ids; each first call gets its own process
        about = guard.about
    ids = options.select_ids(about.summaries, (), *chosen)
    run = recording.Recording("kernelzoo-first-call/1")
    found, interrupted = list[first.FirstCall](), False
    count = len(ids) * len(dtypes) * len(first.CLASSES)
    with Bar(count) as bar:
        bar.set_total(count, count)
        try:
            bar.show_step(f"first calls of {output.ids_or_count(ids)}")
            for one in first.first_calls(ids, dtypes, about.device, modules, patience=patience):
                found.append(one)
                bar.begin_item(1)
                bar.show_step(f"after {one.id}, {one.problem_class}")
                bar.say(f"[{len(found)}/{count}] {one.id}, {one.problem_class}: {one.outcome}")
        except KeyboardInterrupt:
            interrupted = True
    document = run.document(about, [asdict(one) for one in found], interrupted=interrupted)
    recording.write(to, document)
    if json:
        output.print_json(document)
    else:
        _show_first_calls(found)
    if interrupted:
        return output.report_interruption(f"{len(found)} of {count} rows", to)
    outcomes = {one.outcome for one in found}
    return 1 if outcomes & {"wrong", "failed"} else 0 if "measured" in outcomes else 2


def _show_first_calls(found: Sequence[first.FirstCall]) -> None:
    console = output.console()
    output.print_note(console, "Milliseconds by the host's clock, one call each; two new processes for each row.")
    table = output.make_table(
        *("implementation", "class", "shapes", ">first call, empty cache", ">first call, filled cache"),
        *(">second shape", ">files added", ">loading", ">repeated call"),
        optional=("files added", "loading", "shapes", "repeated call"),
    )
    for one in found:
        if one.outcome == "measured":
            cells = [output.number(one.empty_ms), output.number(one.stored_ms), output.number(one.second_ms)]
            cells += [str(one.second_files), output.number(one.load_ms), output.number(one.call_ms)]
            table.add_row(one.id, f"{one.problem_class}, {one.dtype}", f"{one.shape}, {one.second_shape}", *cells)
    output.show(console, table)
    for one in found:
        if one.outcome != "measured":
            console.print(f"{one.outcome.upper()} {one.id}, {one.problem_class}, {one.dtype}: {one.reason}")
