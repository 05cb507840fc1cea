"""Measure some backends of a record again, and put their rows into it: what did not change stays as it is.

    python bench/again.py map-min cub               # on a GPU, of the model that the record is of
    python bench/again.py map-min cub --from FILE   # only put in what was measured
    python bench/again.py --more FILE RECORD.json   # put in problems that a record of part of them lacks

The record's own command runs for these backends and torch's yardstick alone. Rows are taken over if device, versions,
clock and problems are the record's, and if torch's yardstick takes the same time: within 2 % in the geometric mean.
Where the record has no time of the yardstick, its new row is taken over too.
Each says beside which card's rows it stands, and the record says what was measured again, when, and how the yardstick
did; the pages repeat it. ``python bench/records.py pages`` makes these.
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelzoo import packages, registry
from kernelzoo.files import read_json
from kernelzoo.measure import record
from kernelzoo.report.results import geometric_mean

ROOT = Path(__file__).parents[1]
MEAN = 0.02
"""How far the yardstick's mean may be from the record's, as a share of it."""
ENOUGH = 0.9
"""The least share of the record's problems on which the yardstick has a time again."""

Json = dict[str, Any]


class AgainError(ValueError):
    """Rows that can't stand beside those of the record."""


def command(words: Sequence[str], backends: Sequence[str]) -> list[str]:
    """A record's command for the yardstick and these backends."""
    made = list(words)
    options = {name: made.index(name) + 1 for name in ("--backend", "--variant", "--waive") if name in made}
    made[options["--backend"]] = ",".join(("torch", *backends))
    if not {*backends} & {*packages.BUILT_IN}:  # of torch only the yardstick
        variants = made[options["--variant"]].split(",")
        made[options["--variant"]] = ",".join(v for v in variants if v not in ("auto", "compile"))
    if "--waive" in options:
        waived = [id for id in made[options["--waive"]].split(",") if id.split("/")[0] in backends]
        made[options["--waive"] - 1 : options["--waive"] + 1] = ["--waive", ",".join(waived)] if waived else []
    return made


def merged(old: Json, new: Json, backends: Sequence[str]) -> Json:
    """The record ``old`` with the rows of these backends from ``new``. Raises AgainError."""
    _check_alike(old, new)
    times = [_yardstick(document) for document in (old, new)]
    first = times[1].keys() - times[0].keys()  # where the record has no time of the yardstick
    failures = {_problem(failure) for failure in old["kernelzoo"]["failed"] if _is_yardstick(failure)}
    if first - failures or len(times[1]) - len(first) < ENOUGH * len(times[0]):
        raise AgainError("the yardstick has other problems than in the record")
    ratios = [times[1][key][0] / times[0][key][0] for key in times[1].keys() & times[0].keys()]
    mean = geometric_mean(ratios) or 0.0
    if abs(mean - 1) > MEAN:
        raise AgainError(f"the yardstick takes {mean:.3f} of the record's time, more than {MEAN:.0%} apart")
    infos = ((entry, entry["extra_info"]) for entry in new["benchmarks"])
    entries = [
        entry
        for entry, info in infos
        if info["backend"] in backends or (_is_yardstick(info) and _problem(info) in first)
    ]
    failed = [failure for failure in new["kernelzoo"]["failed"] if failure["id"].split("/")[0] in backends]
    _check_whole({**times[0], **times[1]}, [entry["extra_info"] for entry in entries] + failed, backends)
    held = (entry["extra_info"] for entry in old["benchmarks"])
    cards = {_problem(info): info.get("beside") or info["gpu"] for info in held}
    for info in (entry["extra_info"] for entry in entries):
        card = cards.get(_problem(info), info["gpu"])
        info["beside"] = None if card == info["gpu"] else card
    ours = old["kernelzoo"]
    told = {
        "backends": list(backends),
        "datetime": new["datetime"],
        "commit_info": new["commit_info"],
        "yardstick": {"mean": round(mean, 4), "least": round(min(ratios), 4), "most": round(max(ratios), 4)},
    }
    others = [entry for entry in old["benchmarks"] if entry["extra_info"]["backend"] not in backends]
    without = [
        failure
        for failure in ours["failed"]
        if failure["id"].split("/")[0] not in backends and not (_is_yardstick(failure) and _problem(failure) in first)
    ]
    earlier = [one for one in ours.get("again", []) if not {*one["backends"]} <= {*backends}]
    return {
        **old,
        "benchmarks": [*others, *entries],
        "kernelzoo": {**ours, "failed": [*without, *failed], "again": [*earlier, told]},
    }


def joined(old: Json, new: Json) -> Json:
    """The record ``old`` with the problems of ``new`` that it lacks, all their rows. Raises AgainError."""
    _check_alike(old, new)
    label = old["benchmarks"][0]["extra_info"]["shape_set"]
    held = {_problem(entry["extra_info"]) for entry in old["benchmarks"]}
    entries = [entry for entry in new["benchmarks"] if _problem(entry["extra_info"]) not in held]
    for entry in entries:
        entry["extra_info"]["shape_set"] = label
    failed = [failure for failure in new["kernelzoo"]["failed"] if _problem(failure) not in held]
    ours = old["kernelzoo"]
    return {
        **old,
        "benchmarks": [*old["benchmarks"], *entries],
        "kernelzoo": {**ours, "failed": [*ours["failed"], *failed]},
    }


def _check_alike(old: Json, new: Json) -> None:
    """Raise AgainError unless device, clock, rounds and versions are the same; of versions, those that both name."""
    facts = [{name: _one(document, name) for name in ("device", "clock", "cache", "rounds")} for document in (old, new)]
    for name, value in facts[0].items():
        if facts[1][name] != value:
            raise AgainError(f"{name} {facts[1][name]}, and in the record {value}")
    there, here = (document["benchmarks"][0]["extra_info"]["versions"] for document in (old, new))
    for name in there.keys() & here.keys():
        if there[name] != here[name]:
            raise AgainError(f"{name} {here[name]}, and in the record {there[name]}")


def _one(document: Json, name: str) -> str:
    return ", ".join(sorted({str(entry["extra_info"][name]) for entry in document["benchmarks"]}))


def _yardstick(document: Json) -> dict[Any, tuple[float, Json | None]]:
    """Of each problem the seconds of torch's yardstick, and its card."""
    infos = ((entry["extra_info"], entry["stats"]["median"]) for entry in document["benchmarks"])
    return {_problem(info): (seconds, info["gpu"]) for info, seconds in infos if _is_yardstick(info)}


def _is_yardstick(info: Json) -> bool:
    return bool(info["id"] == registry.baseline(info["op"]))


def _problem(info: Json) -> Any:
    """What a result or a failure is of, the implementation aside."""
    return record.result_key({**info, "id": ""})


def _check_whole(problems: Any, found: Sequence[Json], backends: Sequence[str]) -> None:
    """Raise AgainError unless each id has a result, or a failure, on each problem of its operation."""
    held = {(one["id"], _problem(one)) for one in found}
    for backend in backends:
        ids = {id for id, _ in held if id.split("/")[0] == backend}
        ops = {id.split("/")[1] for id in ids}
        lacking = [(id, p) for id in ids for p in problems if p[1] == id.split("/")[1] and (id, p) not in held]
        if lacking or not ops:
            raise AgainError(f"a gap: {backend} lacks {len(lacking) or 'all'} results; measure on with --resume")


def _records() -> Any:
    spec = importlib.util.spec_from_file_location("records_of_kernelzoo", Path(__file__).with_name("records.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _measure(name: str, backends: Sequence[str], resume: bool) -> tuple[Path, Path]:
    """Run the record's command on this machine; the record's file, and the new one."""
    records = _records()
    gpu = records._name(records._gpus()[0])
    (of,) = (one for one in records.RECORDS if one.name == name)
    held = ROOT / records._path(of.file, gpu)
    if not held.exists():
        raise AgainError(f"{held} is not there: a record is made whole on a GPU of its model first")
    aside = ROOT / "out" / "again" / held.name
    aside.parent.mkdir(parents=True, exist_ok=True)
    if not resume:
        aside.unlink(missing_ok=True)
    words = [*command(of.words(gpu, aside), backends), *["--resume"] * resume]
    print(shlex.join(words), flush=True)
    status = subprocess.run([sys.executable, "-m", *words], cwd=ROOT).returncode
    if status not in (0, 1):  # 1: a row is wrong, which is a result too
        raise AgainError(f"the command ended with {status}; --resume goes on")
    return held, aside


def _held(name: str) -> Iterator[Path]:
    yield from (ROOT / "bench" / "results").glob(f"*-{name}.json*")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure some backends of a record again; see the source.")
    parser.add_argument("record", help="as bench/records.py lists it; its file for --more")
    parser.add_argument("backends", nargs="?", default="", help="with commas between")
    parser.add_argument("--more", type=Path, metavar="FILE", help="results of problems that the record lacks")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="what was measured already")
    parser.add_argument("--resume", action="store_true", help="go on with what was cut off, in out/again")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="by default the record itself")
    options = parser.parse_args(argv)
    backends = options.backends.split(",")
    try:
        if options.more:
            held = Path(options.record)
            record.write(options.output or held, joined(read_json(held), read_json(options.more)))
            return 0
        if options.source:
            (held,) = _held(options.record)
            source = options.source
        else:
            held, source = _measure(options.record, backends, options.resume)
        document = merged(read_json(held), read_json(source), backends)
    except AgainError as error:
        print(f"not taken over: {error}", file=sys.stderr)
        return 1
    to = options.output or held
    record.write(to, document)
    print(f"{options.backends} in {to}; yardstick {document['kernelzoo']['again'][-1]['yardstick']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
