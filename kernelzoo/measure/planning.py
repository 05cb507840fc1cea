"""The plans that launch tables make of problems, without compiling a kernel, and lanes bound with a table.

It imports languages, so it runs in the measuring process or in one for a simulated device.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from kernelzoo import children, inspect, operations, registry, tables
from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import BackendUnavailableError, InspectionError, KernelZooError
from kernelzoo.launch import recorded
from kernelzoo.measure.problems import Problem, problem_of
from kernelzoo.packages import how_to_install, packages

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch

Values = Mapping[str, int]
"""Knobs of a table that differ from the shipped ones."""

REFUSED = "refused"
"""The plan of a problem that the implementation refuses."""

_LARGEST = 2**26
"""Most elements of a problem. Rotated sets and the gate's copies take about eight times its bytes."""


@dataclass(frozen=True)
class Lane(registry.Implementation):
    """An implementation bound with a launch table of its own, which its name mentions."""

    table: Any = None
    label: str = ""

    @property
    def id(self) -> str:
        return f"{super().id}@{self.label}"

    def bind(self, *tensors: torch.Tensor, **scalars: Any) -> Launch:
        with tables.using(self.table):
            return super().bind(*tensors, **scalars)

    def form(self, *tensors: torch.Tensor, **scalars: Any) -> str:
        with tables.using(self.table):
            return super().form(*tensors, **scalars)


def lane(name: str, values: Values) -> Lane:
    """The lane named ``backend/op/variant@label`` with these values. Raises TableError for illegal ones."""
    id, _, label = name.partition("@")
    i = registry.implementation(id)
    registry.language(i.backend)  # it declares its tables
    return Lane(i.backend, i.op, i.variant, i.summary, i.chooses, _made(i, values), label)


def declarations(backend: str, op: str) -> dict[str, Any] | None:
    """The knobs that a loaded backend declares for an operation, and its variants, ``auto`` first."""
    table = tables.declared(backend, op)
    if table is None:
        return None
    variants = sorted(
        (v for b, o, v in registry._registered if (b, o) == (backend, op)), key=lambda v: (v != "auto", v)
    )
    return {
        "backend": backend,
        "op": op,
        "declared": tables.digest(table),
        "knobs": [asdict(knob) for knob in tables.knobs(table)],
        "ids": [f"{backend}/{op}/{variant}" for variant in variants],
    }


def plans(id: str, problems: Sequence[Problem], values: Sequence[Values], device: torch.device) -> list[list[str]]:
    """For each problem, a digest of the plan by each table. Equal digests are equal launches.

    Nothing is compiled and nothing runs. On the device ``meta`` tensors have no memory. A problem without room on the
    device counts as refused.
    """
    import torch

    implementation = registry.implementation(id)
    bind = registry._registered[implementation.backend, implementation.op, implementation.registered]
    made = [_made(implementation, one) for one in values]
    found = []
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        for problem in problems:
            operation = problem.operation
            try:
                args = replace(problem.meta, inputs=operation.unset(problem.meta, device))
                outs = operation.allocate(args)
                found.append([_planned(bind, operation, args, outs, table) for table in made])
            except torch.OutOfMemoryError:
                found.append([REFUSED] * len(made))
    return found


def _planned(
    bind: Any,
    operation: operations.Operation,
    args: operations.Arguments,
    outs: Sequence[torch.Tensor],
    table: Any,
) -> str:
    with tables.using(table), recorded() as steps:
        try:
            operation.launch(bind, args, outs)
        except KernelZooError:
            return REFUSED
    return hashlib.sha256(repr(steps).encode()).hexdigest()[:16]


def _made(implementation: registry.Implementation, values: Values) -> Any:
    table = tables.declared(implementation.backend, implementation.op)
    if table is None:
        raise tables.TableError(f"{implementation.backend} declares no launch table for {implementation.op}")
    return tables.made(table, values)


def pool(op: str, dtypes: Sequence[str], multiprocessors: int) -> list[Problem]:
    """Problems to tune on: few to many rows, some near the number of SMs. Lengths are around powers of two, and the
    axis is not always the last."""
    m = multiprocessors
    rows = sorted({8, 16, 40, m // 2 + 1, m - 1, m, 2 * m + 1, 3 * m, 1000, 4096, 20011, 100003, 499979})
    lengths = (
        *(33, 61, 64, 127, 256, 509, 781, 1000, 1024, 1536, 2048, 3000, 4097, 5003, 6144, 8192, 12672, 16384, 25000),
        *(32768, 50257, 65537, 99991, 131072, 262144, 524309, 1048576),
    )
    shapes: list[tuple[tuple[int, ...], int]] = [((r, n), -1) for n in lengths for r in rows]
    even = (
        *((8192, 8192), (2048, 2048), (16384, 1000), (4096, 300), (300, 16384), (600, 4096), (200, 65536)),
        *((1000, 4 * m), (3000, 8 * m), (800, 2000), (1536, 4096), (1000, 8192), (100, 100000), (30000, 256)),
    )
    odd = ((1000003, 33), (100, 65537), (5003, 333), (1500, 1999), (20011, 77), (3001, 4097), (800, 1111), (500009, 61))
    shapes += [(shape, 0) for shape in (*even, *odd)]
    middle = ((64, 1024, 96), (16, 4099, 333), (32, 512, 512), (8, 2000, 1024), (4, 1500, 777), (64, 300, 1000))
    shapes += [(shape, 1) for shape in middle]
    sized = [(shape, dim) for shape, dim in shapes if 2**19 <= math.prod(shape) <= _LARGEST]
    return [Problem(op, shape, dtype, dim) for shape, dim in sized for dtype in dtypes]


# ---------------------------------------------------------------------------------------------------------------------
# On a simulated device


class Described:
    """A process in which a backend plans for a simulated device. It can't measure.

    Use it as a context manager. Raises InspectionError if the backend can't simulate that device or the process dies,
    BackendUnavailableError if its language can't be imported.
    """

    def __init__(self, backend: str, arch: str) -> None:
        self._backend, self._arch = backend, arch
        package = packages().get(backend, "")
        if not package or importlib.util.find_spec(f"{package}.inspection") is None:
            raise InspectionError(f"{backend} can't plan for {arch}: it has no module 'inspection'")
        environment = {
            **children.environment(here=True),
            **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), ""),
            **getattr(importlib.import_module(package), "COMPILES_WITH", {}),
        }
        self._log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kernelzoo.measure.planning", backend, arch],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def declarations(self, op: str) -> dict[str, Any] | None:
        """See :func:`declarations`."""
        found: dict[str, Any] | None = self._ask({"op": op})
        return found

    def plans(self, id: str, problems: Sequence[Problem], values: Sequence[Values]) -> list[list[str]]:
        """See :func:`plans`."""
        request = {"id": id, "problems": [asdict(problem) for problem in problems], "values": [dict(v) for v in values]}
        found: list[list[str]] = self._ask(request)
        return found

    def race(self, id: str, problem: Problem, values: Mapping[str, Values], rounds: int) -> Any:
        """Raises InspectionError, since nothing is measured."""
        raise InspectionError(f"{id} can't be measured on {self._arch}, a simulated device")

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # a dead process gives no answer
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._log.seek(0)
        last = self._log.read().strip().rpartition("\n")[2] or f"exit status {self._process.returncode}"
        if last.startswith(("ImportError:", "ModuleNotFoundError:")):
            raise BackendUnavailableError(self._backend, last, how_to_install(self._backend))
        raise InspectionError(f"{self._backend} can't plan for {self._arch} here: {last}")


def main(backend: str, arch: str) -> None:
    """The process of :class:`Described`: requests and replies are lines of JSON."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps a language's output apart from replies
    with inspect.on_described(backend, ARCHITECTURES[arch]):
        import torch

        for request in map(json.loads, sys.stdin):
            if "id" in request:
                problems = list(map(problem_of, request["problems"]))
                answer: Any = plans(request["id"], problems, request["values"], torch.device("meta"))
            else:
                answer = declarations(backend, request["op"])
            print(json.dumps(answer), file=replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
