"""Results files, in the JSON layout of pytest-benchmark, so that its command ``compare`` can read them."""

from __future__ import annotations

import datetime
import functools
import gzip
import hashlib
import json
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelzoo import files, tables
from kernelzoo.errors import KernelZooError
from kernelzoo.measure import schema
from kernelzoo.measure.environment import device_name, gpu_uuid, versions
from kernelzoo.measure.measurement import OF_CALLS, Measurement, clocks_disagree
from kernelzoo.measure.problems import Problem

if TYPE_CHECKING:
    from kernelzoo.measure.ceilings import Ceilings

Json = dict[str, Any]


class RecordError(KernelZooError, ValueError):
    """A results file can't be written or continued: its kind, device, version or setting differs."""


def extra_info(measured: Measurement, device: str, ceilings: Ceilings | None, shape_set: str) -> Json:
    """Return all facts of a result except its samples. The commands that report results read only these."""
    problem, implementation = measured.problem, measured.implementation
    return {
        "id": implementation.id,
        "backend": implementation.backend,
        "op": problem.op,
        "variant": implementation.variant,
        "form": measured.form or None,
        **describe_problem(problem),
        "bytes": measured.bytes,
        "gb_per_s": _round(measured.gb_per_s) if measured.clock not in OF_CALLS else None,
        "clock": measured.clock,
        "clock_detail": measured.clock_detail,
        "cache": measured.cache,
        "device": device_name(device),
        "gpu": {"index": _device_index(device), "uuid": uuid} if (uuid := gpu_uuid(device)) else None,
        "table": tables.table_label(implementation.backend, problem.op, _device_index(device)),
        "versions": versions(device),
        "samples": len(measured.samples),
        "rounds": measured.rounds,
        "race": measured.race,
        "submit_us": _round(measured.submit, 1e6),
        "first_call_ms": _round(measured.first_call, 1e3),
        "cupti_us": _round(measured.cupti, 1e6),
        "ceiling_gb_per_s": _round(ceilings.bandwidth(problem.op), 1e-9) if ceilings else None,
        "floor_us": _round(ceilings.floor, 1e6) if ceilings else None,
        "copy_us": _round(measured.copy, 1e6),
        "limit_us": _round(measured.limit, 1e6),
        "of_limit": _round(measured.fraction_of_limit),
        # If the energy is unknown, the flags say why.
        "energy": measured.energy.as_numbers if measured.energy and not measured.energy.unknown else None,
        "same_bits": measured.same_bits,
        "batch_invariant": measured.batch_invariant,
        "repeated_rounds": measured.repeated_rounds,
        "flags": list(measured.flags),
        "breaks": measured.breaks or None,
        "condition": [asdict(condition) for condition in measured.condition] if measured.condition else None,
        "shape_set": shape_set,
    }


def _device_index(device: str) -> int:
    return int(device.partition(":")[2] or 0) if device.startswith("cuda") else -1


def make_benchmark_entry(measured: Measurement, device: str, ceilings: Ceilings | None, shape_set: str) -> Json:
    """Return an entry of a results file's ``benchmarks``, as pytest-benchmark writes it."""
    data = measured.samples
    first, _, third = statistics.quantiles(data, n=4, method="inclusive") if len(data) > 1 else 3 * data
    spread = statistics.stdev(data) if len(data) > 1 else 0.0
    name = f"{measured.problem.id}-{measured.implementation.id}"
    return {
        "group": measured.problem.id,
        "name": f"test_bench[{name}]",
        "fullname": f"bench/test_bench.py::test_bench[{name}]",
        "params": None,
        "param": name,
        "extra_info": extra_info(measured, device, ceilings, shape_set),
        "options": {},
        "stats": {
            "min": min(data),
            "max": max(data),
            "mean": statistics.fmean(data),
            "stddev": spread,
            "rounds": len(data),
            "median": statistics.median(data),
            "iqr": third - first,
            "q1": first,
            "q3": third,
            "iqr_outliers": 0,
            "stddev_outliers": 0,
            "outliers": "0;0",
            "ld15iqr": min(data),
            "hd15iqr": max(data),
            "ops": 1 / statistics.fmean(data),
            "total": math.fsum(data),
            "data": list(data),
            "iterations": 1,
        },
    }


def add_cross_check(entry: Json, seconds: float) -> None:
    """Add the profiler's time to a result, and a flag if the clocks disagree."""
    info = entry["extra_info"]
    info["cupti_us"] = _round(seconds, 1e6)
    if clocks_disagree(entry["stats"]["median"], seconds):
        info["flags"] = [*info["flags"], "clocks disagree"]


def describe_problem(problem: Problem) -> Json:
    """Return a problem as JSON, without its operation. Named axes and scalars are included if there are any."""
    found: Json = {"shape": list(problem.shape), "dim": problem.dim, "dtype": problem.dtype}
    found |= {} if problem.operation.by_rows else {"axes": problem.axes}
    return found | ({"scalars": dict(problem.scalars)} if problem.scalars else {})


def failure(problem: Problem, id: str, outcome: str, reason: str) -> Json:
    """Return the record of a failure on a problem. ``outcome`` is ``refused``, ``wrong`` or ``failed``."""
    return {"id": id, "op": problem.op, **describe_problem(problem), "outcome": outcome, "reason": reason}


def find_failure_record(measured: Measurement) -> Json | None:
    """Return the record of a measurement's failure; None if it has none."""
    for outcome in ("wrong", "failed", "refused"):
        if reason := getattr(measured, outcome):
            return failure(measured.problem, measured.implementation.id, outcome, reason) | measured.details
    return None


def machine(device: str) -> Json:
    """Describe this machine for the head of a results file."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "release": platform.release(),
        "python_version": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "cpu": {"brand_raw": device_name("cpu")},
        "device": device,
    }


def digest_sources(modules: Sequence[Path]) -> Json:
    """Return digests of kernelzoo's files and of each module. A module's package is included."""
    found = {m.name: _digest([file for one in modules if one.name == m.name for file in _files(one)]) for m in modules}
    return {"sha256": _digest_own_files(), "modules": found}


def _files(module: Path) -> list[Path]:
    """Return the files that a module may run: all of its package, or its own if it has no package."""
    beside = sorted(module.parent.glob("*.*")) if module.with_name("__init__.py").exists() else []
    return beside or [module]


class Record:
    """A results file that grows by one problem at a time. Each write replaces the file atomically."""

    def __init__(
        self,
        path: Path,
        device: str,
        *,
        resume: bool = False,
        versions: Mapping[str, str] | None = None,
        rounds: int | None = None,
        modules: Sequence[Path] = (),
        shard: Json | None = None,
    ) -> None:
        """``device``: a name from :func:`kernelzoo.measure.device_name`. ``shard``: what ``Shard.describe`` returned.

        If ``resume``, an existing file is continued. Raises RecordError if it is no results file, or was measured with
        another shard, device, kernelzoo or ``modules``. If given, ``versions`` and ``rounds`` must match too.
        """
        now = digest_sources(modules)
        self.path = path
        self._document: Json = {
            "machine_info": machine(device),
            "commit_info": commit(),
            "benchmarks": [],
            "datetime": datetime.datetime.now(datetime.UTC).isoformat(),
            "version": "5.1.0",  # of pytest-benchmark, whose layout this is
            "kernelzoo": {"format": schema.FORMAT, "failed": [], "source": now} | ({"shard": shard} if shard else {}),
        }
        if resume and path.exists():
            held = _read_to_resume(path, device, versions, rounds)
            if held["benchmarks"] or held["kernelzoo"]["failed"] or held["kernelzoo"].get("verdicts"):
                _check_source(path, held, now)
                _check_shard(path, held["kernelzoo"].get("shard"), shard)
                now["modules"] = held["kernelzoo"]["source"]["modules"] | now["modules"]
                held["kernelzoo"]["source"] = now
                self._document = held

    @property
    def entries(self) -> list[Json]:
        return list(self._document["benchmarks"])

    @property
    def failed(self) -> list[Json]:
        return list(self._document["kernelzoo"]["failed"])

    def add_workers(self, workers: Sequence[Json]) -> None:
        """Add descriptions of workers. The next call of :meth:`add` writes them."""
        self._document["kernelzoo"]["workers"] = [*self._document["kernelzoo"].get("workers", []), *workers]

    def ids_to_run(self, problem: Problem, ids: Sequence[str], cache: str = "cold", timed: str = "device") -> list[str]:
        """Return the ids that have neither a result nor a failure for this problem, cache state and kind of timing."""
        infos = [e["extra_info"] for e in self._document["benchmarks"]]
        infos = [info for info in infos if (info["clock"] == "call") == (timed == "call")]
        held = {result_key(info) for info in infos if info.get("cache", "cold") == cache} | {
            result_key(f) for f in self._document["kernelzoo"]["failed"]
        }
        return [id for id in ids if result_key({"id": id, "op": problem.op, **describe_problem(problem)}) not in held]

    def add(self, entries: Sequence[Json], failed: Sequence[Json], verdicts: Sequence[Json] = ()) -> None:
        """Add results, and write the file, else raise RecordError. With ``verdicts``, replace earlier results."""
        ours, held = self._document["kernelzoo"], self._document["benchmarks"]
        lost = ours["failed"]
        if verdicts:
            new = {*(result_key(entry["extra_info"]) for entry in entries), *map(result_key, failed)}
            held = [entry for entry in held if result_key(entry["extra_info"]) not in new]
            lost = [failure for failure in lost if result_key(failure) not in new]
            ours = {**ours, "verdicts": [*ours.get("verdicts", []), *verdicts]}
        ours = {**ours, "failed": [*lost, *failed]}
        grown = {**self._document, "benchmarks": [*held, *entries], "kernelzoo": ours}
        try:
            write(self.path, grown)
        except OSError as error:
            there = f"; it is complete except for the last {len(entries)} results" if self.path.exists() else ""
            raise RecordError(f"{self.path} can't be written: {error.strerror}{there}") from error
        self._document = grown


def write(path: Path, document: Json) -> None:
    """Write a results file completely or not at all. Raises OSError."""
    text = json.dumps(document, indent=1, allow_nan=False).encode()
    files.write_atomically(path, gzip.compress(text, mtime=0) if files.resolve_symlinks(path).suffix == ".gz" else text)


def _read_to_resume(path: Path, device: str, versions: Mapping[str, str] | None, rounds: int | None) -> Json:
    try:
        document: Json = files.read_json(path)
    except files.FileError as error:
        raise RecordError(f"can't resume: {error}") from error
    if wrong := schema.find_error(document):
        raise RecordError(f"{path} can't be resumed: it is no results file of kernelzoo bench: {wrong.lstrip(': ')}")
    machine = document.get("machine_info")
    if "kernelzoo" not in document or not isinstance(machine, dict):
        raise RecordError(f"{path} can't be resumed: kernelzoo bench did not write it")
    entries, ours = document["benchmarks"], document["kernelzoo"]
    if (entries or ours.setdefault("failed", [])) and machine.get("device") != device:
        raise RecordError(
            f"{path} was measured on {machine.get('device')!r:.200}, this is {device!r}; name another file"
        )
    for info in (entry["extra_info"] for entry in entries):
        if versions is not None and (other := _first_difference(info["versions"], versions)):
            raise RecordError(f"{path} was measured with {other}; name another file, or go back to those versions")
        asked = info.get("rounds", info["samples"])
        if rounds is not None and asked != rounds:
            raise RecordError(
                f"{path} holds races of {asked} rounds, and --rounds asks for {rounds}; name another file, or go on "
                f"with --rounds {asked}"
            )
    return document


def _check_source(path: Path, document: Json, now: Json) -> None:
    """Raise RecordError if kernelzoo's files or those of a module have changed since the file was measured."""
    then = document["kernelzoo"].get("source", {"sha256": "", "modules": {}})
    if then["sha256"] != now["sha256"]:
        old = document.get("commit_info")
        ids = (str(of.get("id", ""))[:10] if isinstance(of, dict) else "" for of in (old, commit()))
        at, here = (id or "an unknown commit" for id in ids)
        raise RecordError(
            f"{path} was measured by another kernelzoo (at {at}, this is at {here}), or by this one before it was "
            "edited; name another file"
        )
    for name, digest in now["modules"].items():
        if then["modules"].get(name, digest) != digest:
            raise RecordError(f"{path} was measured with another {name}, or before it was edited; name another file")


def _check_shard(path: Path, held: Json | None, now: Json | None) -> None:
    """Raise RecordError if the file's shard ``held`` is not the expected shard. None means a complete sweep."""
    if held == now:
        return
    there, here = (f"shard {of['number']}/{of['of']} of a sweep" if of else "a whole sweep" for of in (held, now))
    other = "other problems or options" if there == here else here
    raise RecordError(f"{path} holds {there}, and this is {other}; name another file")


def _first_difference(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return the first version that differs, as text; "" if none does."""
    for name in dict.fromkeys([*there, *here]):
        if there.get(name) != here.get(name):
            return f"{name} {there.get(name, 'absent')}, and this is {name} {here.get(name, 'absent')}"
    return ""


def result_key(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key for the implementation and problem of a result or failure."""
    further = (tuple(sorted(result.get(key, {}).items())) for key in ("axes", "scalars"))
    return result["id"], result["op"], tuple(result["shape"]), result["dim"], result["dtype"], *further


_HOME = Path(__file__).resolve().parents[1]


def commit() -> Json:
    """Return the commit of kernelzoo's sources, in pytest-benchmark's layout. Outside git, its id is empty."""
    try:
        git(_HOME, "ls-files", "--error-unmatch", "__init__.py")  # it may be installed inside another repository
        return {"id": git(_HOME, "rev-parse", "HEAD"), "dirty": bool(git(_HOME, "status", "--porcelain", "--", "."))}
    except (OSError, subprocess.SubprocessError):
        return {"id": "", "dirty": False}


def git(folder: Path, *words: str, timeout: float = 10) -> str:
    """Run git in a folder, and return its output. Raises OSError or SubprocessError."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # for example a hook's
    options = {"cwd": folder, "env": clean, "capture_output": True, "text": True, "timeout": timeout, "check": True}
    return str(subprocess.run(["git", *words], **options).stdout).strip()  # type: ignore[call-overload]


@functools.cache
def _digest_own_files() -> str:
    """Return a digest of kernelzoo's own files."""
    return _digest(sorted(path for path in _HOME.rglob("*") if path.is_file() and "__pycache__" not in path.parts))


def _digest(paths: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _round(value: float | None, scale: float = 1.0) -> float | None:
    """Scale a value, and round it to five digits, because no clock is more exact. None stays None."""
    return None if value is None else float(f"{value * scale:.5g}")
