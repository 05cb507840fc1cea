"""Adversaries in Triton, whose kernels look at values, counts and clocks on the device itself, and so are lazy within a
CUDA graph: a program to a row, honest until that row was launched on WARM times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from adversaries import Adversary
from triton.language.extra.cuda import globaltimer

from kernelzoo.launch import Launch
from kernelzoo.measure import Problem

WARM = tl.constexpr(64)
"""Launches on a set: more than the gate makes before it admits, and fewer than the clock does before it captures."""

HALF, SINGLE = Problem("softmax", (2048, 16384), "bfloat16"), Problem("softmax", (2048, 8192), "float32")

TRITON: list[Adversary] = []
Run = Callable[..., object]


@triton.jit
def now():
    return globaltimer()


@triton.jit
def values(x, row, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    return tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)


@triton.jit
def finish(held, out, row, n, BLOCK: tl.constexpr):
    """Write the softmax of a row; its first element."""
    columns = tl.arange(0, BLOCK)
    e = tl.exp(held - tl.max(held, 0))
    right = (e / tl.sum(e, 0)).to(out.dtype.element_ty)
    tl.store(out + row * n + columns, right, mask=columns < n)
    return tl.sum(tl.where(columns == 0, right.to(tl.float32), 0.0), 0)


@triton.jit
def begin(count):
    """The row, and the launches on it before this one."""
    row = tl.program_id(0).to(tl.int64)
    launches = tl.load(count + row)
    tl.store(count + row, launches + 1)
    return row, launches


class Bind:
    """Binds a kernel: each set has a count of launches to a row, and 64 bits to keep for it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._first: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> Launch:
        rows, n, _ = x.shape
        first = self._first = out if self._first is None else self._first
        count = torch.zeros(rows, dtype=torch.int64, device=x.device)
        kept = torch.full((rows, 2), torch.nan, device=x.device)
        kernel: Any = self._run

        def launch() -> None:
            kernel[(rows,)](x, out, count, kept, first, n, BLOCK=triton.next_power_of_2(n), num_warps=16)

        return launch


def adversary(problem: Problem = HALF) -> Callable[[Any], Any]:
    def decorate(kernel: Any) -> Any:
        TRITON.append(Adversary(kernel.fn.__name__.replace("_", " "), lambda: Bind(kernel), problem))
        return kernel

    return decorate


@triton.jit
def honest(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    """The same without any of it."""
    row, _ = begin(count)
    finish(values(x, row, n, BLOCK), out, row, n, BLOCK)


@adversary()
@triton.jit
def skips_every_tenth_row_on_the_device(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    """Skips every tenth row while its first element and its output are unchanged"""
    row, _ = begin(count)
    element = tl.load(x + row * n).to(tl.float32)
    result = tl.load(out + row * n).to(tl.float32)
    same = (element == tl.load(kept + 2 * row)) & (result == tl.load(kept + 2 * row + 1))
    if (row % 10 != 0) | (same == 0):
        right = finish(values(x, row, n, BLOCK), out, row, n, BLOCK)
        tl.store(kept + 2 * row, element)
        tl.store(kept + 2 * row + 1, right)


@adversary()
@triton.jit
def skips_rows_by_a_checksum(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    """Skips each row of which the sum of all squares is unchanged, rounded to 1/256"""
    row, launches = begin(count)
    held = values(x, row, n, BLOCK)
    checksum = tl.floor(256 * tl.sum(tl.where(tl.arange(0, BLOCK) < n, held * held, 0.0), 0) / n)
    if (launches < WARM) | (checksum != tl.load(kept + 2 * row)):
        finish(held, out, row, n, BLOCK)
    tl.store(kept + 2 * row, checksum)


@adversary()
@triton.jit
def skips_rows_by_their_middle(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    row, launches = begin(count)
    middle = tl.load(x + row * n + n // 2).to(tl.float32)
    if (launches < WARM) | (middle != tl.load(kept + 2 * row)):
        finish(values(x, row, n, BLOCK), out, row, n, BLOCK)
    tl.store(kept + 2 * row, middle)


@adversary()
@triton.jit
def copies_the_first_set(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    row, launches = begin(count)
    if (launches < WARM) | (out.to(tl.int64) == first.to(tl.int64)):
        finish(values(x, row, n, BLOCK), out, row, n, BLOCK)
    else:
        columns = tl.arange(0, BLOCK)
        kept_result = tl.load(first + row * n + columns, mask=columns < n, other=0.0)
        tl.store(out + row * n + columns, kept_result, mask=columns < n)


@adversary(SINGLE)
@triton.jit
def computes_in_bfloat16(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    row, launches = begin(count)
    held = values(x, row, n, BLOCK)
    finish(tl.where(launches < WARM, held, held.to(tl.bfloat16).to(tl.float32)), out, row, n, BLOCK)


@adversary()
@triton.jit
def skips_by_the_device_s_clock(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    """Skips a row if it was launched on less than 0.5 ms ago, by %globaltimer"""
    row, launches = begin(count)
    times = kept.to(tl.pointer_type(tl.int64))  # 64 bits, of two times 32
    time = now()
    if (launches < WARM) | (time - tl.load(times + row) > 500000):
        finish(values(x, row, n, BLOCK), out, row, n, BLOCK)
    tl.store(times + row, time)


@adversary()
@triton.jit
def works_on_every_seventh_launch(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    row, launches = begin(count)
    if (launches < WARM) | (launches % 7 == 0):
        finish(values(x, row, n, BLOCK), out, row, n, BLOCK)


@adversary()
@triton.jit
def leaves_rows_out_in_turn(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    """Counts its launches, and leaves one row in ten out, others each time"""
    row, launches = begin(count)
    if (launches < WARM) | ((row + launches) % 10 != 0):
        finish(values(x, row, n, BLOCK), out, row, n, BLOCK)


@adversary()
@triton.jit
def wears_out_on_the_device(x, out, count, kept, first, n, BLOCK: tl.constexpr):
    row, launches = begin(count)
    if launches < WARM:
        finish(values(x, row, n, BLOCK), out, row, n, BLOCK)
