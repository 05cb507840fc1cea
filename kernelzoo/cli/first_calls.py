"""``kernelzoo bench --first-call``: the time of the first call, by implementation and class of problems."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kernelzoo.cli import measuring, options, output, recording, sizes
from kernelzoo.cli.progress import Bar
from kernelzoo.measure import first_call as first
from kernelzoo.measure.guard import Guard


def first_calls(
    chosen: tuple[Sequence[str], Sequence[str], Sequence[str]],
    dtypes: Sequence[str],
    module: Sequence[Path],
    device: str,
    patience: float,
    to: Path | None,
    json: bool,
) -> int:
    """Measure, print and write the record; returns the exit status. ``chosen``: operations, backends and variants."""
    options.select_early(module, (), *chosen)
    if to is not None:
        measuring.check_free(to)
    modules = options.check_modules(module)
    dtypes = dtypes or ("float32",)
    if not module:
        sizes.problems(chosen[0], (), dtypes)  # raises for unknown names
    with Bar(), Guard(device, modules) as guard:  # lists what there is; each call gets its own process
        about = guard.about
    ids = options.select(about.summaries, (), *chosen)
    run = recording.Recording("kernelzoo-first-call/1")
    found, interrupted = list[first.FirstCall](), False
    count = len(ids) * len(dtypes) * len(first.CLASSES)
    with Bar(count) as bar:
        bar.expect(count, count)
        try:
            bar.step(f"first calls of {output.some(ids)}")
            for one in first.first_calls(ids, dtypes, about.device, modules, patience=patience):
                found.append(one)
                bar.item(1)
                bar.step(f"after {one.id}, {one.problem_class}")
                bar.say(f"[{len(found)}/{count}] {one.id}, {one.problem_class}: {one.outcome}")
        except KeyboardInterrupt:
            interrupted = True
    document = run.document(about, [asdict(one) for one in found], interrupted=interrupted)
    recording.write(to, document)
    if json:
        output.emit(document)
    else:
        _show(found)
    if interrupted:
        return output.interrupted(f"{len(found)} of {count} rows", to)
    outcomes = {one.outcome for one in found}
    return 1 if outcomes & {"wrong", "failed"} else 0 if "measured" in outcomes else 2


def _show(found: Sequence[first.FirstCall]) -> None:
    console = output.console()
    output.note(console, "Milliseconds by the host's clock, one call each; two new processes for each row.")
    table = output.table(
        *("implementation", "class", "shapes", ">first call, empty cache", ">first call, filled cache"),
        *(">second shape", ">files added", ">loading", ">repeated call"),
        spare=("files added", "loading", "shapes", "repeated call"),
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
