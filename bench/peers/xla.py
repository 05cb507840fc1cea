"""XLA by JAX, https://github.com/jax-ml/jax, ``pip install jax[cuda13]``, and the softmax in Pallas that JAX ships.

Source: "jax.nn.softmax", https://docs.jax.dev/en/latest/_autosummary/jax.nn.softmax.html, under ``jax.jit``, and
``jax.experimental.pallas.ops.gpu.softmax``,
https://github.com/jax-ml/jax/blob/main/jax/experimental/pallas/ops/gpu/softmax.py.

XLA launches on streams of its own, which no CUDA graph of torch's captures: the device clock has no time of it, and the
rows say so. ``bench/repeat_peers.py`` times the same functions by the profiler's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

from . import rows

REMEDY = "pip install 'jax[cuda13]'"
WHY = "XLA launches on its own streams, which a CUDA graph of torch's does not capture; see bench/repeat_peers.py"


IN_TORCH = {
    "jax/softmax/library": torch.softmax,
    "jax/softmax/pallas": torch.softmax,
    "jax/min/library": torch.amin,
    "jax/sum/library": torch.sum,
    "jax/argmin/library": torch.argmin,
    "jax/logsumexp/library": torch.logsumexp,
    "jax/cumsum/library": torch.cumsum,
}
"""What is timed, by id, and torch's function of a tensor and an axis."""


def functions() -> dict[str, Callable[[Any], Any]]:
    """The same as functions of a matrix of JAX's."""
    jax: Any = require("jax", "jax", REMEDY)
    pallas: Any = require("jax", "jax.experimental.pallas.ops.gpu.softmax", REMEDY)
    along = {"softmax": jax.nn.softmax, "logsumexp": jax.nn.logsumexp}
    along |= {op: getattr(jax.numpy, op) for op in ("min", "sum", "argmin", "cumsum")}
    made = {f"jax/{op}/library": jax.jit(partial(function, axis=-1)) for op, function in along.items()}
    return made | {"jax/softmax/pallas": jax.jit(pallas.softmax)}


def refused(id: str) -> None:
    """Register a row whose refusal says where the time is to be had."""

    def bind(*tensors: torch.Tensor) -> Launch:
        rows(id, *tensors)
        require("jax", "jax", REMEDY)
        raise UnsupportedProblemError(id, WHY)

    op, variant = id.split("/")[1:]
    bind.__doc__ = f"{op} as XLA compiles it, or as Pallas does that JAX ships: {variant}."
    kernelzoo.register("jax", op, variant)(bind)


for _id in IN_TORCH:
    refused(_id)
