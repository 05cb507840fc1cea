"""The plans that launch tables choose for problems, found without compiling a kernel.

It imports languages, so use it only in a measuring process, or in a process for a simulated device.
"""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

from kernelzoo import operations, registry, tables
from kernelzoo.errors import InspectionError, KernelZooError
from kernelzoo.launch import record_binds
from kernelzoo.lazy import torch
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.worker_process import WorkerProcess
from kernelzoo.packages import backend_packages

Values = Mapping[str, int]
"""The knobs of a table that differ from the shipped table, by name."""

REFUSED = "refused"
"""The plan of a problem that the implementation refuses."""

_LARGEST = 2**26
"""The most elements of a problem. Rotated sets and the gate's copies take about eight times its bytes."""


def declared_knobs(backend: str, op: str) -> dict[str, Any] | None:
    """Return a loaded backend's knobs and ids for an operation, ``auto`` first; None without a launch table for it."""
    table = tables.declared_table(backend, op)
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


def hash_plans(id: str, problems: Sequence[Problem], knobs: Sequence[Values], device: torch.device) -> list[list[str]]:
    """Return, for each problem, a digest of the launches that each table leads to. Nothing is compiled or run.

    If a problem does not fit into the device's memory, its digests are "refused". The device ``meta`` has no limit.
    """
    implementation = registry.implementation(id)
    bind = registry._registered[implementation.backend, implementation.op, implementation.registered]
    made = [make_table(implementation, one) for one in knobs]
    found = []
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        for problem in problems:
            operation = problem.operation
            try:
                args = replace(problem.meta, inputs=operation.allocate_arbitrary_inputs(problem.meta, device))
                outs = operation.allocate(args)
                found.append([_plan_digest(bind, operation, args, outs, table) for table in made])
            except torch.OutOfMemoryError:
                found.append([REFUSED] * len(made))
    return found


def _plan_digest(
    bind: Any, operation: operations.Operation, args: operations.Arguments, outs: Sequence[torch.Tensor], table: Any
) -> str:
    with tables.using(table), record_binds() as steps:
        try:
            operation.make_launch(bind, args, outs)
        except KernelZooError:
            return REFUSED
    return hashlib.sha256(repr(steps).encode()).hexdigest()[:16]


def make_table(implementation: registry.Implementation, values: Values) -> Any:
    """Return a loaded backend's table with these values. Raises TableError if one is illegal or there is no table."""
    table = tables.declared_table(implementation.backend, implementation.op)
    if table is None:
        raise tables.TableError(f"{implementation.backend} declares no launch table for {implementation.op}")
    return tables.table_with_values(table, values)


def tuning_problems(op: str, dtypes: Sequence[str], multiprocessors: int) -> list[Problem]:
    """Return problems to tune on. Some have about as many rows as SMs. Some lengths are near powers of two."""
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


class SimulatedPlanner(WorkerProcess):
    """A process in which a backend plans for a simulated device. It can't measure.

    Raises InspectionError if the backend can't simulate that device, GuardError if its language can't be imported.
    """

    def __init__(self, backend: str, arch: str) -> None:
        package = backend_packages().get(backend, "")
        if not package or importlib.util.find_spec(f"{package}.inspection") is None:
            raise InspectionError(f"{backend} can't plan for {arch}: it has no module 'inspection'")
        environment = {
            **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), ""),
            **getattr(importlib.import_module(package), "COMPILES_WITH", {}),
        }
        super().__init__(patience=math.inf, opening={"simulated": [backend, arch]}, environment=environment)
