"""Helpers of ``kernelzoo tune``: tuners of launch tables, lists of knobs, and trials as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kernelzoo.cli import options, output
from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import KernelZooError
from kernelzoo.measure import planning
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.planning import SimulatedPlanner
from kernelzoo.measure.problems import Problem
from kernelzoo.tables import Knob

if TYPE_CHECKING:
    from kernelzoo.measure.tuning import TableVerdict, Trial, Tuner, TuningOutcome

Json = dict[str, Any]


def make_tuner(
    one: Json, planner: Guard | SimulatedPlanner, dtypes: Sequence[str], multiprocessors: int, rounds: int, **more: Any
) -> Tuner:
    """Return a tuner for the launch table ``one``. With a SimulatedPlanner, the tuner can plan, but not measure."""
    from kernelzoo.measure.tuning import Tuner

    def race(id: str, problem: Problem, values: Mapping[str, dict[str, int]], rounds: int) -> Any:
        lanes = {f"{id}@{label}": of_label for label, of_label in values.items()}
        assert isinstance(planner, Guard)
        entries, failed = planner.race(problem, list(lanes), rounds=rounds, tables=lanes, label="tune")
        samples = {entry["extra_info"]["id"].partition("@")[2]: entry["stats"]["data"] for entry in entries}
        return samples, {f["id"].partition("@")[2]: f"{f['outcome']}: {f['reason']}" for f in failed}

    knobs = [Knob(**{**knob, "among": tuple(knob["among"])}) for knob in one["knobs"]]
    problems = planning.tuning_problems(one["op"], dtypes, multiprocessors)
    return Tuner(knobs, one["ids"], problems, planner.plans, race, rounds=rounds, **more)


def trial_rows(one: Json, outcome: TuningOutcome) -> list[Json]:
    """Return one flat row for each trial, then for each unmeasured knob, then for each verification of a table."""
    rows = []
    common = {"backend": one["backend"], "op": one["op"]}
    for trial in outcome.trials:
        tried = {"knob": trial.knob, "value": trial.value, "against": trial.against, "id": trial.id}
        rows.append({**common, **tried, **_measured_values(trial), "taken": trial.taken, "reason": trial.reason})
    for name, why in outcome.unmeasured.items():
        rows.append({**common, "knob": name, "taken": False, "reason": why})
    for verified in outcome.verified:
        kept = verified.values == outcome.values
        why = "" if kept else "not faster than shipped, or more than 3 % slower on a problem"
        tried = {"knob": "whole table", "value": str(verified.values), "against": "shipped"}
        told = {"taken": kept, "reason": why, "held_out": verified.held_out}
        rows.append({**common, **tried, **_measured_values(verified), **told})
    return rows


def _measured_values(trial: Trial | TableVerdict) -> Json:
    ratio = trial.ratio
    interval = {"ratio": ratio.mid, "low": ratio.low, "high": ratio.high} if ratio is not None else {}
    told = {"worst": trial.worst, "verdict": trial.verdict.upper(), "problems": ", ".join(trial.problems)}
    return {**interval, **told}


def print_trials(one: Json, outcome: TuningOutcome) -> None:
    console = output.console()
    console.print(f"{one['backend']}/{one['op']}, {outcome.seconds:.0f} s", style="bold")
    table = output.make_table(
        *("knob", ">shipped", "tried", ">time / before", ">95 % interval", ">slowest problem", "verdict", "kept"),
        optional=("95 % interval", "slowest problem", "shipped"),
    )
    shipped = {knob["name"]: knob["shipped"] for knob in one["knobs"]}
    for row in trial_rows(one, outcome):
        note = "yes" if row["taken"] else f"no: {row['reason']}" if row["reason"] else "no"
        ratio, ends = output.number(row.get("ratio")), output.format_interval(row.get("low"), row.get("high")).strip()
        name, worst, said = row["knob"], output.number(row.get("worst")), row.get("verdict", "")
        tried = str(row.get("value", "-"))
        if name == "whole table":
            tried = ", ".join(f"{k}={v}" for k, v in outcome.values.items()) if row["taken"] else "-"
        style = "green" if row["taken"] else None
        table.add_row(name, str(shipped.get(name, "-")), tried, ratio, ends, worst, said, note, style=style)
    output.show(console, table)
    console.print()


def list_knobs(
    backend: str, arch: str, ops: Sequence[str], dtypes: Sequence[str], rounds: int, unavailable: dict[str, str]
) -> list[Json]:
    """List a backend's knobs (launch numbers), and where to measure each. ``unavailable`` gets reasons for failures."""
    from kernelzoo.measure.tuning import TuningError

    options.check_names("architecture", [arch], ARCHITECTURES)
    rows = []
    try:
        with SimulatedPlanner(backend, arch) as planner:
            for declared in planner.tables([backend], ops)["declared"]:
                tuner = make_tuner(declared, planner, dtypes, ARCHITECTURES[arch].multiprocessors, rounds)
                rows += knob_rows(declared, tuner)
    except TuningError:
        raise
    except KernelZooError as error:
        unavailable[backend] = str(error)
    return rows


def knob_rows(one: Json, tuner: Tuner) -> list[Json]:
    """Return a row for each knob of a table: its facts, and the problems on which it would be measured."""
    rows = []
    for knob, site in zip(tuner.knobs, tuner.find_knob_effects(tuner.knobs, {}), strict=True):
        problems = [problem.id for problem in site.problems] if site else []
        where = {"id": site.id if site else None, "affected": site.affected if site else 0, "problems": problems}
        rows.append({"backend": one["backend"], "op": one["op"], **asdict(knob), **where})
    return rows


def print_knobs(
    listed: Sequence[Json], where: str, rounds: int, minutes: float, absent: Mapping[str, str], json: bool
) -> int:
    """Print what ``kernelzoo tune`` would measure, and return the exit status."""
    from kernelzoo.measure import tuning

    if json:
        output.print_json({"where": where, "knobs": list(listed), "unavailable": dict(absent)})
        return 0
    console = output.console()
    console.print(f"on {where}; nothing is measured")
    for name in dict.fromkeys((row["backend"], row["op"]) for row in listed):
        console.print("/".join(name), style="bold")
        table = output.make_table(
            "knob", ">shipped", "values tried", "what it is", "measured on", optional=("what it is",)
        )
        for row in listed:
            if (row["backend"], row["op"]) == name:
                others = ", ".join(str(value) for value in row["among"] if value != row["shipped"])
                problems = ", ".join(problem.partition("-")[2] for problem in row["problems"])
                on = (
                    f"{row['id'].rpartition('/')[2]}: {problems}" if row["id"] else "nothing: it changes no launch here"
                )
                table.add_row(row["name"], str(row["shipped"]), others, f"{row['unit']} {row['why']}", on)
        output.show(console, table)
        console.print()
    for backend, why in absent.items():
        console.print(f"{backend} would not be tuned: {why}")
    output.print_note(
        console,
        f"A run measures each value against the shipped one in {rounds} rounds on these problems. After a knob is "
        "changed, the others are measured with the change, perhaps on other problems, then all knobs once more. The "
        f"whole table is then measured on up to {tuning.HELD_OUT} other problems of each implementation, and stored if "
        f"it is faster. After {minutes:g} minutes, the knobs that are left are skipped.",
    )
    return 0
