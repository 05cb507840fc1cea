"""Strips of columns that several programs share, all of them resident, which exchange pairs: one launch."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of
from kernelzoo.kernels.triton.softmax.columns_kernel import columns_kernel
from kernelzoo.kernels.triton.softmax.pairs import EXCHANGE
from kernelzoo.kernels.triton.softmax.strips import (
    in_parts,
    shared_programs,
    strip_arguments,
    strip_options,
    strip_parts,
    strips_or_raise,
)
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("triton", "softmax", "columns_grid")
def columns_grid(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to a strip of columns, which they hold while they exchange (max, sum) pairs: one launch.

    All programs run at once (a co-operative launch), so that they may wait for each other, which only NVIDIA's devices
    can be asked for.
    """
    device = device_of(x)
    if not device.is_nvidia:
        raise UnsupportedProblemError(
            "triton/softmax/columns_grid", "programs can't wait for each other on this device"
        )
    columns, strips = strips_or_raise(rows_of(x, out), device, "triton/softmax/columns_grid")
    strips = in_parts(strips, columns.n)
    parts, tiles = strip_parts(columns, strips, device), columns.strips(strips.columns)
    pairs = x.new_full((2, tiles, parts, strips.columns), -1, dtype=torch.int64)
    arrivals = x.new_zeros(1, dtype=torch.int64)
    args = strip_arguments(x, out, columns, strips, (pairs, arrivals), EXCHANGE, device)
    options = {**strip_options(strips, device), "launch_cooperative_grid": True}
    programs, warps = shared_programs(columns, strips, device), device.warps(strips.threads)
    return bound("triton/softmax/columns_grid", x, columns_kernel, programs, args, warps, **options)
