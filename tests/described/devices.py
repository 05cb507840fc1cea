"""Devices that nobody sells, to ask the launch tables about: one or many multiprocessors, little L2, little memory."""

import math
from collections.abc import Iterator
from dataclasses import replace

import matrix

from kernelzoo import operations, registry
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.errors import UnsupportedProblemError

KIB, MIB = 1024, 1024**2

_HOPPER, _OLDER, _CONSUMER, _AMD = (ARCHITECTURES[name] for name in ("sm_90", "sm_86", "sm_120", "gfx942"))

NVIDIA: dict[str, Device] = {
    "one multiprocessor": replace(_HOPPER, multiprocessors=1),
    "seven multiprocessors": replace(_HOPPER, multiprocessors=7),
    "264 multiprocessors": replace(_HOPPER, multiprocessors=264),
    "half a MiB of L2": replace(_HOPPER, l2_bytes=MIB // 2),
    "48 kB of shared memory": replace(_HOPPER, shared_bytes=48 * KIB, shared_per_block=48 * KIB),
    "one multiprocessor of an older one": replace(_OLDER, multiprocessors=1, l2_bytes=MIB),
    "48 kB of an older one": replace(_OLDER, shared_bytes=64 * KIB, shared_per_block=48 * KIB),
    "seven multiprocessors of a consumer's": replace(_CONSUMER, multiprocessors=7),
}
AMD: dict[str, Device] = {  # warps of 64
    "one compute unit": replace(_AMD, multiprocessors=1),
    "seven compute units": replace(_AMD, multiprocessors=7, l2_bytes=MIB // 2),
}

EXTREME = (
    *matrix.SHAPES,
    *matrix.LAYOUTS,
    matrix.Problem((1, 1)),
    matrix.Problem((1 << 31, 3)),  # one row more than the largest grid has blocks
    matrix.Problem((3, (1 << 31) + 1)),
    matrix.Problem((1 << 31, 2), 0),
    matrix.Problem((2, 1 << 33), 0),
)


def bound(backend: str, dtype: str) -> Iterator[tuple[str, matrix.Problem]]:
    """Bind every implementation to every problem of a dtype, and launch it; what it was, each time it launched."""
    for (name, op, variant), bind in list(registry._registered.items()):
        operation = operations.OPERATIONS[op]
        if name != backend or dtype not in operation.dtypes:
            continue
        for problem in EXTREME:
            request = matrix.Laid(backend, op, variant, problem.shape, dtype, problem.dim, "", layout=problem.layout)
            args = request.arguments("meta")
            try:
                launch = operation.make_launch(bind, args, operation.allocate(args))
            except UnsupportedProblemError:
                assert variant != "auto" or math.prod(problem.shape) >= 1 << 32, (request.id, problem)
                continue
            launch()
            yield f"{op}/{variant}", problem
