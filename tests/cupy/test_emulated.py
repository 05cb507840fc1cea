"""Every CUDA C++ kernel executed on the host, by the emulator beside this file: each thread of it, in another order each
time. The contract is test_conformance.py's, over tensors of up to 2^17 elements; here are the kernels that need larger
ones, or a device made up, to be reached; and kernels broken on purpose, which must not pass.

CuPy's way to a device is replaced for the process, so that this runs in one of its own:

    KERNELZOO_EMULATE_CUDA=1 python -m pytest tests/cupy/test_emulated.py
"""

# ruff: noqa: E402 - what is imported depends on the switch, so that is asked first

from __future__ import annotations

import ctypes
import itertools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest

pytest.importorskip("cupy", reason="CuPy is not installed")
import torch

if os.environ.get("KERNELZOO_EMULATE_CUDA") != "1":
    pytest.skip("emulator only: run with KERNELZOO_EMULATE_CUDA=1, in a process of its own", allow_module_level=True)

import emulator  # which conftest.py has loaded, and installed

if not emulator.compiler():
    pytest.skip("no C++ compiler: install g++ or clang++, or the package ziglang", allow_module_level=True)

import kernelzoo
from kernelzoo import ops, tables
from kernelzoo.kernels.cupy import min as minima
from kernelzoo.kernels.cupy import module, softmax
from kernelzoo.kernels.cupy.module import Device

INF, NAN = float("inf"), float("nan")
KIB = 1024
SIX = Device(6, 90, 227 * KIB)
ONE, TWO = replace(SIX, sms=1), replace(SIX, sms=2)
SMALL = replace(SIX, shared_bytes=50 * KIB)  # two tiles to a ring
OLD = Device(6, 80, 163 * KIB)
OLD_ONE = replace(OLD, sms=1)
ONE_ROW_AT_A_TIME = softmax.Knobs(ring_megabytes=0)


@dataclass(frozen=True)
class Case:
    """A problem that a device takes by a kernel."""

    kernel: str
    variant: str
    dtype: str
    shape: tuple[int, ...]
    dim: int = -1
    device: Device = SIX
    knobs: object = None

    @property
    def op(self) -> str:
        return self.kernel.split("/")[0]

    def __str__(self) -> str:
        name, shape = self.kernel.replace("/", " "), "x".join(map(str, self.shape))
        return f"{name} {self.dtype} {shape} sm_{self.device.capability}x{self.device.sms}"


CASES = [
    Case("softmax/fused", "fused", "float32", (3, 1030)),
    Case("softmax/fused", "fused", "bfloat16", (3, 5003)),
    Case("softmax/persistent", "persistent", "float32", (40, 1030)),
    Case("softmax/multi_row", "multi_row", "float32", (37, 300)),
    Case("softmax/multi_row_tile", "multi_row", "bfloat16", (133, 67)),
    Case("softmax/multi_row_tile", "multi_row", "float16", (301, 25)),
    Case("softmax/multi_row_tile", "multi_row", "float32", (133, 67)),
    Case("softmax/online", "online", "float32", (3, 5003)),
    Case("softmax/split_cluster", "split", "float32", (2, 5003)),
    Case("softmax/split_cluster", "split", "float64", (2, 5003)),
    Case("softmax/split_cluster", "split", "bfloat16", (4, 122903), device=TWO),
    Case("softmax/split_ring", "split", "float32", (2, 40003)),
    Case("softmax/split_ring", "split", "bfloat16", (3, 120003), device=SMALL, knobs=ONE_ROW_AT_A_TIME),
    Case("softmax/split_ring", "split", "float64", (2, 30003), device=SMALL, knobs=ONE_ROW_AT_A_TIME),
    Case("softmax/split_pipeline", "split", "float32", (13, 122903)),
    Case("softmax/split_pipeline", "split", "bfloat16", (7, 130003)),
    Case("softmax/split_grid", "split", "float32", (5, 9003), device=OLD),
    Case("softmax/split_grid", "split", "float16", (5, 60003), device=OLD),
    Case("softmax/split_grid", "split", "float64", (2, 15003), device=OLD_ONE),
    Case("softmax/columns", "auto", "float32", (130, 45), 0),
    Case("softmax/columns", "online", "bfloat16", (1100, 48), 0),
    Case("softmax/columns", "split", "bfloat16", (1030, 48), 0, OLD),
    Case("softmax/columns", "split", "float32", (7, 130, 48), 1, OLD_ONE),
    Case("softmax/columns_flat", "split", "float32", (2000, 5), 0),
    Case("softmax/columns_flat", "split", "bfloat16", (30000, 33), 0),
    Case("softmax/columns_flat", "split", "float32", (17000, 64), 0, OLD),
    Case("softmax/columns_pipeline", "split", "bfloat16", (2050, 200), 0),
    Case("softmax/columns_pipeline", "split", "float16", (1030, 400), 0, TWO),
    Case("softmax/columns_pipeline", "split", "bfloat16", (1024, 320), 0, ONE),
    Case("softmax/columns_cluster", "split", "float32", (200, 48), 0),
    Case("softmax/columns_cluster", "split", "float32", (70, 48), 0, ONE),
    Case("softmax/columns_cluster", "split", "bfloat16", (1000, 48), 0),
    Case("softmax/columns_cluster", "split", "float64", (200, 33), 0),
    Case("softmax/columns_ragged", "split", "bfloat16", (2, 500, 61), 1),
    Case("softmax/columns_ragged", "split", "float32", (3, 100, 30), 1, ONE),
    Case("min/rows", "rows", "float32", (3, 5003)),
    Case("min/rows_deferred", "rows_deferred", "float32", (3, 5003)),
    Case("min/rows_deferred_lanes", "rows_deferred", "int8", (40, 300)),
    Case("min/rows_deferred_tile", "rows_deferred", "bfloat16", (200, 33)),
    Case("min/split", "split", "float32", (3, 50003)),
    Case("min/split", "split", "int64", (2, 30003), device=OLD),
    Case("min/split_cluster", "split", "float64", (13, 5003)),
    Case("min/split_cluster", "split", "float16", (13, 120003)),
    Case("min/columns", "rows_deferred", "float32", (130, 45), 0),
    Case("min/columns", "rows_deferred", "int8", (70, 300), 0),
    Case("min/columns", "split", "bfloat16", (1000, 45), 0),
    Case("min/columns", "split", "float64", (3, 300, 9), 1, OLD),
    Case("min/columns_flat", "split", "float32", (20001, 3), 0),
    Case("min/columns_flat", "split", "int16", (9000, 5), 0),
    Case("min/fill", "atomic_eager", "float32", (40, 5003)),
    Case("min/narrow", "atomic_eager", "float16", (40, 5003)),
    Case("min/atomic", "atomic_batched", "float32", (200, 5003)),
    Case("min/atomic", "atomic_batched", "int16", (40, 5003)),
]


@cache
def values(op: str, dtype: str, shape: tuple[int, ...], dim: int) -> tuple[torch.Tensor, ops.Expected]:
    """A tensor, and what must come of it. Of the minimum one element of each row is lowest, anywhere in it: of softmax
    all are far below zero, so that a zero for what was not read would be the largest."""
    generator = torch.Generator().manual_seed(0)
    kind = getattr(torch, dtype)
    if op == "softmax":
        x = (torch.randn(shape, generator=generator) * 5 - 60).to(kind)
    else:
        x = torch.randint(40, 127, shape, generator=generator).to(kind)
        rows = list(shape)
        rows[dim] = 1
        places = torch.randint(shape[dim], rows, generator=generator)
        places.view(-1)[0], places.view(-1)[-1] = 0, shape[dim] - 1
        x.scatter_(dim, places, torch.randint(-40, 40, rows, generator=generator).to(kind))
    return x, ops.OPERATIONS[op].expect(x, dim, False)


def run(case: Case, launches: int = 1, edit: Callable[[str], str] = str, seed: int = 0) -> list[str]:
    """Launch it, in orders that follow from the seed; the names of the kernels that ran. Raises AssertionError if a
    result is wrong, or other bits than the one before, and EmulatorError."""
    x, expected = values(case.op, case.dtype, case.shape, case.dim)
    before, implementation = x.clone(), kernelzoo.implementation(f"cupy/{case.op}/{case.variant}")
    table = softmax.Knobs if case.op == "softmax" else minima.Knobs
    with emulator.device(case.device, edit) as machine, tables.using(case.knobs or table()):
        machine.seeds = itertools.count(1000 * seed)
        machine.launched.clear()
        out = implementation.operation.allocate(x, (case.dim % x.ndim,), keepdim=False)
        launch = implementation.launch(x, dim=case.dim, out=out)
        first = None
        for _ in range(launches):
            out.view(torch.uint8).fill_(0x5A)
            launch()
            expected.check(out)
            assert first is None or torch.equal(out, first)
            first = out.clone()
        assert torch.equal(x, before)
        return [name.split("<")[0] for name in machine.launched]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels(case: Case) -> None:
    """Right in several orders of the threads, and the same bits."""
    assert case.kernel.split("/")[1] in run(case, launches=4)


def test_every_kernel_is_reached() -> None:
    for op in ("softmax", "min"):
        source = re.sub(r"//[^\n]*", "", module.source(op))
        names = set(re.findall(r"\b(\w+)\(const Problem given", source))
        assert len(names) == source.count("__global__")
        assert names == {case.kernel.split("/")[1] for case in CASES if case.op == op}
