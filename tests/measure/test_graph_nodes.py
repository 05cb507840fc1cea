"""In a CUDA graph, each launch must be the same kernels: what is left out while it is captured is never timed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
import torch

import kernelzoo
from kernelzoo import measure
from kernelzoo.errors import ContractError
from kernelzoo.launch import Bind, Launch
from kernelzoo.measure import Problem
from kernelzoo.measure.graph_nodes import Nodes, check_equal_launches
from kernelzoo.registry import Implementation

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
ONE, OTHER, PROBE = (0, 1, 0, 8), (0, 2, 0, 8), (0, 3, 0, 1)
DIFFER = r"its \d+ launches in a CUDA graph differ"


def test_launches_that_are_alike() -> None:
    check_equal_launches(Nodes(), Nodes(), 7)
    check_equal_launches(Nodes({ONE: 7, OTHER: 14}), Nodes(), 7)
    # Torch's kernels may be the probe's too.
    check_equal_launches(Nodes({ONE: 8, PROBE: 2}), Nodes({ONE: 1, PROBE: 2}), 7)


@pytest.mark.parametrize("found", [{ONE: 6}, {ONE: 6, OTHER: 1}, {ONE: 7, OTHER: 1}, {ONE: 7, PROBE: 3}], ids=str)
def test_launches_that_are_not_alike(found: dict[tuple[int, ...], int]) -> None:
    with pytest.raises(ContractError, match=DIFFER):
        check_equal_launches(Nodes(found), Nodes({PROBE: 2}), 7)


@GPU
@pytest.mark.parametrize("lazy", ["skips", "another_kernel", "waits"])
def test_what_is_captured(lazy: str, entrant: Callable[[Bind], Implementation]) -> None:
    count = itertools.count()

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            capturing = torch.cuda.is_current_stream_capturing()
            if lazy == "waits" and capturing:
                torch.cuda.synchronize()
            if not capturing or next(count) % 10 != 9:
                torch.softmax(x, 1, out=out)
            elif lazy == "another_kernel":
                out.view(-1)[:1].abs_()

        return launch

    entrants = [entrant(bind), kernelzoo.implementation("torch/softmax/eager")]
    problem = Problem("softmax", (64, 512), "float32")
    found, honest = measure.race(problem, entrants, torch.device("cuda"), rounds=6).values()
    assert re.match(r"raised \w+: " if lazy == "waits" else DIFFER, found.wrong or found.failed)
    assert not found.samples and honest.samples
