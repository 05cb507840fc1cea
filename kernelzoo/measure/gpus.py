"""The GPUs of a sweep. Each GPU is used by one measuring process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import takewhile

from kernelzoo.errors import KernelZooError


class GpusError(KernelZooError, ValueError):
    """The requested GPUs are missing, or can't be told apart."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that is assigned to one measuring process for the lifetime of the process."""

    index: int
    """Its index, as in ``cuda:INDEX``."""
    visible: str
    """The ``CUDA_VISIBLE_DEVICES`` of a process that sees only this GPU."""


def parse_gpus(text: str) -> list[Gpu]:
    """Return the GPUs that an option names: ``"all"``, a list such as ``"0,1"``, or "" for none.

    Numbers are torch's: if ``CUDA_VISIBLE_DEVICES`` is set, they are positions in it. Raises GpusError.
    """
    if not text:
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = [] if given is None else [word.strip() for word in given.split(",")]
    entries = None if given is None else list(takewhile(lambda word: word not in ("", "-1"), words))
    known = _gpu_count() if entries is None else len(entries)
    if text == "all":
        if not known:
            raise GpusError("--gpus all: there is no GPU here; kernelzoo doctor says what is missing")
        wanted = list(range(known))
    else:
        words = text.split(",")
        if not all(word.isascii() and word.isdigit() for word in words) or len(set(map(int, words))) < len(words):
            raise GpusError(f"--gpus takes no {text!r}; write all, or each number once, such as 0,1")
        wanted = [int(word) for word in words]
    # Without NVML nothing is known. A process that finds no such GPU reports it at its start.
    if (known or entries is not None) and (beyond := [index for index in wanted if index >= known]):
        raise GpusError(f"no GPU {beyond[0]} here; there are {known}, numbered from 0")
    return [Gpu(index, str(index) if entries is None else entries[index]) for index in wanted]


def _gpu_count() -> int:
    """Return the number of GPUs that NVML finds; 0 without NVML. Asking torch would be far slower."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except Exception:  # the package, its library, or the driver is missing
        return 0
