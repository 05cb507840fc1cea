"""Every value of every knob: the plans that it makes, on devices that are described. Shared by the backends' tests."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from one_input import allocate, launched

from kernelzoo import operations, registry, tables
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.inspect import simulate_device
from kernelzoo.launch import LaunchStep, record_binds

ARCHES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")

# (shape, axis): short, odd, about the number of SMs, long, few very long, columns even and odd, the middle axis.
PROBLEMS = (
    ((100003, 61), 1), ((20011, 512), 1), ((4096, 1000), 1), ((131, 4097), 1), ((264, 8192), 1), ((700, 16384), 1),
    ((300, 30001), 1), ((140, 65536), 1), ((61, 99991), 1), ((13, 262144), 1), ((30, 524309), 1), ((3, 3000016), 1),
    ((8192, 2048), 0), ((700, 8192), 0), ((300, 4099), 0), ((1000003, 33), 0), ((40, 1300, 96), 1),
)  # fmt: skip


def settings(backend: str, op: str) -> Iterator[dict[str, int]]:
    """The shipped table, and every other value of each knob."""
    yield {}
    for knob in tables.knobs(tables.declared_table(backend, op)):
        yield from ({knob.name: value} for value in knob.among if value != knob.shipped)


def extremes(backend: str, op: str) -> Iterator[dict[str, int]]:
    """Each knob at either end, the others as shipped; and all at one end."""
    knobs = tables.knobs(tables.declared_table(backend, op))
    for knob in knobs:
        yield from ({knob.name: value} for value in (knob.among[0], knob.among[-1]) if value != knob.shipped)
    yield {knob.name: knob.among[0] for knob in knobs}
    yield {knob.name: knob.among[-1] for knob in knobs}


@contextmanager
def on(backend: str, arch: str) -> Iterator[Device]:
    """Within the context, the backend plans for that architecture's device."""
    device = ARCHITECTURES[arch]
    with simulate_device(backend, device):
        yield device


def forms(backend: str, op: str) -> list[str]:
    """The variants to look at: ``auto``, and the forms that the other choosers choose among."""
    return [i.variant for i in registry.implementations(backend, op) if i.variant == "auto" or not i.chooses]


def plan(backend: str, op: str, variant: str, shape: tuple[int, ...], dim: int, dtype: str, table: Any) -> list[Any]:
    """The steps of one plan, none if the variant refuses the problem; ``auto`` refuses none."""
    import torch

    operation = operations.OPERATIONS[op]
    x = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    with tables.using(table), record_binds() as steps:
        try:
            launched(operation, registry._registered[backend, op, variant], x, dim, allocate(operation, x, dim))
        except UnsupportedProblemError:
            assert variant != "auto", (shape, dim, dtype, table)
            return []
    assert steps
    return steps


def check(step: LaunchStep, a: Device, static_shared: int, what: object) -> None:
    """Raise AssertionError if the device can't launch a step."""
    assert all(size >= 1 for size in step.grid) and step.grid[0] <= 2**31 - 1, what
    assert math.prod(step.grid[1:]) <= 65535, what
    assert step.threads % a.warp_size == 0 and a.warp_size <= step.threads <= 1024, what
    assert step.shared_bytes >= 0, what
    if step.shared_bytes:
        assert step.shared_bytes + static_shared <= a.shared_per_block, what
    assert step.cluster == 1 or (a.capability >= 90 and step.cluster <= 16 and step.grid[0] % step.cluster == 0), what
    if step.cooperative:  # all blocks at once: what registers and shared memory leave is for the kernel's own bounds
        assert math.prod(step.grid) <= a.multiprocessors * max(1, a.threads // step.threads), what


def check_all(
    backend: str, arch: str, op: str, dtypes: tuple[str, ...], static_shared: Callable[[Any], int] = lambda step: 2048
) -> int:
    """Check every value of every knob over the problems; how many plans were checked."""
    checked = 0
    with on(backend, arch) as device:
        table = tables.declared_table(backend, op)
        variants = forms(backend, op)
        for values in settings(backend, op):
            made = tables.table_with_values(table, values)
            for shape, dim in PROBLEMS:
                for dtype in dtypes:
                    for variant in variants:
                        for step in plan(backend, op, variant, shape, dim, dtype, made):
                            what = (backend, op, variant, shape, dim, dtype, arch, values, step)
                            check(step, device, static_shared(step), what)
                        checked += 1
    return checked
