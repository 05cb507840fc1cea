"""The cost of compiling: the first call in a new process, with empty or filled disk caches.

Each figure is a single call by the host's clock. It tells seconds from milliseconds; small differences mean nothing.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from kernelzoo import tables, user_cache
from kernelzoo.calls import backend as backends
from kernelzoo.errors import BackendUnavailableError
from kernelzoo.lazy import torch
from kernelzoo.measure.environment import device_name
from kernelzoo.measure.problems import Problem
from kernelzoo.measure.worker_process import DiedError, GuardError, Json, WorkerProcess, say_nothing

Shape = tuple[int, ...]

CLASSES: dict[str, tuple[tuple[Shape, int], tuple[Shape, int]]] = {
    "short rows": (((65536, 64), -1), ((50000, 48), -1)),
    "rows of 16-byte words": (((4096, 1024), -1), ((3000, 896), -1)),
    "odd rows": (((1823, 781), -1), ((2003, 733), -1)),
    "long rows": (((256, 32768), -1), ((200, 30720), -1)),
    "few very long rows": (((16, 262144), -1), ((12, 250000), -1)),
    "columns": (((4096, 1024), 0), ((3072, 1536), 0)),
}
"""Two shapes for each class of problems, with the reduced axis. The second shape should reuse the first's kernels."""

# Where languages, torch and the driver cache compiled code.
_CACHES = (
    *("TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR"),
    "XDG_CACHE_HOME",
)


@dataclass(frozen=True)
class FirstCall:
    """First-call times in milliseconds of an implementation on one class of problems; None if not measured."""

    id: str
    problem_class: str
    dtype: str
    shape: str
    second_shape: str
    outcome: str
    """``measured``, ``refused``, ``wrong`` or ``failed``."""
    reason: str = ""
    device: str = ""
    table: str | None = None
    load_ms: float | None = None
    """Import of the language and search for a device, after torch has created the device's context."""
    empty_ms: float | None = None
    """First call in a process with empty disk caches."""
    stored_ms: float | None = None
    """First call in a second process, which finds the compiled code of the first process on disk."""
    second_ms: float | None = None
    """First call on the second shape, in the first process."""
    second_files: int | None = None
    """The number of files that the second shape added to the caches; 0 if all kernels were reused."""
    call_ms: float | None = None
    """Second call on the first shape, when everything is compiled."""


def first_calls(
    ids: Sequence[str], dtypes: Sequence[str], device: str, modules: Sequence[str], *, patience: float
) -> Iterator[FirstCall]:
    """Yield the first-call times of each id and dtype on each of CLASSES. An unavailable backend gets only one row."""
    unavailable = set[str]()
    for id, dtype, name in product(ids, dtypes, CLASSES):
        backend = id.partition("/")[0]
        if backend not in unavailable:
            found = first_call(id, name, dtype, device, modules, patience=patience)
            if found.outcome == "refused" and found.load_ms is None:
                unavailable.add(backend)
            yield found


def first_call(
    id: str, problem_class: str, dtype: str, device: str, modules: Sequence[str], *, patience: float
) -> FirstCall:
    """Measure one implementation on one class of problems. ``patience``: seconds that a process may take."""
    shapes = CLASSES[problem_class]
    first, second = ("x".join(map(str, shape)) for shape, _ in shapes)
    request = {"do": "first_call", "id": id, "dtype": dtype, "problems": shapes}
    with tempfile.TemporaryDirectory(prefix="kernelzoo-first-") as folder:
        if (stored := user_cache.folder("tables")).is_dir():  # launch tables are no compilation cache
            shutil.copytree(stored, Path(folder, "kernelzoo", "tables"))

        def asked() -> Json:
            environment = dict.fromkeys(_CACHES, folder)
            try:
                with WorkerProcess(device, modules, patience=patience, environment=environment) as process:
                    return process._ask({**request, "folder": folder}, say_nothing)
            except (DiedError, GuardError) as error:
                return {"outcome": "failed", "reason": str(error)}

        found = asked()
        if found["outcome"] == "measured":
            again = asked()
            found |= {"stored_ms": again["empty_ms"]} if again["outcome"] == "measured" else again
        return FirstCall(id, problem_class, dtype, first, second, **found)


def time_calls(id: str, dtype: str, problems: Sequence[tuple[Shape, int]], folder: str, device: Any) -> Json:
    """Time a first call on each shape, and a second call on the first shape. Returns fields of :class:`FirstCall`."""
    found: Json = {"outcome": "measured", "device": device_name(str(device))}
    backend_name, op, variant = id.split("/")
    torch.ones(1, device=device).add_(1).cpu()  # creates the device's context, which is torch's cost
    try:
        backend, found["load_ms"] = _time_until_done(lambda: backends.get(backend_name), device)
    except BackendUnavailableError as error:
        return {**found, "outcome": "refused", "reason": str(error)}
    if backend.emulator:
        return {**found, "outcome": "refused", "reason": f"{backend.emulator} runs here, and is never timed"}
    found["table"] = tables.table_label(backend_name, op, device.index or 0) if device.type == "cuda" else None
    made = [Problem(op, tuple(shape), dtype, dim) for shape, dim in problems]
    generator = torch.Generator(device).manual_seed(0)
    given = [problem.inputs(generator) for problem in made]
    results = []
    for key, number in (("empty_ms", 0), ("call_ms", 0), ("second_ms", 1)):
        problem, inputs = made[number], given[number]
        files = _count_files(folder)
        named = {"dim": problem.dim} if problem.operation.by_rows else {}
        call = partial(getattr(backend, op), *inputs, variant=variant, **named)
        result, found[key] = _time_until_done(call, device)
        results.append((result, inputs, problem))
        if key == "second_ms":
            found["second_files"] = _count_files(folder) - files
    for result, inputs, problem in results:
        try:
            problem.operation.assert_close(result, inputs, problem.dim)
        except AssertionError as error:
            return {"outcome": "wrong", "reason": str(error), "device": found["device"]}
    return found


def _time_until_done(run: Any, device: Any) -> tuple[Any, float]:
    """Return a function's result, and the milliseconds until the device is done."""
    started = time.perf_counter()
    result = run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result, round((time.perf_counter() - started) * 1e3, 3)


def _count_files(folder: str) -> int:
    return sum(path.is_file() for path in Path(folder).rglob("*"))
