"""``kernelzoo verify``: the contract, over every implementation or some, and nothing timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelzoo.cli import options, output

if TYPE_CHECKING:
    from rich.console import Console

_SHAPES = ("4096x1024", "1823x781", "16x262144")
"""Shapes of real sizes, beside the contract's own cases: even, odd, and few long rows."""

_FEW = 5
"""Findings of one implementation that are printed; the JSON has them all."""


def verify(
    *,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids or globs such as 'triton/softmax/*'.")
    ] = None,
    module: options.Modules,
    backend: options.Backends,
    op: options.Ops,
    device: options.Device = "",
    patience: options.Patience = 180.0,
    json: options.Json = False,
) -> int:
    """Check implementations against the contract: special values, layouts, odd sizes, and a few large shapes.

    They run in a process of their own: one that crashes or hangs is a finding. Without an ID, all are checked; with a
    --module, those that it adds.

    Exit status: 0; 1 for any finding; 2 for an unknown name, or where nothing could be checked.
    """
    from kernelzoo import registry
    from kernelzoo.cli.progress import Bar
    from kernelzoo.measure.guard import Guard

    results: dict[str, Any] = {}
    console = output.console()
    with Guard(device, options.check_modules(module), patience=patience) as guard:
        known = set(guard.about.summaries)
        if module and not ids:
            known -= {i.id for i in registry.implementations()}  # no module is ever run in this process
        chosen = options.select(known, ids or [], options.words(op), options.words(backend))
        with Bar(len(chosen)) as bar:
            for id in chosen:
                bar.item(1)
                problems = options.problems([id.split("/")[1]], _SHAPES, ("float32", "bfloat16"))
                results[id] = found = guard.verify(id, problems, progress=lambda stage, case: bar.step(case))
                if not json and not found["unavailable"]:
                    with bar.aside():
                        _print(id, found, console)
    wrong = [id for id, found in results.items() if found["wrong"]]
    checked = [id for id, found in results.items() if not found["unavailable"]]
    if json:
        output.emit({"device": guard.about.device_name, "results": results, "wrong": wrong})
    else:
        absent: dict[str, list[str]] = {}
        for id, found in results.items():
            if found["unavailable"]:
                absent.setdefault(found["unavailable"], []).append(id)
        for reason, without in absent.items():
            console.print(f"{output.some(without)} can't be checked here: {reason}", style="dim")
        console.print(f"{len(checked)} checked, {len(wrong)} with findings, {len(results) - len(checked)} not checked")
    return 1 if wrong else 0 if checked else 2


def _print(id: str, found: dict[str, Any], console: Console) -> None:
    room = f", {found['no_room']} too large for this memory" if found["no_room"] else ""
    console.print(
        f"{id}: {found['passed']} passed, {found['refused']} refused, {len(found['wrong'])} findings{room}",
        style="red" if found["wrong"] else "green",
    )
    for finding in found["wrong"][:_FEW]:
        console.print(f"    {output.brief(finding)}")
    if len(found["wrong"]) > _FEW:
        console.print(f"    and {len(found['wrong']) - _FEW} more; --json has them all")
