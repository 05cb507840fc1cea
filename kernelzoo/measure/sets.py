"""The sets of inputs and outputs that a race rotates through."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kernelzoo.device import free_memory, no_room
from kernelzoo.measure.buffers import Set, shared_inputs
from kernelzoo.measure.clocks import Clock
from kernelzoo.measure.problems import Problem

if TYPE_CHECKING:
    import torch


def draw_sets(problem: Problem, device: torch.device, *, count: int) -> list[Set]:
    """Sets of new inputs and outputs. Inputs that all rows share have the same values in each."""
    import torch

    generator = torch.Generator(device).manual_seed(random.getrandbits(48))
    sets: list[Set] = []
    for _ in range(count):
        inputs = problem.inputs(generator)
        if sets:
            for shared in shared_inputs(problem.operation):
                inputs[shared].copy_(sets[0][0][shared])
        sets.append((inputs, problem.operation.allocate(problem.arguments(inputs))))
    return sets


def rotated(problem: Problem, device: torch.device, clock: Clock, cache: str) -> list[Set]:
    """Cold: 2 to 2048 sets that together exceed the cache. Hot: one set. Raises NoRoomError."""
    one = max(1, problem.bytes)
    count = 1 if cache == "hot" else min(max(2, -(-clock.sets_bytes // one)), 2048)
    if device.type == "cpu" and one * count > free_memory():
        raise no_room("the race", one * count)
    return draw_sets(problem, device, count=count)
