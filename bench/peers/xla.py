"""XLA by JAX, https://github.com/jax-ml/jax, ``pip install jax[cuda13]``, and the softmax in Pallas that JAX ships.

Source: "jax.nn.softmax", https://docs.jax.dev/en/latest/_autosummary/jax.nn.softmax.html, under ``jax.jit``, and
``jax.experimental.pallas.ops.gpu.softmax``,
https://github.com/jax-ml/jax/blob/main/jax/experimental/pallas/ops/gpu/softmax.py.

XLA launches on streams of its own, which no CUDA graph of torch's captures: the device clock has no time of it, and the
rows say so. ``bench/repeat_peers.py`` times the same functions by the profiler's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

from . import rows

REMEDY = "pip install 'jax[cuda13]'"
WHY = "XLA launches on its own streams, which a CUDA graph of torch's does not capture; see bench/repeat_peers.py"


@kernelzoo.register("jax", "softmax", "library")
def jax_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """jax.nn.softmax as XLA compiles it."""
    return refused("jax/softmax/library", x, out)


@kernelzoo.register("jax", "softmax", "pallas")
def pallas_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The softmax in Pallas that JAX ships: a row on a block, in one tile."""
    return refused("jax/softmax/pallas", x, out)


@kernelzoo.register("jax", "min", "library")
def jax_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """jax.numpy.min as XLA compiles it."""
    return refused("jax/min/library", x, out)


def refused(id: str, x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Raise UnsupportedProblemError, which says where the time is to be had."""
    rows(id, x, out)
    require("jax", "jax", REMEDY)
    raise UnsupportedProblemError(id, WHY)


def functions() -> dict[str, Callable[[Any], Any]]:
    """What is timed, by id: functions of a matrix of JAX's."""
    jax: Any = require("jax", "jax", REMEDY)
    pallas: Any = require("jax", "jax.experimental.pallas.ops.gpu.softmax", REMEDY)
    return {
        "jax/softmax/library": jax.jit(jax.nn.softmax),
        "jax/softmax/pallas": jax.jit(pallas.softmax),
        "jax/min/library": jax.jit(lambda x: jax.numpy.min(x, axis=-1)),
    }
