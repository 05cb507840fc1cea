"""``kernelzoo list``: every implementation, what it takes, and whether it can run here."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

from kernelzoo import operations, packages, registry
from kernelzoo.cli import options, output
from kernelzoo.cli.availability import Availability
from kernelzoo.measure.guard import Guard


def list_implementations(
    *, backend: options.Backends, op: options.Ops, module: options.Modules, json: options.Json = False
) -> int:
    """Show every implementation: its id, what it is, what it takes, and whether it can run here.

    Code of other packages' backends is read, not run: kernelzoo doctor tells whether they can run here.

    Exit status: 0; 2 for an unknown name, or a --module that fails.
    """
    backends, wanted = options.split_words(backend), options.split_words(op)
    modules = options.check_modules(module) if module else ()
    known = [(i.id, i.summary) for i in registry.implementations()]
    if modules:
        with Guard("cpu", modules) as guard:
            known = sorted(guard.about.summaries.items())
    chosen = options.select_ids((id for id, _ in known), (), wanted, backends)
    names, others = {id.split("/")[0] for id in chosen}, {name for name, _, _ in packages.entry_point_backends()}
    # A backend that only a module adds is assumed to run wherever torch runs.
    probed = {name: name if name in packages.BUILT_IN else registry.BASELINE for name in names - others}
    answers = probe_backends(sorted({*probed.values()}))
    here = {
        name: _unknown_availability(name) if name in others else replace(answers[probed[name]], backend=name)
        for name in sorted(names)
    }
    rows: list[dict[str, Any]] = []
    for id, summary in known:
        name, operation, variant = id.split("/")
        if id not in chosen:
            continue
        own = operation in operations.declared or operation in operations.BUILT_IN
        rows.append(
            {
                "id": id,
                "backend": name,
                "op": operation,
                "variant": variant,
                "summary": summary,
                "dtypes": list(operations.OPERATIONS[operation].dtypes) if own else None,
                "may_refuse": variant != "auto",
                "runs_here": bool(here[name].devices) if here[name].tried else None,
            }
        )
    if json:
        output.print_json({"implementations": rows, "backends": [asdict(found) for found in here.values()]})
    else:
        _print(rows, here)
    return 0


def probe_backends(backends: Sequence[str]) -> dict[str, Availability]:
    """Return the availability of each built-in backend. Backends are loaded in separate processes."""
    from kernelzoo.cli import probe  # not at the top, since python -m runs it as a program

    answers = probe.run_probes([f"backend:{backend}" for backend in backends])
    found = dict[str, Availability]()
    for backend in backends:
        said = answers[f"backend:{backend}"]
        found[backend] = (
            Availability(backend, reason=said["error"], remedy="kernelzoo doctor tells more")
            if "error" in said
            else Availability(**{**said, "devices": tuple(said["devices"])})
        )
    return found


def _unknown_availability(backend: str) -> Availability:
    """Return an unknown availability for another package's backend, because ``list`` does not run its code."""
    if reason := packages.why_unreadable(backend):
        return Availability(backend, reason=reason, remedy=packages.MEND)
    told = "kernelzoo doctor tells whether it runs here"
    return Availability(backend, reason="it belongs to another package", remedy=told, tried=False)


def _print(rows: list[dict[str, Any]], here: dict[str, Availability]) -> None:
    console = output.console()
    for name, group in groupby(rows, lambda row: str(row["backend"])):
        console.print(f"{name}: {here[name].words}", style="bold" if here[name].devices else "dim")
        table = output.make_table("implementation", "takes", "what it is")
        for row in group:
            table.add_row(row["id"], "some" if row["may_refuse"] else "all", row["summary"])
        output.show(console, table)
        console.print()
    takers: dict[str, list[str]] = {}
    for operation, dtypes in {row["op"]: row["dtypes"] for row in rows if row["dtypes"]}.items():
        takers.setdefault(", ".join(dtypes), []).append(operation)
    for names, ops in takers.items():
        output.print_note(console, f"{', '.join(ops)} take{'s' * (len(ops) == 1)} {names}.")
    console.print("all: every legal input; some: it may refuse a problem, and says why.")
