"""What asking the L2 cache to keep or drop data does to a softmax, and to the kernels around it.

    python bench/hints.py -o FILE.json

A softmax with a row to a program, written once, in which what it reads and what it writes carries one of Triton's
eviction policies or none. Each is checked and raced with itself without any: alone, with a consumer after it that reads
its result, with a producer before it too, and beside something that stays hot, 24 MB that are used between any two
softmaxes. A kernel that only copies is raced with the same policies alone. Every turn begins with a cache that has
forgotten what it was asked to keep. ``kernelzoo report FILE.json`` makes a table of it: the time of
the whole pipeline over that without policies, by the size of the softmax's input.
"""

import argparse
import ctypes
import datetime
import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from kernelzoo import measure, registry
from kernelzoo.files import write_atomically
from kernelzoo.launch import Launch
from kernelzoo.measure.clocks import DeviceClock
from kernelzoo.measure.statistics import ratio_interval

FORMAT = "kernelzoo-hints/1"
COLUMNS = 8192
MEGABYTES = (4, 8, 16, 32, 64, 128, 256)
DTYPES = ("float32", "bfloat16")
HOT_BYTES = 24 << 20

NO_HINT = "none"
HINTS = {
    NO_HINT: ("", ""),
    "reads evicted first": ("evict_first", ""),
    "reads evicted last": ("evict_last", ""),
    "writes evicted first": ("", "evict_first"),
    "both evicted first": ("evict_first", "evict_first"),
}
"""Triton's eviction policies of a kernel's loads and of its stores."""

ALONE, CONSUMED, BETWEEN, HOT, COPY = (
    "softmax alone",
    "with its consumer",
    "with producer and consumer",
    "with something hot",
    "a plain copy alone",
)
PIPELINES = (ALONE, CONSUMED, BETWEEN, HOT, COPY)


@triton.jit  # type: ignore[untyped-decorator]
def row_kernel(  # type: ignore[no-untyped-def]
    x, out, BLOCK: tl.constexpr, READ: tl.constexpr, WRITE: tl.constexpr, COPY: tl.constexpr
):
    """A row of BLOCK elements to a program: its softmax, or itself."""
    here = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + here, eviction_policy=READ)
    if not COPY:
        wide = tile.to(tl.float32)
        powers = tl.exp(wide - tl.max(wide, 0))
        tile = (powers / tl.sum(powers, 0)).to(out.dtype.element_ty)
    tl.store(out + here, tile, eviction_policy=WRITE)


def rows(x: torch.Tensor, out: torch.Tensor, hint: str = NO_HINT, *, copy: bool = False) -> Launch:
    """A launch of ``row_kernel`` on a matrix."""
    read, write = HINTS[hint]

    def launch() -> None:
        row_kernel[(x.size(0),)](x, out, BLOCK=x.size(1), READ=read, WRITE=write, COPY=copy, num_warps=8)

    return launch


def one_after_the_other(launches: Sequence[Launch]) -> Launch:
    def launch() -> None:
        for each in launches:
            each()

    return launch


def pipeline(kind: str, hint: str, x: torch.Tensor, out: torch.Tensor, hot: torch.Tensor) -> Launch:
    """What is timed, on one set of data."""
    if kind == COPY:
        return rows(x, out, hint, copy=True)
    steps = [rows(x, out, hint)]
    if kind in (CONSUMED, BETWEEN):
        least = torch.empty_like(out[:, 0])
        consumer = registry.implementation("triton/min/auto")
        steps.append(consumer.launch(out, dim=-1, out=least))
    if kind == BETWEEN:
        source = x.clone()
        steps.insert(0, rows(source, x, copy=True))
    if kind == HOT:
        steps.append(partial(_touch, hot))
    return one_after_the_other(steps)


def _touch(hot: torch.Tensor) -> None:
    hot.mul_(1)


def check(x: torch.Tensor, hint: str) -> None:
    """Raises AssertionError if the kernel with these policies is wrong."""
    softmax, copied = torch.empty_like(x), torch.empty_like(x)
    rows(x, softmax, hint)()
    rows(x, copied, hint, copy=True)()
    registry.implementation("triton/softmax/auto").operation.assert_close(softmax, x, -1)
    assert torch.equal(copied, x), f"the copy, {hint}: not what was copied"


def forget() -> None:
    """Drop what a kernel asked the L2 cache to keep."""
    ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache()


def race(lanes: Mapping[str, Callable[[int], float]], count: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each lane in each round, in turns of shuffled order."""
    order = list(lanes)
    for name in order:  # brings the device from its rest up to its working clock
        lanes[name](1)
    samples: dict[str, list[float]] = {name: [] for name in order}
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            forget()
            samples[name].append(lanes[name](1) / count)
    forget()
    return samples


def experiment(dtype: str, megabytes: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each pipeline with each hint, round by round."""
    clock = DeviceClock(torch.device("cuda"))
    element = getattr(torch, dtype)
    length = (megabytes << 20) // (COLUMNS * element.itemsize)
    cached = torch.cuda.get_device_properties(clock.device).L2_cache_size
    count = min(max(2, -(-4 * cached // (megabytes << 21))), 64)
    hot = torch.ones(HOT_BYTES // 4, device="cuda")
    found = {}
    for kind in PIPELINES:
        sets = []
        for _ in range(count):
            x = torch.randn(length, COLUMNS, device="cuda").to(element)
            sets.append((x, torch.empty_like(x)))
        for hint in HINTS:
            check(sets[0][0], hint)
        lanes = {hint: clock.prepare_turn([pipeline(kind, hint, x, out, hot) for x, out in sets]) for hint in HINTS}
        found[kind] = race(lanes, count, rounds)
    return found


def table(found: dict[str, dict[int, dict[str, dict[str, list[float]]]]]) -> list[dict[str, Any]]:
    """A row for each dtype, pipeline and hint, of the samples by dtype, size, pipeline and hint."""
    made = []
    for dtype, by_size in found.items():
        for kind in PIPELINES:
            for hint in HINTS:
                row: dict[str, Any] = {"dtype": dtype, "what": kind, "hint": hint}
                widest = 0.0
                for megabytes, by_kind in by_size.items():
                    samples = by_kind[kind]
                    if hint == NO_HINT:
                        seconds = sorted(samples[hint])[len(samples[hint]) // 2]
                        row[f"{megabytes} MB"] = f"{seconds * 1e6:.1f} µs"
                    else:
                        ratio = ratio_interval(samples[hint], samples[NO_HINT], paired=True)
                        row[f"{megabytes} MB"] = f"{ratio.mid:.3f}"
                        widest = max(widest, ratio.high - ratio.low)
                if hint != NO_HINT:
                    row["widest 95 % interval"] = f"{widest:.3f}"
                made.append(row)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What the L2 cache is asked to keep, and what that costs whom.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json", help="what was found")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each (default: %(default)s)")
    options = parser.parse_args(argv)
    if options.rounds < 6:
        parser.error(f"--rounds {options.rounds} can't tell anything; an interval needs 6 at least")
    if not torch.cuda.is_available():
        parser.error("there is no GPU, and no other device has such a cache")
    started, began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), time.monotonic()
    found = {dtype: {size: experiment(dtype, size, options.rounds) for size in MEGABYTES} for dtype in DTYPES}
    document: dict[str, Any] = {
        "format": FORMAT,
        "command": ["python", *(sys.argv if argv is None else ["bench/hints.py", *argv])],
        "environment": {"device": measure.device_name("cuda"), "versions": measure.versions("cuda")},
        "started": started,
        "seconds": round(time.monotonic() - began, 1),
        "rows": table(found),
    }
    for row in document["rows"]:
        print(*row.values(), sep=" | ")
    write_atomically(options.output, (json.dumps(document, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
