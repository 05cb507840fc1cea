"""``kernelzoo verify``: checks implementations against the contract, and times nothing."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from kernelzoo.check.cases import cases
from kernelzoo.cli import guards as processes
from kernelzoo.cli import options, output, sizes
from kernelzoo.cli.progress import Bar
from kernelzoo.errors import KINDS, closest_names
from kernelzoo.measure import Problem
from kernelzoo.measure.guard import Guard
from kernelzoo.operations import OPERATIONS

_SHAPES = ("4096x1024", "1823x781", "16x262144")
"""Realistic shapes, checked after the contract's cases: even sizes, odd sizes, and a few long rows."""

_DTYPES = ("float32", "bfloat16")
"""The default dtypes for the realistic shapes."""

_SIZE = 300
"""The approximate size of each axis for operations that do not work by rows."""

_FEW = 5
"""How many cases are printed at most per kind of finding: one in full, others by name. The JSON has all cases."""


def verify(
    *,
    ids: options.Ids = None,
    case: Annotated[
        list[str],
        options.repeated("--case", "NAME", "A case, or a glob of cases, as a finding names it; may be repeated."),
    ],
    dtype: options.Dtypes,
    seed: options.Seed = None,
    module: options.Modules,
    backend: options.Backends,
    op: options.Ops,
    device: options.Device = "",
    gpus: options.Gpus = "",
    patience: options.Patience = 180.0,
    their_tolerance: options.TheirTolerance = False,
    json: options.Json = False,
) -> int:
    """Check implementations against the contract: special values, layouts, odd sizes, and a few large shapes.

    They run in a separate process: one that crashes or hangs is a finding. Without an ID, all are checked; with a
    --module, those that it adds.

    Exit status: 0; 1 for any finding; 2 for an unknown name, if what was asked for can't run here, or if the functions
    that define an operation (not a kernel) fail.
    """
    patterns, ops, backends = ids or [], options.split_words(op), options.split_words(backend)
    early = options.select_ids_before_modules(module, patterns, ops, backends)
    if not module:  # a module may add operations
        _validate_case_patterns(case, dtype, dict.fromkeys(options.op_of(id) for id in early))
    seed = secrets.randbits(32) if seed is None else seed
    results, whole = dict[str, Any](), True
    console = output.console()
    options.use_definition_tolerances(their_tolerance)
    asked = processes.open_processes_for_ids(module, device, gpus, patience, patterns, ops, backends)
    with asked as (guards, chosen), Bar(len(chosen)) as bar:

        def verify_one(guard: Guard, id: str) -> Iterator[dict[str, Any]]:
            bar.begin_item(1)
            found = guard.verify(
                id,
                _realistic_problems(id, dtype),
                progress=lambda stage, case: bar.show_step(case, moves=False),
                cases=case,
                dtypes=dtype,
                seed=seed,
            )
            for finding in (*found["findings"], *found.get("beyond", ())):
                finding["repeat"] = _format_finding_command(finding, module, device, seed)
            yield found | ({"gpu": guard.about.gpu} if guards.places else {})

        try:
            for _, id, found in guards.run_tasks(chosen, verify_one, min(max(1, len(guards.places)), len(chosen))):
                results[id] = found
                if not json and not found["unavailable"]:
                    with bar.hide_while_printing():
                        _print_result(id, found)
        except KeyboardInterrupt:
            whole = False
    results = {id: results[id] for id in chosen if id in results}
    faulty = _cases_by_operation(results, "at_fault")
    wrong = [id for id, found in results.items() if found["findings"]]
    tried = [id for id, found in results.items() if found["passed"] or found["findings"]]
    unavailable = {id: found["unavailable"] for id, found in results.items() if found["unavailable"]}
    missing = options.why_missing(patterns, backends, unavailable, chosen)
    if json:
        told = {"device": guards.first.about.device_name, "seed": seed, "results": results, "wrong": wrong}
        told |= {} if whole else {"interrupted": True}
        output.print_json({**told, **({"error": "; ".join(missing)} if missing else {})})
    else:
        output.print_unavailable(unavailable, missing)
        too_wide = {options.op_of(id): found["weak"] for id, found in results.items() if found["weak"]}
        for name, cases in faulty.items():
            _print_cases(f"{name} itself fails", cases, "red")
        for name, cases in _cases_by_operation(results, "undecidable").items():
            _print_cases(f"the bounds of {name} decide nothing", cases, "yellow")
        for name in dict.fromkeys(options.op_of(id) for id in results):
            if said := OPERATIONS[name].hooks.get("tolerance"):
                used = "used" if their_tolerance else "not used; --their-tolerance does"
                output.print_note(console, f"the tolerance that {name} comes with is {used}: {said}")
        for name, accepted in too_wide.items():
            console.print(f"the bounds of {name} are too wide: they accept {' and '.join(accepted)}", style="yellow")
        console.print(f"{len(tried)} checked, {len(wrong)} with findings, {len(results) - len(tried)} not checked")
    if not whole:
        console = output.console(errors=True)
        console.print(f"interrupted after {len(results)} of {len(chosen)} implementations; nothing else is kept")
        return 130
    return 1 if wrong else 2 if missing or faulty or not tried else 0


def _cases_by_operation(results: dict[str, Any], name: str) -> dict[str, dict[str, str]]:
    """Collect the cases under the key ``name`` of each result, with their reasons, by operation."""
    found: dict[str, dict[str, str]] = {}
    for id, result in results.items():
        if result[name]:
            found.setdefault(options.op_of(id), {}).update(result[name])
    return found


def _print_cases(what: str, cases: dict[str, str], style: str) -> None:
    """Print cases in which the operation itself is at fault. Such cases count against no kernel."""
    console = output.console()
    first, *others = cases
    also = f", also {', '.join(others[: _FEW - 1])}" if others else ""
    more = f" and {len(others) - _FEW + 1} more" if len(others) >= _FEW else ""
    number = "a case, which counts" if not others else f"{len(cases)} cases, which count"
    console.print(f"{what} in {number} for no kernel: {first}{also}{more}", style=style)
    console.print(f"  found    {output.shorten_reason(cases[first])}")


def _realistic_problems(id: str, dtypes: Sequence[str]) -> tuple[Problem, ...]:
    """Return problems of realistic sizes, in each of ``dtypes`` (or the default dtypes) that the operation supports."""
    op = options.op_of(id)
    operation = OPERATIONS[op]
    known = [dtype for dtype in dtypes or _DTYPES if dtype in operation.dtypes]
    if not dtypes and not known:
        known = [operation.dtypes[0]]
    if not known:
        return ()
    if meant := operation.hooks.get("sizes"):
        return sizes.problems([op], (), known, sizes=[",".join(f"{axis}={size}" for axis, size in meant[-1].items())])
    if not operation.by_rows:
        named = operation.clamp_sizes(dict.fromkeys(operation.free_axes, _SIZE))
        return sizes.problems([op], (), known, sizes=[",".join(f"{axis}={size}" for axis, size in named.items())])
    return sizes.problems([op], _SHAPES, known)


def _validate_case_patterns(patterns: Sequence[str], dtypes: Sequence[str], ops: Iterable[str]) -> None:
    """Raise OptionError if a pattern matches no case, or if no matching case has one of the dtypes."""
    if not patterns and not dtypes:
        return
    names = {case.name: case.dtype for op in ops for case in cases(op)}
    names |= {problem.id: problem.dtype for op in ops for problem in _realistic_problems(f"/{op}", dtypes)}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = closest_names(pattern, sorted(names))
            meant = f"did you mean {' or '.join(near)}?" if near else "a finding names its case, such as float32-3x129"
            raise options.OptionError(f"no case {pattern!r}; {meant}")
    if not any(
        (not dtypes or dtype in dtypes) and (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
        for name, dtype in names.items()
    ):
        raise options.OptionError("these options together leave no case")


def _format_finding_command(finding: dict[str, Any], modules: Sequence[Path], device: str, seed: int) -> str:
    id, case = finding["id"], finding["case"]
    words = ["--case", case] if case else []
    words += ["--seed", str(seed)] if case.startswith(f"{options.op_of(id)}-") else []
    return options.format_command("verify", id, modules, device, *words)


def _print_result(id: str, found: dict[str, Any]) -> None:
    console = output.console()
    room = f", {found['no_room']} too large for this memory" if found["no_room"] else ""
    if found["left_out"]:
        room += f", {found['left_out']} left out, as each takes seconds to bind (--case '*' runs all)"
    console.print(
        f"{id}: {found['passed']} passed, {found['refused']} refused, {len(found['findings'])} findings{room}",
        style="red" if found["findings"] else "green",
    )
    _print_findings(found["findings"])
    if beyond := found.get("beyond"):
        counts = f"{found['passed_beyond']} passed, {len(beyond)} findings"
        console.print(f"  beyond the definition (NaN, infinities, other sizes of numbers): {counts}", style="yellow")
        _print_findings(beyond)


def _print_findings(findings: Sequence[dict[str, Any]]) -> None:
    """Print the first finding of each kind, and the names of the others."""
    console = output.console()
    for kind in KINDS:
        alike = [finding for finding in findings if finding["kind"] == kind]
        if not alike:
            continue
        first, *others = alike
        console.print(f"  {kind}{f' in {len(alike)} cases' if others else ''}:", style="bold")
        for label, words in _finding_lines(first):
            console.print(f"    {label:8} {words}")
        if others:
            names = ", ".join(finding["case"] for finding in others[: _FEW - 1])
            more = f" and {len(others) - _FEW + 1} more; --json has them all" if len(others) >= _FEW else ""
            console.print(f"    also     {names}{more}")


def _finding_lines(finding: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines of a finding, each with its label."""
    if finding["case"]:
        yield "case", finding["case"]
    if finding["shape"] is not None:
        axes = finding["dim"] if isinstance(finding["dim"], int) else tuple(finding["dim"])
        scalars = "".join(f", {name}={value}" for name, value in finding["scalars"].items())
        shape = "x".join(map(str, finding["shape"])) or "scalar"
        yield "input", f"{finding['dtype']} {shape}, strides {tuple(finding['strides'])}, dim={axes}{scalars}"
    yield "found", output.shorten_reason(finding["reason"])
    if finding["error"] is not None:
        error, unit = finding["error"], finding["unit"].removeprefix("1")
        yield "off by", f"{error:.3g} {unit}".rstrip() + " beyond the nearest right value"
    yield "repeat", finding["repeat"]
