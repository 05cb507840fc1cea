"""Shards: parts of one sweep, which any scheduler runs separately. Their results are then merged."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kernelzoo import files
from kernelzoo.errors import KernelZooError
from kernelzoo.measure import record, schema
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.record import Json

T = TypeVar("T")


class ShardError(KernelZooError, ValueError):
    """There is no such shard, or files are not all shards of one sweep."""


@dataclass(frozen=True)
class Shard:
    """Every ``of``-th problem of a sweep, starting with the ``number``-th, counted from 1."""

    number: int
    of: int

    def select_part(self, plan: Sequence[T]) -> list[T]:
        """Return the shard's part of a plan. Raises ShardError if that part is empty."""
        if self.of > len(plan):
            raise ShardError(f"no shard of {self.of}: the sweep has {len(plan)} problems")
        return list(plan[self.number - 1 :: self.of])

    def describe(self, plan: Sequence[tuple[Problem, Sequence[str]]], how: Mapping[str, Any]) -> Json:
        """Return the shard as JSON: its number, a digest of the sweep, and the problems and ids to measure."""
        whole = [{"op": problem.op, **record.describe_problem(problem), "ids": list(ids)} for problem, ids in plan]
        sweep = hashlib.sha256(json.dumps([whole, how], sort_keys=True).encode()).hexdigest()
        return {"number": self.number, "of": self.of, "sweep": sweep, "asked": self.select_part(whole)}


def parse_shard(text: str) -> Shard | None:
    """Parse a shard: ``"2/4"`` is the second of four; "" gives None. Raises ShardError."""
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    number, of = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        raise ShardError(f"no shard {text!r}; write it like 1/4, the first of four")
    return Shard(number, of)


def merge_shards(paths: Sequence[Path]) -> Json:
    """Merge the files of all shards of a sweep. Raises ShardError unless each shard occurs once and is complete."""
    by_number: dict[int, tuple[Path, Json]] = {}
    for path in paths:
        document = _read(path)
        shard = document["kernelzoo"]["shard"]
        if shard["number"] in by_number:
            other = by_number[shard["number"]][0]
            raise ShardError(f"{other} and {path} both hold shard {shard['number']}/{shard['of']}")
        by_number[shard["number"]] = path, document
    documents = [by_number[number] for number in sorted(by_number)]
    path, first = documents[0]
    of = first["kernelzoo"]["shard"]["of"]
    for other, document in documents[1:]:
        for name, told in (("shard", "sweep"), ("source", "kernelzoo or --module")):
            ours, theirs = (one["kernelzoo"].get(name) for one in (first, document))
            if name == "shard":
                ours, theirs = ((one["of"], one["sweep"]) for one in (ours, theirs))
            if ours != theirs:
                raise ShardError(f"{path} and {other} are of different sweeps: not the same {told}")
    if missing := [str(number) for number in range(1, of + 1) if number not in by_number]:
        raise ShardError(f"a gap: no file holds shard {', '.join(missing)} of {of}")
    for path, document in documents:
        _check_complete(path, document)
    return _join_documents([document for _, document in documents])


def _read(path: Path) -> Json:
    try:
        document: Json = files.read_json(path)
    except files.FileError as error:
        raise ShardError(str(error)) from error
    if wrong := schema.find_error(document):
        raise ShardError(f"{path} is no results file of kernelzoo bench: {wrong.lstrip(': ')}")
    shard = document.get("kernelzoo", {}).get("shard")
    try:
        assert 1 <= shard["number"] <= shard["of"] and isinstance(shard["sweep"], str)
        _expected_keys(shard["asked"])
    except (AssertionError, AttributeError, KeyError, TypeError):
        raise ShardError(f"{path} is no shard; kernelzoo bench --shard K/N writes one") from None
    return document


def _check_complete(path: Path, document: Json) -> None:
    """Raise ShardError unless the file has exactly one result or failure for each problem and id of its shard."""
    shard = document["kernelzoo"]["shard"]
    asked, held = _expected_keys(shard["asked"]), set[object]()
    for row in (*(entry["extra_info"] for entry in document["benchmarks"]), *document["kernelzoo"].get("failed", [])):
        key = record.result_key(row)
        if key in held:
            raise ShardError(f"{path} holds {_format_key(key)} twice")
        if key not in asked:
            raise ShardError(f"{path} holds {_format_key(key)}, which is not of shard {shard['number']}/{shard['of']}")
        held.add(key)
    if left := [key for key in asked if key not in held]:
        raise ShardError(
            f"a gap: {path} lacks {len(left)} results, the first {_format_key(left[0])}; continue it with --resume"
        )


def _join_documents(documents: Sequence[Json]) -> Json:
    first, ours = documents[0], [document["kernelzoo"] for document in documents]
    devices = dict.fromkeys(str(document.get("machine_info", {}).get("device")) for document in documents)
    kernelzoo = {name: value for name, value in ours[0].items() if name not in ("shard", "workers")}
    kernelzoo["failed"] = [failure for one in ours for failure in one.get("failed", [])]
    if workers := [worker for one in ours for worker in one.get("workers", [])]:
        kernelzoo["workers"] = workers
    return {
        **first,
        "machine_info": {**first.get("machine_info", {}), "device": " and ".join(sorted(devices))},
        "datetime": max(str(document.get("datetime")) for document in documents),
        "benchmarks": [entry for document in documents for entry in document["benchmarks"]],
        "kernelzoo": kernelzoo,
    }


def _expected_keys(asked: Sequence[Json]) -> dict[object, None]:
    return {record.result_key({**one, "id": id}): None for one in asked for id in one["ids"]}


def _format_key(key: Any) -> str:
    id, _, shape, dim, dtype, *further = key
    sizes = "x".join(map(str, shape)) + ("" if dim == -1 else f" dim {dim}")
    return " ".join([id, "on", dtype, sizes, *(f"{name}={value}" for pairs in further for name, value in pairs)])
