"""How a problem is laid out for the host's kernels: flat arrays, which rows go side by side, tasks, launches."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
import torch

from kernelzoo.registry import Launch

TASK_ELEMENTS = 65536
"""Least elements worth a task of its own: waking the other threads costs some 20 us, in which one core reads these."""

MIN_LANES = 8
"""Fewer rows than this side by side leave most of a vector register idle."""

SHORT = 32
"""Reduced axes shorter than this are too short to vectorise along."""

# Numba's workqueue threading layer, which it falls back to where neither TBB nor OpenMP is installed, ends the process
# when two Python threads are inside parallel kernels at once. One launch uses all cores, so waiting costs little.
_launching = threading.Lock()

_alone = False
"""Whether this process may not start parallel loops: see _after_fork."""


def _after_fork() -> None:
    """In a forked child: the lock may be held by a thread that only the parent has, and GNU OpenMP, which Numba takes
    where TBB is not installed, can't be forked. Numba ends a child that enters a parallel loop if its parent had."""
    global _launching, _alone
    _launching = threading.Lock()
    with suppress(ValueError):  # the parent had started no threads: the child may start its own
        _alone = _alone or numba.threading_layer() == "omp"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def flat(x: torch.Tensor, dtype: torch.dtype) -> Any:
    """The memory that x spans as a one-dimensional array of ``dtype`` (of the same width), without a copy.

    So each kernel is compiled once per dtype, whatever the strides, and finds the rows that are contiguous to be so.
    """
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.detach().as_strided((span,), (1,)).view(dtype).numpy()


def lanes_last(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Order the two row axes of the canonical form so that the last, the *lane* axis, is the one to go side by side.

    That is the closer one in memory, unless it has too few rows; the other then, if it is longer.
    """
    closer, other = (0, 2) if x.size(2) == 1 or (x.size(0) > 1 and x.stride(0) < x.stride(2)) else (2, 0)
    lane = closer if x.size(closer) >= min(MIN_LANES, x.size(other)) else other
    return (x, out) if lane == 2 else (x.transpose(0, 2), out.transpose(0, -1))


def side_by_side(x: torch.Tensor) -> bool:
    """Whether neighbouring rows of ``lanes_last`` are best worked on together, a vector register across rows."""
    return x.size(2) >= MIN_LANES and (x.size(1) < SHORT or x.stride(2) < x.stride(1))


def tasks(units: int, elements: int) -> int:
    """Number of parallel tasks for so many independent units of work over so many elements; 1 runs on the caller."""
    if _alone:
        return 1
    threads: int = numba.get_num_threads()
    return max(1, min(threads, units, elements // TASK_ELEMENTS))


def launcher(*steps: tuple[Callable[..., None], tuple[Any, ...]]) -> Launch:
    """A launch that runs compiled kernels with their arguments, in order."""

    def launch() -> None:
        with _launching:
            for kernel, arguments in steps:
                kernel(*arguments)

    return launch
