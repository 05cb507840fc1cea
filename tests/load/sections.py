"""What is checked under load, section by section."""

import gc
import math
import multiprocessing
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from one_input import allocate, sample
from one_input import expected as bounds_of

from kernelzoo import operations, registry
from kernelzoo.calls.backend import get
from kernelzoo.calls.methods import takes_only_x_and_dim
from kernelzoo.check.bits import bits, poison_like
from kernelzoo.check.cases import shape_str
from kernelzoo.errors import BackendUnavailableError, NoRoomError, UnsupportedProblemError
from kernelzoo.packages import load_module

REFUSED = (UnsupportedProblemError, BackendUnavailableError)
OUTCOMES = ("passed", "refused", "no room", "skipped", "unfinished", "failed")
Row = dict[str, Any]


@dataclass(frozen=True)
class Where:
    """Where a section runs, and how far it goes."""

    device: str
    far: int
    """Elements that a 32-bit offset can't reach: 2^31, or fewer where the script itself is checked."""
    calls: int
    op: str = ""
    """The operation that is tried; empty: both."""

    @property
    def is_cuda(self) -> bool:
        return self.device == "cuda"


Checks = Generator[int, None, "tuple[float, str] | None"]
"""Yields how many checks were just made, raises what is wrong, and returns a figure with its unit, if it has one."""
Check = Callable[[], Checks]
Case = tuple[str, str, Check]
"""An implementation, or several backends; what is tried of it; and how."""


@dataclass(frozen=True)
class Section:
    cases: Callable[[str, Where], Iterator[Case]]
    gib: float
    """Device memory that it takes at most; infinity: it needs the device alone."""
    mixed: bool = False
    """Whether it is also run on all backends in one process, named with a + between."""


class NotHereError(Exception):
    """A case that is not for this machine; the message says what it lacks."""


def row(
    section: str,
    implementation: str,
    case: str,
    count: int,
    seconds: float,
    outcome: str,
    figure: float | None = None,
    unit: str = "",
    detail: str = "",
) -> Row:
    found = {"section": section, "implementation": implementation, "case": case, "count": count}
    found |= {"seconds": round(seconds, 3), "outcome": outcome, "figure": figure, "unit": unit, "detail": detail}
    return found


def line(found: Row) -> str:
    figure = f" {found['figure']:.4g} {found['unit']}" if found["figure"] is not None else ""
    detail = f": {found['detail']}" if found["detail"] else ""
    head = f"{found['outcome']:8} {found['section']:9} {found['implementation']:30} {found['case']:40}"
    return f"{head} x{found['count']} {found['seconds']:.2f} s{figure}{detail}"


def rows(section: str, backend: str, where: Where) -> Iterator[Row]:
    """The rows of a section, each as it is made."""
    return (tried(section, *case) for case in SECTIONS[section].cases(backend, where))


def tried(section: str, implementation: str, case: str, check: Check) -> Row:
    """The row of one case. Only what an implementation may say of itself is no failure."""
    print("doing", implementation, case, flush=True)
    started = time.monotonic()
    count, figure, unit, detail, outcome = 0, None, "", "", "passed"
    try:
        checks = check()
        while True:
            count += next(checks)
    except StopIteration as end:
        figure, unit = end.value or (None, "")
    except REFUSED as error:
        outcome, detail = "refused", str(error)
    except NotHereError as error:
        outcome, detail = "skipped", str(error)
    except (torch.OutOfMemoryError, NoRoomError) as error:
        outcome, detail = "no room", str(error)
    except Exception as error:
        outcome, detail = "failed", f"{type(error).__name__}: {error}"
    return row(section, implementation, case, count, time.monotonic() - started, outcome, figure, unit, detail[:800])


def implementations(backend: str, where: Where) -> list[registry.Implementation]:
    found = [i for name in backend.split("+") for i in registry.implementations(name) if i.variant != "compile"]
    return [i for i in found if where.op in ("", i.op) and takes_only_x_and_dim(operations.OPERATIONS[i.op])]


def call(implementation: registry.Implementation, x: torch.Tensor, dim: int = -1, **options: Any) -> torch.Tensor:
    """As a user calls it."""
    method = getattr(get(implementation.backend), implementation.op)
    return method(x, dim, variant=implementation.variant, **options)


def drawn(op: str, shape: tuple[int, ...], dtype: str, where: Where, seed: int = 0, dim: int = -1) -> torch.Tensor:
    device = f"cuda:{torch.cuda.current_device()}" if where.is_cuda else "cpu"
    return sample(op, shape, dtype, dim, generator=torch.Generator(device).manual_seed(seed))


def same_bits(given: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    if not torch.equal(bits(given), bits(expected)):
        raise AssertionError(f"{what}: other bits than before")


def settle(where: Where) -> None:
    if where.is_cuda:
        torch.cuda.synchronize()


# --- sizes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """A problem past 2^31 elements. ``long``: the reduced axis is; else it is a kept one, that of ``tiled``."""

    op: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    dim: int = -1
    tiled: int = 0
    long: bool = False
    step: int = 1
    """Of the last axis, in memory: 2 takes every second element."""
    repeated: bool = False
    """One row, expanded: no memory but the result's."""
    only: tuple[str, ...] = ()
    """Variants to try, by a part of their names; none: all."""

    @property
    def gib(self) -> float:
        width = getattr(torch, self.dtype).itemsize
        given = math.prod(self.shape[1:]) if self.repeated else math.prod(self.shape) * self.step
        result = math.prod(self.shape) if self.op == "softmax" else math.prod(self.shape) // self.shape[self.dim]
        return (given + result) * width / 2**30


def sizes_of(far: int) -> list[Size]:
    """Every axis past ``far`` elements once, and all of the tensor past it and past twice as many."""
    odd = far + 4099
    rows = 2 * far // 781 + 5  # of 781 elements
    middle = 2 * far // (3 * 103) + 3
    return [
        Size("min", "one row", "int8", (1, odd), long=True),
        Size("min", "one row", "float16", (1, odd), long=True),
        Size("min", "one row", "float32", (1, odd), long=True),
        Size("min", "one row, twice as long", "int8", (1, far + odd), long=True),
        Size("min", "one row, twice as long", "bool", (1, far + odd), long=True),
        Size("min", "one row, every second element", "int8", (1, odd), long=True, step=2),
        Size("min", "rows of 1", "int8", (odd, 1)),
        Size("min", "rows of 1, twice as many", "int8", (far + odd, 1)),
        Size("min", "rows of 3", "float32", (far // 2 + 5, 3)),
        Size("min", "rows of 65", "uint8", (2 * far // 65 + 5, 65)),
        Size("min", "rows of 781", "bfloat16", (rows, 781)),
        Size("min", "rows of 781, every second element", "int8", (rows, 781), step=2),
        Size("min", "axis 0, tall, 3 columns", "int8", (odd, 3), 0, long=True),
        Size("min", "axis 0, tall, 64 columns", "float16", (far // 32 + 1, 64), 0, long=True),
        Size("min", "axis 0, wide", "int8", (3, odd), 0, tiled=1),
        Size("min", "axis 0, wide, every second element", "int8", (2, odd), 0, tiled=1, step=2),
        Size("min", "middle axis", "int8", (3, 103, middle), 1, tiled=2),
        Size("min", "one row repeated", "int8", (far + 5, 4100), repeated=True, only=("auto",)),
        Size("min", "one long row repeated", "int8", (2112, odd), repeated=True, only=("atomic",)),
        Size("softmax", "one row", "float16", (1, odd), long=True),
        Size("softmax", "one row", "float32", (1, odd), long=True),
        Size("softmax", "one row, twice as long", "bfloat16", (1, far + odd), long=True),
        # Not split, which gives each row several blocks that wait for each other: minutes.
        Size("softmax", "rows of 1", "float16", (odd, 1), only=("auto", "fused", "multi_row", "online", "persistent")),
        Size("softmax", "rows of 65", "float32", (far // 65 + 5, 65)),
        Size("softmax", "rows of 781", "bfloat16", (rows, 781)),
        Size("softmax", "rows of 781, every second element", "float16", (rows // 2, 781), step=2),
        Size("softmax", "axis 0, tall, 3 columns", "float16", (far // 2 + 5, 3), 0, long=True),
        Size("softmax", "axis 0, wide", "float16", (2, odd), 0, tiled=1),
        Size("softmax", "middle axis", "float16", (3, 103, middle // 2), 1, tiled=2),
    ]


def sizes(backend: str, where: Where) -> Iterator[Case]:
    """Past 2^31 and 2^32 elements, along every axis: no product of an index and a stride may be taken in 32 bits."""
    for size in sizes_of(where.far):
        check = partial(_size, size, where)
        for i in implementations(backend, where):
            named = not size.only or any(part in i.variant for part in size.only)
            # Its float32 intermediates would be four times as large as all else.
            named = named and not (i.variant == "naive" and size.gib > 8)
            if i.op == size.op and named:
                yield i.id, f"{size.dtype} {size.name} {shape_str(size.shape)}", partial(check, i)
        if where.is_cuda:
            torch.cuda.empty_cache()


def _size(size: Size, where: Where, implementation: registry.Implementation) -> Checks:
    free = torch.cuda.mem_get_info()[0] / 2**30 if where.is_cuda else _available_gib()
    if size.gib > 0.9 * free:
        raise NotHereError(f"it takes {size.gib:.1f} GiB, and {free:.1f} are free")
    if size.repeated:
        yield _repeated(size, where, implementation)
    else:
        shape = (*size.shape[:-1], size.shape[-1] * size.step)
        memory = torch.empty(shape, dtype=getattr(torch, size.dtype), device=where.device)
        if size.step > 1:
            memory.fill_(False if memory.dtype == torch.bool else -100)  # what lies between is less than all else
        x = memory[..., :: size.step]
        yield (_long if size.long else _many)(size, x, implementation)
    settle(where)
    return size.gib, "GiB"


def _available_gib() -> float:
    text = Path("/proc/meminfo").read_text(encoding="utf-8")
    return int(text.partition("MemAvailable:")[2].split()[0]) / 2**20


def places_of(n: int) -> list[int]:
    """Where a 32-bit offset would be wrong, and both ends."""
    marks = [2**k + d for k in ((31, 32, 33) if n > 2**31 else (18, 19)) for d in (-1, 0)]
    return sorted({0, n - 1, n - 2, n // 2, *(mark for mark in marks if mark < n)})


def _long(size: Size, x: torch.Tensor, implementation: registry.Implementation) -> int:
    """Rows of one value, but for elements planted where an offset would wrap around."""
    dim = size.dim % x.ndim
    n = x.size(dim)
    rows = x.movedim(dim, -1)  # (kept, n), a view
    places = torch.tensor(places_of(n), device=x.device)
    kept = torch.arange(rows.size(0), device=x.device)
    if size.op == "min":
        high, low = (1, 0) if x.dtype == torch.bool else (7, 3)
        x.fill_(high)
        # One element each time, at another place of each row; and none at all, which nothing beyond may change. A
        # variant that gives such a row to one program takes half a minute a turn: the last places must do.
        turns = range(len(places))[0 if implementation.variant == "auto" else -1 :]
        for turn in turns:
            at = places[(kept + turn) % len(places)]
            rows[kept, at] = torch.tensor(low, device=x.device).to(x.dtype)
            _all_are(call(implementation, x, size.dim), low, f"the minimum at {at.tolist()[:8]}")
            rows[kept, at] = torch.tensor(high, device=x.device).to(x.dtype)
        _all_are(call(implementation, x, size.dim), high, "rows without a smaller element")
        return (len(turns) + 1) * rows.size(0)
    x.fill_(-80)  # exp of which is nothing beside the planted ones
    weights = torch.arange(len(places), device=x.device, dtype=torch.float64) * -0.25
    for k in kept.tolist():
        rows[k, places] = weights.roll(k).to(x.dtype)
    out = torch.full(x.shape, 3, dtype=x.dtype, device=x.device)
    call(implementation, x, size.dim, out=out)
    results = out.movedim(dim, -1)
    for k in kept.tolist():
        expected = torch.softmax(weights.roll(k), 0)
        torch.testing.assert_close(results[k, places].double(), expected, rtol=1e-2, atol=1e-6)
        results[k, places] = 0
    # bfloat16 and float32 can say e^-80; together all of these are still nothing.
    for part in out.view(-1).split(2**28):
        _all_are(part.abs() > 1e-25, False, "whether an element is more than next to nothing")
    return x.numel()


def _many(size: Size, x: torch.Tensor, implementation: registry.Implementation) -> int:
    """One small problem over and over along a kept axis."""
    axis, dim = size.tiled, size.dim % x.ndim
    count = x.size(axis)
    length = min(count, max(3, 2**25 // (x.numel() // count)) | 1)
    shape = [length if d == axis else s for d, s in enumerate(x.shape)]
    generator = torch.Generator(x.device).manual_seed(length)
    base = sample(size.op, tuple(shape), size.dtype, dim, generator=generator)
    for start in range(0, count, length):
        part = x.narrow(axis, start, min(length, count - start))
        part.copy_(base.narrow(axis, 0, part.size(axis)))
    expected = bounds_of(implementation.operation, base, dim)
    out_axis = axis if size.op == "softmax" else axis - (axis > dim)
    shape = tuple(allocate(implementation.operation, x.to("meta"), dim).shape)
    out = torch.full(shape, 3, dtype=x.dtype, device=x.device)
    call(implementation, x, size.dim, out=out)
    right: torch.Tensor | None = None  # the first part, once it was found right: most others are the same bits
    for start in range(0, count, length):
        part = out.narrow(out_axis, start, min(length, count - start))
        same = right is not None and part.shape == right.shape
        if same and torch.equal(bits(part), bits(right)):
            continue
        here = slice(None) if part.size(out_axis) == length else slice(0, part.size(out_axis))
        index = (slice(None),) * out_axis + (here,)
        try:
            operations.Bounds(size.op, expected.lower[index], expected.upper[index]).check(part)
        except AssertionError as error:
            raise AssertionError(f"from {start} on along axis {axis}: {error}") from None
        right = part if right is None else right
    return x.numel()


def _repeated(size: Size, where: Where, implementation: registry.Implementation) -> int:
    line = torch.full(size.shape[1:], 7, dtype=getattr(torch, size.dtype), device=where.device)
    x = line.expand(size.shape)
    for at in (line.numel() - 1, 0):
        line[at] = 3
        _all_are(call(implementation, x), 3, f"the minimum at {at} of every row")
        line[at] = 7
    return 2 * size.shape[0]


def _all_are(given: torch.Tensor, value: object, what: str) -> None:
    for number, part in enumerate(given.reshape(-1).split(2**28)):
        if not bool((part == value).all()):
            at = int((part != value).view(torch.uint8).argmax())
            raise AssertionError(f"{what}: element {number * 2**28 + at} is {part[at].item()}, must be {value}")


# --- threads and streams ----------------------------------------------------------------------------------------------

THREADS, STREAMS = 16, 8
SHAPES = ((3, 17), (33, 129), (257, 1000), (7, 4099), (2, 65536), (1, 300001))


def problems(implementation: registry.Implementation, where: Where, seed: int) -> Iterator[tuple[torch.Tensor, int]]:
    for k, shape in enumerate(SHAPES):
        yield drawn(implementation.op, shape, ("float32", "bfloat16")[k % 2], where, seed + k), -1
    yield drawn(implementation.op, (301, 37), "float32", where, seed, 0), 0


def threads(backend: str, where: Where) -> Iterator[Case]:
    """16 threads, on 8 streams where there are streams: the very first calls of the process, and many after."""
    chosen = implementations(backend, where)
    streams = [torch.cuda.Stream() for _ in range(STREAMS)] if where.is_cuda else []
    barrier = threading.Barrier(THREADS)
    one_of = {i.op: i for i in chosen}
    given = [
        {
            op: [(x, dim, bounds_of(i.operation, x, dim)) for x, dim in problems(i, where, 100 * t)]
            for op, i in one_of.items()
        }
        for t in range(THREADS)
    ]
    work = [[(i, *problem) for i in chosen for problem in given[t][i.op]] for t in range(THREADS)]
    settle(where)

    def calls(t: int, rounds: int) -> tuple[int, list[str]]:
        wrong, count = [], 0
        with torch.cuda.stream(streams[t % STREAMS]) if streams else nullcontext():
            for turn in range(rounds):
                # The first round in one order in every thread: all of them compile the same thing at once.
                order = work[t] if turn == 0 else random.Random(t + turn).sample(work[t], len(work[t]))
                barrier.wait(120)
                for implementation, x, dim, expected in order:
                    try:
                        result = call(implementation, x, dim)
                        expected.check(result)
                        count += 1
                    except REFUSED:
                        continue
                    except Exception as error:
                        wrong.append(f"{implementation.id} {tuple(x.shape)}: {type(error).__name__}: {error}")
        return count, wrong

    def at_once(rounds: int) -> Checks:
        barrier.reset()
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(lambda t: calls(t, rounds), range(THREADS)))
        wrong = [text for _, texts in found for text in texts]
        if wrong:
            raise AssertionError(f"{len(wrong)} calls went wrong; first: {wrong[0]}")
        yield sum(count for count, _ in found)

    yield backend, "first calls, all at once", partial(at_once, 1)
    yield backend, "later calls, in any order", partial(at_once, 4)
    yield backend, "layouts that make the caches begin anew", partial(_many_layouts, chosen, where)
    yield backend, "threads that have not touched the device", partial(_new_threads, chosen, where)


def _many_layouts(chosen: list[registry.Implementation], where: Where) -> Checks:
    """Threads that go through more layouts than are kept, while others keep to one."""
    autos = [i for i in chosen if i.variant == "auto"]
    still = [(i, x := drawn(i.op, (5, 300), "float32", where), bounds_of(i.operation, x)) for i in autos]
    wide = {i.op: drawn(i.op, (3, 3000), "float32", where) for i in autos}
    lengths = 500 if where.is_cuda else 40

    def go(t: int) -> int:
        for k in range(lengths):
            for i, x, expected in still:
                if t % 2:
                    expected.check(call(i, x))
                else:
                    call(i, wide[i.op][:, : 1 + (k * 7 + t * 101) % 2999])
        return lengths * len(still)

    with ThreadPoolExecutor(THREADS) as pool:
        yield sum(pool.map(go, range(THREADS)))


def _new_threads(chosen: list[registry.Implementation], where: Where) -> Checks:
    """A thread's first touch of the device is a call of ours: of a known layout, and of one that is planned anew."""
    for number, implementation in enumerate(chosen):
        for x in (drawn(implementation.op, (33, n), "float32", where) for n in (129, 600 + 8 * number, 1024)):
            try:
                first = call(implementation, x)
            except REFUSED:
                continue
            y = torch.cat([x, x])
            settle(where)
            for given, expected in ((x, first), (y, torch.cat([first, first]))):
                with ThreadPoolExecutor(1) as pool:
                    result = pool.submit(call, implementation, given).result()
                if given is x:
                    same_bits(result, expected, f"{implementation.id} in a new thread")
                else:
                    implementation.operation.assert_close(result, given)
                yield 1


def streams(backend: str, where: Where) -> Iterator[Case]:
    """Work on eight streams; memory made on one stream and used, and dropped, on another."""
    for i in implementations(backend, where):
        for case, check in (
            ("eight streams at once", _streams_at_once),
            ("bound on one stream, run on another", _bound_elsewhere),
            ("a launch dropped while it runs elsewhere", partial(_bound_elsewhere, dropped=True)),
            ("after torch.cuda.empty_cache", _emptied),
        ):
            yield i.id, case, partial(check, i, where)


def _on_gpu(where: Where) -> None:
    if not where.is_cuda:
        raise NotHereError("it needs a GPU")


def taken(
    implementation: registry.Implementation, problems: Iterator[tuple[torch.Tensor, int]]
) -> Iterator[tuple[torch.Tensor, int, torch.Tensor]]:
    """Of problems those that it takes, with their right results, made one after the other; its refusal if none is."""
    refusal, some = None, False
    for x, dim in problems:
        try:
            right = call(implementation, x, dim)
        except UnsupportedProblemError as error:
            refusal = error
            continue
        some = True
        yield x, dim, right
    if refusal is not None and not some:
        raise refusal


def _stream_problem(
    implementation: registry.Implementation, where: Where
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    problems = ((drawn(implementation.op, shape, "float32", where), -1) for shape in SHAPES)
    return ((x, right) for x, _, right in taken(implementation, problems))


def _streams_at_once(implementation: registry.Implementation, where: Where) -> Checks:
    _on_gpu(where)
    side = [torch.cuda.Stream() for _ in range(STREAMS)]
    for x, expected in _stream_problem(implementation, where):
        settle(where)
        results = []
        for _ in range(8):
            for stream in side:
                with torch.cuda.stream(stream):
                    results.append(call(implementation, x))
        settle(where)
        for result in results:
            same_bits(result, expected, f"{tuple(x.shape)} on eight streams")
        yield len(results)


def _bound_elsewhere(implementation: registry.Implementation, where: Where, dropped: bool = False) -> Checks:
    """What the bind enqueued (a counter's zeroing) is behind a long wait on its own stream; or, of one that is dropped,
    the workspace must not be given to anyone before the other stream is done with it."""
    _on_gpu(where)
    home, other = torch.cuda.Stream(), torch.cuda.Stream()
    for x, expected in _stream_problem(implementation, where):
        out = poison_like(expected)
        settle(where)
        with torch.cuda.stream(home):
            if not dropped:  # whatever the workspace gets is not zero before
                garbage = torch.full((2**22,), -7, dtype=torch.int32, device=where.device)
                del garbage
                torch.cuda._sleep(20_000_000)
            launch = implementation.launch(x, out=out)
        with torch.cuda.stream(other):
            if dropped:
                torch.cuda._sleep(20_000_000)
            launch()
            if not dropped:
                launch()
        del launch
        with torch.cuda.stream(home):
            for size in (2**8, 2**12, 2**16, 2**20, 2**22) if dropped else ():
                for _ in range(4):
                    torch.full((size,), -7, dtype=torch.int32, device=where.device)
        settle(where)
        same_bits(out, expected, f"{tuple(x.shape)} bound on another stream")
        yield 1


def _emptied(implementation: registry.Implementation, where: Where) -> Checks:
    _on_gpu(where)
    for x, expected in _stream_problem(implementation, where):
        out = poison_like(expected)
        launch = implementation.launch(x, out=out)
        for _ in range(3):
            launch()
            torch.cuda.empty_cache()
            same_bits(call(implementation, x), expected, f"{tuple(x.shape)} after empty_cache")
        same_bits(out, expected, f"{tuple(x.shape)} bound before empty_cache")
        yield 4


# --- graphs -----------------------------------------------------------------------------------------------------------


def graphs(backend: str, where: Where) -> Iterator[Case]:
    """A CUDA graph of a call, and of a bound launch, on other data each time; on the host, the bound launch alone."""
    for i in implementations(backend, where):
        cases = [("a bound launch on other data", None)]
        cases += [("a captured call", False), ("a captured launch", True)] if where.is_cuda else []
        for case, captured in cases:
            yield i.id, case, partial(_replayed, i, where, captured)


def _replayed(implementation: registry.Implementation, where: Where, captured: bool | None) -> Checks:
    """``captured``: a graph of the launch, or of a call; None: the launch itself."""
    for x, first in _stream_problem(implementation, where):
        result = torch.empty_like(first)
        launch = implementation.launch(x, out=result)
        if captured is not None:
            launch()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                if captured:
                    launch()
                else:
                    result = call(implementation, x)
        for seed in range(1, 4):
            x.copy_(drawn(implementation.op, tuple(x.shape), "float32", where, seed))
            result.copy_(poison_like(first))
            for _ in range(1 if captured is None else 17):
                launch() if captured is None else graph.replay()
                yield 1
            implementation.operation.assert_close(result, x)
            if captured is not None:
                same_bits(call(implementation, x), result, f"{tuple(x.shape)} replayed")


# --- modes ------------------------------------------------------------------------------------------------------------


@contextmanager
def _switched(switch: Callable[[Any], None], on: object, before: object) -> Iterator[None]:
    switch(on)
    try:
        yield
    finally:
        switch(before)


def modes(backend: str, where: Where) -> Iterator[Case]:
    """What else a program may have switched on: the same bits."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # which deterministic torch insists on
    found: dict[str, Callable[[], Any]] = {
        "inference_mode": torch.inference_mode,
        "no_grad": torch.no_grad,
        "enable_grad": torch.enable_grad,
        "deterministic algorithms": partial(_switched, torch.use_deterministic_algorithms, True, False),
        "autocast to float16": partial(torch.autocast, where.device, torch.float16),
        "autocast to bfloat16": partial(torch.autocast, where.device, torch.bfloat16),
        "default dtype float64": partial(_switched, torch.set_default_dtype, torch.float64, torch.float32),
        "default dtype float16": partial(_switched, torch.set_default_dtype, torch.float16, torch.float32),
        "default device meta": partial(torch.device, "meta"),
    }
    for i in implementations(backend, where):
        for name, mode in found.items():
            yield i.id, name, partial(_in_mode, i, where, mode)
        if i.variant == "auto":
            yield i.id, "torch.compile", partial(_in_compile, i, where)


def _mode_problems(implementation: registry.Implementation, where: Where) -> Iterator[tuple[torch.Tensor, int]]:
    for dtype in ("float32", "float16", "float64"):
        yield drawn(implementation.op, (33, 129), dtype, where), -1
        yield drawn(implementation.op, (3, 40000), dtype, where), -1
    yield drawn(implementation.op, (301, 37), "float32", where, 0, 0), 0
    yield drawn(implementation.op, (5, 7, 9, 33), "float32", where)[:, 1:4, ::2], -1  # copied inside the call


def _in_mode(implementation: registry.Implementation, where: Where, mode: Callable[[], Any]) -> Checks:
    for x, dim, expected in taken(implementation, _mode_problems(implementation, where)):
        out = poison_like(expected)
        with mode():
            fresh = x.clone(memory_format=torch.preserve_format)
            result = call(implementation, fresh, dim)
            again = call(implementation, fresh, dim)
            launch = implementation.launch(fresh, dim=dim, out=out)
            launch()
        for given in (result, again, out):
            if given.dtype != expected.dtype:
                raise AssertionError(f"{tuple(x.shape)} gives {given.dtype}, and {expected.dtype} outside of the mode")
            same_bits(given, expected, f"{tuple(x.shape)} {x.dtype}")
        same_bits(call(implementation, fresh, dim), expected, f"{tuple(x.shape)} {x.dtype} made in the mode")
        yield 4


def _in_compile(implementation: registry.Implementation, where: Where) -> Checks:
    def around(x: torch.Tensor, dim: int) -> torch.Tensor:
        return call(implementation, x * 1, dim) * 1

    compiled = torch.compile(around, backend="aot_eager")
    for x, dim in _mode_problems(implementation, where):
        for _ in range(2):
            same_bits(compiled(x, dim), call(implementation, x, dim), f"{tuple(x.shape)} {x.dtype}")
            yield 1


# --- memory -----------------------------------------------------------------------------------------------------------

LEAK = 16.0
"""Bytes a call, beyond 4 MiB in all, that are a leak: less than the smallest object that Python has."""


def memory(backend: str, where: Where) -> Iterator[Case]:
    """Many calls leave nothing behind; one that finds no memory says so, gives back what it took, and harms none."""
    for i in implementations(backend, where):
        auto = i.variant == "auto"
        calls = where.calls if auto else where.calls // 50
        yield i.id, f"{calls} calls of one layout", partial(_leak, i, where, [(33, 129)], calls)
        if auto:
            many = [(1 + k % 7, 1 + k) for k in range(6000)]
            yield i.id, f"{calls // 20} calls of 6000 layouts", partial(_leak, i, where, many, calls // 20)
        yield i.id, "no memory for it", partial(_no_memory, i, where)


def full(backend: str, where: Where) -> Iterator[Case]:
    """A tensor that takes nine tenths of the device."""
    for i in implementations(backend, where):
        if i.variant == "auto":
            yield i.id, "a device that is nearly full", partial(_nearly_full, i, where)


def resident() -> int:
    """Bytes of this process's own memory that are resident, those of its arena that are free given back first."""
    gc.collect()
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def _leak(implementation: registry.Implementation, where: Where, shapes: list[tuple[int, int]], calls: int) -> Checks:
    memory = drawn(implementation.op, (8, max(n for _, n in shapes)), "float32", where)
    inputs = [memory[:m, :n] for m, n in shapes]

    def go(count: int) -> None:
        for k in range(count):
            call(implementation, inputs[k % len(inputs)])
            if where.is_cuda and k % 1024 == 0:
                torch.cuda.synchronize()  # or the queue of launches would grow

    # Twice through all layouts first: caches fill, and the arena finds its size.
    call(implementation, inputs[0])  # raises, if it refuses
    backend = get(implementation.backend)
    go(max(2 * len(inputs), min(calls // 4, 20_000)))
    backend._cache.forget()  # of what is kept by layout there is at most so much, which is no leak
    settle(where)
    before, device_before = resident(), torch.cuda.memory_allocated() if where.is_cuda else 0
    go(calls)
    backend._cache.forget()
    settle(where)
    grown = resident() - before
    device_grown = torch.cuda.memory_allocated() - device_before if where.is_cuda else 0
    if device_grown:
        raise AssertionError(f"{device_grown} bytes of the device are not given back after {calls} calls")
    if grown > 2**22 + LEAK * calls:
        raise AssertionError(f"{grown} bytes more are resident after {calls} calls, {grown / calls:.1f} a call")
    yield calls
    return grown / calls, "bytes/call"


def _no_memory(implementation: registry.Implementation, where: Where) -> Checks:
    """With room for the input alone, and then with ever more, so that what fails is the result, then a workspace."""
    rooms = failed = 0
    small = drawn(implementation.op, (33, 129), "float32", where)
    expected = call(implementation, small)
    # Few long rows and many short ones; some variants take the one, some the other.
    for shape in ((1, 2**23), (2**13, 2**10)) if where.is_cuda else ((2**15, 2**10),):
        x = torch.zeros(shape, device=where.device)
        try:
            call(implementation, x)
        except REFUSED:
            continue
        result_bytes = x.nbytes if implementation.op == "softmax" else shape[0] * x.element_size()
        for room in (2**20, *(result_bytes + 2**k for k in (20, 22, 24, 25))):
            settle(where)
            before = torch.cuda.memory_allocated() if where.is_cuda else resident()
            result = None
            with _room_for(room, where):
                try:
                    result = call(implementation, x)
                    settle(where)
                except RuntimeError as error:  # torch.OutOfMemoryError is one; torch has no such type for the host
                    failed += 1
                    if where.is_cuda and not isinstance(error, torch.OutOfMemoryError):
                        raise AssertionError(f"not a torch.OutOfMemoryError: {type(error).__name__}: {error}") from None
                    if "memory" not in str(error):
                        raise
                except MemoryError:
                    failed += 1
            result = None  # noqa: F841  # gives its memory back
            gc.collect()
            left = (torch.cuda.memory_allocated() if where.is_cuda else resident()) - before
            if left > (0 if where.is_cuda else 2**24):
                raise AssertionError(f"{left} bytes are not given back after a call with {room} bytes to spare")
            same_bits(call(implementation, small), expected, "the call after")
            rooms += 1
            yield 1
    if rooms and not failed and implementation.op == "softmax":
        raise AssertionError("nothing failed for want of memory, so nothing was checked")
    return float(failed), "out of memory"


@contextmanager
def _room_for(room: int, where: Where) -> Iterator[None]:
    """A context in which so many more bytes can be had, and no more."""
    if where.is_cuda:
        torch.cuda.empty_cache()
        limit = (torch.cuda.memory_reserved() + room) / torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(limit)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _nearly_full(implementation: registry.Implementation, where: Where) -> Checks:
    """Nine tenths of what is free are taken: a minimum of it is found, a softmax of it says that there is no room."""
    _on_gpu(where)
    torch.cuda.empty_cache()
    before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    dtype = torch.int8 if implementation.op == "min" else torch.float16
    columns = 65536 + 1
    rows = int(0.9 * free) // (columns * dtype.itemsize)
    x = torch.empty((rows, columns), dtype=dtype, device=where.device).fill_(7)
    if implementation.op == "min":
        x[-1, -1] = x[0, 0] = x[rows // 2, 1] = 3
        result = call(implementation, x)
        if int((result == 3).sum()) != 3 or int((result == 7).sum()) != rows - 3:
            raise AssertionError("wrong minima")
    else:
        try:
            call(implementation, x)
        except torch.OutOfMemoryError:
            pass
        else:
            raise AssertionError("a result as large as the device was returned")
    gib = x.numel() * dtype.itemsize / 2**30
    result = x = None  # type: ignore[assignment]
    gc.collect()
    torch.cuda.empty_cache()
    if torch.cuda.memory_allocated() > before:
        raise AssertionError(f"{torch.cuda.memory_allocated() - before} bytes are not given back")
    implementation.operation.assert_close(
        call(implementation, y := drawn(implementation.op, (33, 129), "float32", where)), y
    )
    yield 2
    return gib, "GiB"


# --- devices ----------------------------------------------------------------------------------------------------------


def devices(backend: str, where: Where) -> Iterator[Case]:
    """A tensor on another device than the current one, its streams, and both devices from several threads."""
    for i in implementations(backend, where):
        yield i.id, "a tensor on another device", partial(_elsewhere, i, where)
    if torch.cuda.device_count() > 1:
        chosen = implementations(backend, where)
        yield backend, "16 threads on all devices", partial(_all_devices, chosen, where)


def _elsewhere(implementation: registry.Implementation, where: Where) -> Checks:
    if not where.is_cuda or torch.cuda.device_count() < 2:
        raise NotHereError(f"it needs two GPUs, and here are {torch.cuda.device_count()}")
    for current, other in ((0, 1), (1, 0)):
        torch.cuda.set_device(current)
        for x, expected in _stream_problem(implementation, where):
            there = x.to(f"cuda:{other}")
            stream = torch.cuda.Stream(other)
            torch.cuda.synchronize(other)
            result = call(implementation, there)
            result_again = call(implementation, there)
            out = torch.empty_like(result)
            launch = implementation.launch(there, out=out)
            launch()
            with torch.cuda.stream(stream):  # which makes its device current
                result_on_stream = call(implementation, there)
            if torch.cuda.current_device() != current:
                raise AssertionError(f"the current device was {current}, and is {torch.cuda.current_device()} after")
            torch.cuda.synchronize(other)
            for given in (result, result_again, out, result_on_stream):
                same_bits(given.to(x.device), expected, f"{tuple(x.shape)} on cuda:{other} from cuda:{current}")
                yield 1
    torch.cuda.set_device(0)


def _all_devices(chosen: list[registry.Implementation], where: Where) -> Checks:
    def go(t: int) -> int:
        count = 0
        for implementation in chosen:
            device = f"cuda:{(t + count) % torch.cuda.device_count()}"
            for shape in SHAPES:
                generator = torch.Generator(device).manual_seed(t)
                x = sample(implementation.op, shape, "float32", generator=generator)
                try:
                    result = call(implementation, x)
                except REFUSED:
                    continue
                implementation.operation.assert_close(result, x)
                count += 1
        return count

    with ThreadPoolExecutor(THREADS) as pool:
        yield sum(pool.map(go, range(THREADS)))


# --- processes --------------------------------------------------------------------------------------------------------

PATIENCE = 60.0
"""Seconds that a child may take: it imports torch and the language anew where it is spawned."""


def processes(backend: str, where: Where) -> Iterator[Case]:
    """A call in a child: forked (from a process with threads at work, on the host) and spawned."""
    for i in implementations(backend, where):
        if i.variant == "auto":
            for method in ("fork", "spawn"):
                yield i.id, f"called in a child by {method}", partial(_child, i, where, method)


def _child(implementation: registry.Implementation, where: Where, method: str) -> Checks:
    x = drawn(implementation.op, (4096, 300), "float32", where)
    call(implementation, x)  # raises, if it refuses
    settle(where)
    context = multiprocessing.get_context(method)
    stop = threading.Event()

    def keep_calling() -> None:  # a fork takes locks along as they are at that moment
        while not stop.is_set():
            call(implementation, x)

    busy = [threading.Thread(target=keep_calling) for _ in range(2 if method == "fork" and not where.is_cuda else 0)]
    for thread in busy:
        thread.start()
    results = []
    modules = [m.__file__ for name, m in sys.modules.items() if name.startswith("kernelzoo_module_")]
    try:
        for _ in range(3):
            receive, send = context.Pipe(duplex=False)
            # A forked child calls with the parent's tensor, as a data loader's worker would.
            given = x if method == "fork" else None
            arguments = (send, implementation.id, where, modules, given)
            child = context.Process(target=_in_child, args=arguments, daemon=True)
            child.start()
            send.close()
            child.join(PATIENCE)
            if child.is_alive():
                child.kill()
                child.join()
                raise AssertionError(f"a child by {method} hung: no end within {PATIENCE:g} s")
            results.append(receive.recv() if receive.poll() else f"ended with status {child.exitcode}")
    finally:
        stop.set()
        for thread in busy:
            thread.join()
    for result in results:
        forked_cuda = (
            method == "fork" and where.is_cuda and result.startswith(("BackendUnavailableError", "RuntimeError"))
        )
        if result != "right" and not forked_cuda:
            raise AssertionError(f"a child by {method}: {result}")
    same = call(implementation, x)
    implementation.operation.assert_close(same, x)
    yield len(results)


def _in_child(send: Any, id: str, where: Where, modules: list[str], x: torch.Tensor | None) -> None:
    try:
        torch.set_num_threads(1)  # torch's own threads can't be forked: its data loader's workers do the same
        for module in modules:
            load_module(module)
        implementation = registry.implementation(id)
        given = drawn(implementation.op, (4096, 300), "float32", where) if x is None else x
        result = call(implementation, given)
        implementation.operation.assert_close(result, given)
        send.send("right")
    except BaseException as error:
        send.send(f"{type(error).__name__}: {error}")
    send.close()


SECTIONS = {
    "sizes": Section(sizes, gib=26),
    "threads": Section(threads, gib=2, mixed=True),
    "streams": Section(streams, gib=2),
    "graphs": Section(graphs, gib=2),
    "modes": Section(modes, gib=2),
    "devices": Section(devices, gib=2),
    "processes": Section(processes, gib=3),
    "memory": Section(memory, gib=3),
    "full": Section(full, gib=math.inf),
}
