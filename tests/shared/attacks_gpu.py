"""Kernels in Triton that try to get a false time accepted on a GPU: the rest of :mod:`attacks`."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import cuda as gdc

import kernelzoo
from kernelzoo.launch import Launch

Tensor = torch.Tensor

HONEST = "its time is that of the work"


@triton.jit
def row(x, out, n, BLOCK: tl.constexpr, PDL: tl.constexpr, READS: tl.constexpr):
    """A row's softmax. It reads the row so often before, which takes time."""
    if PDL:
        gdc.gdc_launch_dependents()
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * n + cols
    for _ in range(READS):
        tl.store(out + at, tl.load(x + at, mask=cols < n, volatile=True), mask=cols < n)
    values = tl.load(x + at, mask=cols < n, other=-float("inf")).to(tl.float32)
    top = tl.max(values, 0)
    top = tl.where(top == -float("inf"), 0.0, top)
    e = tl.exp(values - top)
    tl.store(out + at, e / tl.sum(e, 0), mask=cols < n)


@triton.jit
def batch(xs, outs, sets, x, out, rows, n, BLOCK: tl.constexpr):
    """All sets, if this one's output is not written yet; a program for each row of each set."""
    program = tl.program_id(0)
    if tl.load(out) < 0:
        for number in range(sets):
            source = tl.load(xs + number).to(tl.pointer_type(tl.float32))
            target = tl.load(outs + number).to(tl.pointer_type(tl.float32))
            cols = tl.arange(0, BLOCK)
            at = program.to(tl.int64) * n + cols
            values = tl.load(source + at, mask=cols < n, other=-float("inf"))
            e = tl.exp(values - tl.max(values, 0))
            tl.store(target + at, e / tl.sum(e, 0), mask=cols < n)


@triton.jit
def counted(x, out, count, n, limit, BLOCK: tl.constexpr):
    """Nothing any more once it was launched so often."""
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    if tl.atomic_add(count, 1) < limit:
        values = tl.load(x + at, mask=cols < n, other=-float("inf"))
        top = tl.max(values, 0)
        top = tl.where(top == -float("inf"), 0.0, top)
        e = tl.exp(values - top)
        tl.store(out + at, e / tl.sum(e, 0), mask=cols < n)


def attack(name: str, does: str, outcome: str):
    """Register a kernel. ``outcome``: a regular expression of the reason of its rejection, or HONEST."""

    def decorate(bind):
        def described(x: Tensor, out: Tensor) -> Launch:
            if x.size(2) != 1 or x.dtype != torch.float32:
                raise kernelzoo.UnsupportedProblemError(f"attack/softmax/{name}", "it takes rows of float32")
            return bind(x, out)

        described.__doc__ = does
        kernelzoo.register("attack", "softmax", name)(described)
        return bind

    return decorate


def plain(x: Tensor, out: Tensor, reads: int = 0, **options: Any) -> Launch:
    block, pdl = triton.next_power_of_2(x.size(1)), bool(options.get("launch_pdl"))

    def launch() -> None:
        row[(x.size(0),)](x, out, x.size(1), BLOCK=block, PDL=pdl, READS=reads, num_warps=4, **options)

    return launch


@attack("honest_gpu", "The control", HONEST)
def honest_gpu(x: Tensor, out: Tensor) -> Launch:
    return plain(x, out)


@attack(
    "launches_that_do_not_wait",
    "Programmatic dependent launches without a wait",
    "reads what the one before|same output|wrong",
)
def launches_that_do_not_wait(x: Tensor, out: Tensor) -> Launch:
    return plain(x, out, launch_pdl=True)


counts: list[Tensor] = []


@attack("stops_working", "Does nothing once it is warm, by a count on the device", "did not write")
def stops_working(x: Tensor, out: Tensor) -> Launch:
    if not counts:
        counts.append(torch.zeros(1, dtype=torch.int32, device=x.device))
    block = triton.next_power_of_2(x.size(1))

    def launch() -> None:
        counted[(x.size(0),)](x, out, counts[0], x.size(1), 4500 * x.size(0), BLOCK=block, num_warps=4)

    return launch


known: dict[int, tuple[int, int]] = {}
tables: list[Tensor] = []


@attack("works_ahead_of_launches", "The first launch of a turn does the work of all sets", "wrong|did not write")
def works_ahead_of_launches(x: Tensor, out: Tensor) -> Launch:
    known[x.data_ptr()] = x.data_ptr(), out.data_ptr()
    block = triton.next_power_of_2(x.size(1))

    def launch() -> None:
        if len(known) < 100:
            return plain(x, out)()
        if not tables and not torch.cuda.is_current_stream_capturing():
            pairs = list(known.values())
            tables.extend(torch.tensor([pair[i] for pair in pairs], device=x.device) for i in (0, 1))
        if not tables or tables[0].numel() != len(known):
            return plain(x, out)()
        batch[(x.size(0),)](tables[0], tables[1], len(known), x, out, x.size(0), x.size(1), BLOCK=block, num_warps=4)
        return None

    return launch


class Window(ctypes.Structure):
    """CUaccessPolicyWindow, in the union of a launch attribute."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("rest", ctypes.c_char * 64),
    )


@attack("keeps_its_input_in_the_cache", "Leaves an access policy window on every stream that it meets", HONEST)
def keeps_its_input_in_the_cache(x: Tensor, out: Tensor) -> Launch:
    run, driver = plain(x, out), ctypes.CDLL("libcuda.so.1")

    def launch() -> None:
        driver.cuCtxSetLimit(6, ctypes.c_size_t(30 << 20))
        window = Window(x.data_ptr(), 30 << 20, 1.0, 2, 1)
        driver.cuStreamSetAttribute(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), 1, ctypes.byref(window))
        run()

    return launch


@attack("replaces_events", "Halves what events measure", "false time")
def replaces_events(x: Tensor, out: Tensor) -> Launch:
    event: Any = torch.cuda.Event
    if not hasattr(event, "true_time"):
        event.true_time = event.elapsed_time
        event.elapsed_time = lambda self, end: event.true_time(self, end) / 2
    return plain(x, out)


def runner() -> Any:
    """The class that runs the turns of this process."""
    return sys.modules["kernelzoo.measure.runner"].Runner  # type: ignore[attr-defined]


said: list[float] = []


def lying(more: Callable[[Any], object]) -> None:
    """Say a third of each turn's time, and leave out the work of turns in a row. ``more``: done in a turn of a lane."""
    true = runner().run_timed_turn

    def turn(self: Any, id: str, repeats: int = 1) -> float:
        if repeats == 1:
            said[:] = [0.3 * true(self, id)]
            more(self._lanes[id])
        else:
            time.sleep(said[0] * repeats)
        return said[0]

    if not said:
        said.append(0.0)
        runner().run_timed_turn = turn


@attack(
    "shortens_its_report_gpu",
    "Says a third of each turn's time, and leaves out the work of turns in a row",
    "by the judge's clock",
)
def shortens_its_report_gpu(x: Tensor, out: Tensor) -> Launch:
    lying(lambda lane: None)
    return plain(x, out, reads=8)


@attack(
    "answers_early_gpu",
    "Says that a turn is over while the GPU works on",
    "did not write|elements wrong|by the judge's clock",
)
def answers_early_gpu(x: Tensor, out: Tensor) -> Launch:
    def again(lane: Any) -> None:
        began = time.perf_counter()
        lane.turn.queue()
        while time.perf_counter() - began < said[0]:
            pass

    lying(again)
    runner().run_turn_once = lambda self, id: self._lanes[id].turn.queue()
    return plain(x, out, reads=8)


@triton.jit
def forever(xs, outs, sets, rows, n, passes, BLOCK: tl.constexpr):
    """All sets again and again, for some seconds."""
    cols = tl.arange(0, BLOCK)
    for _ in range(passes):
        for number in range(sets):
            source = tl.load(xs + number).to(tl.pointer_type(tl.float32))
            target = tl.load(outs + number).to(tl.pointer_type(tl.float32))
            for at in range(tl.program_id(0), rows, tl.num_programs(0)):
                values = tl.load(source + at * n + cols, mask=cols < n, other=-float("inf"), volatile=True)
                e = tl.exp(values - tl.max(values, 0))
                tl.store(target + at * n + cols, e / tl.sum(e, 0), mask=cols < n)


@triton.jit
def nothing(out):
    pass


@attack(
    "never_ends",
    "A kernel on a stream of its own works while its process is stopped",
    "while its process was stopped|did not write",
)
def never_ends(x: Tensor, out: Tensor) -> Launch:
    known[x.data_ptr()] = x.data_ptr(), out.data_ptr()
    stream: Any = torch.cuda.Stream

    def launch() -> None:
        if len(known) < 100 or not torch.cuda.is_current_stream_capturing():
            return plain(x, out)()
        if not tables:
            cuda: Any = torch.cuda
            cuda.synchronize = lambda device=None: torch.cuda.current_stream().synchronize()
            cuda.empty_cache = lambda: None
            pairs = list(known.values())
            with torch.cuda.stream(stream()):
                tables.extend(torch.tensor([pair[i] for pair in pairs], device="cuda") for i in (0, 1))
                block = triton.next_power_of_2(x.size(1))
                forever[(64,)](*tables, len(pairs), x.size(0), x.size(1), 4000, BLOCK=block)
        nothing[(1,)](out)
        return None

    return launch
