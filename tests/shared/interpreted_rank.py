"""A rank of ``ranks_kernel`` in Triton's interpreter: ``RANK RANKS FOLDER LAUNCHES MISSING``; -1: none is missing."""

import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton.language as tl

from kernelzoo import registry
from kernelzoo.kernels.shared.split import split

registry.import_kernels("triton", "kernelzoo.kernels.triton")
from kernelzoo.kernels.triton.softmax import parts, split_ranks  # noqa: E402

LIMIT = 20.0
"""Seconds that a rank waits, and how many where one does not come."""
SHORT = 2.0


def await_words(words: Any, there: Any, limit: Any = None) -> Any:
    """The words that are there, each as soon as not all of its bits are set, or after limit nanoseconds."""
    seconds = 60.0 if limit is None else float(limit.handle.data.max()) * 1e-9
    end = time.monotonic() + seconds
    while True:
        found = tl.load(words, there, other=0)
        if (found.handle.data != -1).all() or time.monotonic() > end:
            return found
        time.sleep(0.0002)


def main(rank: int, ranks: int, folder: Path, launches: int, missing: int) -> None:
    split_ranks.await_words = split_ranks.await_rank_words = await_words
    split_ranks.device_of = lambda x: SimpleNamespace(is_nvidia=True)
    parts.split = lambda rows, n, most, vector, programs: split(rows, n, 1, vector, 1)
    inputs = torch.load(folder / "inputs.pt")
    rows = inputs[0][0].size(0)
    size = 2 * rows * ranks
    shared = [torch.from_file(str(folder / f"words-{peer}"), True, size, dtype=torch.int64) for peer in range(ranks)]
    words = shared[rank].view(2, rows, ranks)
    peers = torch.tensor([one.data_ptr() for one in shared])
    state, late = torch.zeros(2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    limit = int((LIMIT if missing < 0 else SHORT) * 1e9)
    places, found, seconds = [], [], []
    for layout in range(2):
        x = torch.empty(inputs[layout][rank].shape).unsqueeze(-1)
        out = torch.empty_like(x)
        form = split_ranks.split_ranks
        places.append((x, out, form(x, out, words, peers, state, late, rank, ranks, limit)))
    dice = random.Random(rank)
    for launch in range(launches):
        if missing >= 0 and launch >= missing and rank == ranks - 1:
            break
        x, out, run = places[launch % 2]
        x.copy_(inputs[launch][rank].unsqueeze(-1))
        time.sleep(dice.choice((0, 0, 0.05, 0.2)))
        began = time.monotonic()
        run()
        seconds.append(time.monotonic() - began)
        found.append(out[:, :, 0].clone())
    torch.save((found, seconds, late.tolist(), state.tolist()), folder / f"found-{rank}.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
