"""The kernel whose blocks exchange pairs with other ranks, compiled ahead of time: two GPUs are needed to run it."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton

if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)

from kernelzoo import operations, registry
from kernelzoo.device import ARCHITECTURES, plan_launches_for_device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.triton import inspection
from kernelzoo.launch import record_binds

registry.import_kernels("triton", "kernelzoo.kernels.triton")
from kernelzoo.kernels.triton.softmax.split_ranks import split_ranks  # noqa: E402


def steps(x: torch.Tensor, ranks: int, arch: str) -> list:
    """What is launched for a shard, compiled."""
    device = ARCHITECTURES[arch]
    with plan_launches_for_device(device), inspection.target(device), record_binds(can_compile=True) as found:
        words, one = torch.empty(2, x.size(0), ranks, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
        split_ranks(x, torch.empty_like(x), words, one, one, one[:1], 0, ranks, 10**9)()
        return [(step, step.build()) for step in found]


@pytest.mark.parametrize("shape", [(2048, 64128), (16, 131072), (40, 1001)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_blocks_wait_for_ranks_only_where_all_are_resident(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    ((step, made),) = steps(torch.empty(*shape, 1, dtype=dtype), 2, "sm_90")
    assert step.cooperative
    assert made.local_bytes == 0
    device = ARCHITECTURES["sm_90"]
    held = device.registers_per_block // (made.registers * step.threads)
    assert step.grid[0] <= held * device.multiprocessors
    # The pair goes out behind a fence that all devices see, once for all rows, and is read for no longer than a limit.
    cleared, _, sent = made.ptx.partition("fence.acq_rel.sys")
    assert "atom.global.sys" not in cleared and sent.count("atom.global.sys.relaxed.exch.b64") == 1
    assert "ld.relaxed.sys.global.b64" in sent and "%globaltimer" in sent


def test_wide_elements_are_refused() -> None:
    with pytest.raises(UnsupportedProblemError, match="up to 32 bits"):
        steps(torch.empty(4, 100, 1, dtype=torch.float64), 2, "sm_90")


# The exchange between ranks, in Triton's interpreter: processes that share memory

ROOT = Path(__file__).parents[2]
SOFTMAX = operations.OPERATIONS["softmax"]
SIZES = (((1, 300, 77), 12), ((64, 64), 12), ((513, 2, 40, 130), 6))
"""Columns of each rank, and launches."""


def drawn(sizes: tuple[int, ...], launch: int) -> list[torch.Tensor]:
    """Shards of six rows, some with special values on one rank alone; another layout in every other launch."""
    n = sum(sizes)
    x = torch.randn(6, n, generator=torch.Generator().manual_seed(launch)) * 3
    x[1, launch % n] = math.nan
    x[2, -1] = math.inf
    x[3, : sizes[0]] = -math.inf
    x[4] = -math.inf if launch % 3 == 0 else -3e38
    shards = list(torch.split(x, list(sizes), 1))
    return shards if launch % 2 else shards[::-1]


def started(folder: Path, inputs: list[list[torch.Tensor]], missing: int = -1) -> list[subprocess.Popen[bytes]]:
    """The ranks' processes."""
    ranks = len(inputs[0])
    torch.save(inputs, folder / "inputs.pt")
    for rank in range(ranks):
        words = torch.full((2, inputs[0][0].size(0), ranks), -1, dtype=torch.int64)
        (folder / f"words-{rank}").write_bytes(words.numpy().tobytes())
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    place = {"TRITON_INTERPRET": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    program = str(ROOT / "tests" / "shared" / "interpreted_rank.py")
    return [
        subprocess.Popen(
            [sys.executable, program, str(rank), str(ranks), str(folder), str(len(inputs)), str(missing)],
            env=os.environ | place,
        )
        for rank in range(ranks)
    ]


def ended(processes: list[subprocess.Popen[bytes]]) -> None:
    try:
        assert [process.wait(180) for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("sizes", "launches"), SIZES, ids=str)
def test_ranks_exchange_pairs_launch_after_launch(tmp_path: Path, sizes: tuple[int, ...], launches: int) -> None:
    """Uneven shards, ranks that come at other times, and words that are used again."""
    inputs = [drawn(sizes, launch) for launch in range(launches)]
    ended(started(tmp_path, inputs))
    found = [torch.load(tmp_path / f"found-{rank}.pt") for rank in range(len(sizes))]
    for launch, shards in enumerate(inputs):
        SOFTMAX.assert_close(torch.cat([results[launch] for results, *_ in found], 1), torch.cat(shards, 1))
    assert all(late == [0] and state == [launches, 0] for _, _, late, state in found)


def test_a_rank_that_does_not_come_is_late_on_all_others(tmp_path: Path) -> None:
    inputs = [drawn((40, 40, 40), launch) for launch in range(4)]
    ended(started(tmp_path, inputs, missing=2))
    for rank in range(2):
        results, seconds, late, state = torch.load(tmp_path / f"found-{rank}.pt")
        assert late == [1] and state == [4, 1]
        assert results[2].isnan().all() and results[3].isnan().all()
        assert not results[1][0].isnan().any()
        assert 1.5 < seconds[2] < 30 and seconds[3] < 1.5, "the first wait is as long as said, and no later one"
