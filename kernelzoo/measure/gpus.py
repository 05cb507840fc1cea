"""The GPUs that a sweep is spread over, one measuring process each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import takewhile

from kernelzoo.errors import KernelZooError


class GpusError(KernelZooError, ValueError):
    """These GPUs are not here, or can't be told apart."""


@dataclass(frozen=True)
class Gpu:
    """One GPU, for the life of a measuring process."""

    index: int
    """As ``cuda:INDEX`` names it in this process."""
    visible: str
    """What ``CUDA_VISIBLE_DEVICES`` must be for a process to see it alone."""


def chosen(text: str) -> list[Gpu]:
    """The GPUs that ``"all"`` or a list such as ``"0,1"`` names; none for "".

    The numbers are torch's: where ``CUDA_VISIBLE_DEVICES`` is set, places in it. Raises GpusError.
    """
    if not text:
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = [] if given is None else [word.strip() for word in given.split(",")]
    entries = None if given is None else list(takewhile(lambda word: word not in ("", "-1"), words))
    known = _count() if entries is None else len(entries)
    if text == "all":
        if not known:
            raise GpusError("--gpus all, and there is no GPU here; kernelzoo doctor says what is missing")
        wanted = list(range(known))
    else:
        words = text.split(",")
        if not all(word.isascii() and word.isdigit() for word in words) or len(set(map(int, words))) < len(words):
            raise GpusError(f"no GPUs {text!r}; write all, or each number once, such as 0,1")
        wanted = [int(word) for word in words]
    # Without NVML nothing is known: a process that finds no such GPU says so when it starts.
    if (known or entries is not None) and (beyond := [index for index in wanted if index >= known]):
        raise GpusError(f"no GPU {beyond[0]} here; there are {known}, numbered from 0")
    return [Gpu(index, str(index) if entries is None else entries[index]) for index in wanted]


def _count() -> int:
    """The GPUs of this machine by NVML, which takes no second, where torch takes several; 0 if it can't be asked."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except Exception:  # the package, its library, or the driver is missing
        return 0
