"""Strips of columns that several programs share: a launch that leaves pairs, and one that merges them and writes."""

import torch

from kernelzoo.kernels.shared.jit import bound, device_of
from kernelzoo.kernels.triton.softmax.columns_kernel import columns_kernel
from kernelzoo.kernels.triton.softmax.pairs import LEAVE, WRITE
from kernelzoo.kernels.triton.softmax.strips import (
    Strips,
    in_parts,
    shared_programs,
    strip_arguments,
    strip_options,
    strip_parts,
    strips_or_raise,
)
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import Columns, rows_of
from kernelzoo.registry import register


@register("triton", "softmax", "columns_two_launches")
def columns_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to a strip of columns leave (max, sum) pairs; a second launch merges them and writes."""
    columns, strips = strips_or_raise(rows_of(x, out), device_of(x), "triton/softmax/columns_two_launches")
    return strips_in_parts(x, out, columns, in_parts(strips, columns.n))


def strips_in_parts(x: torch.Tensor, out: torch.Tensor, columns: Columns, strips: Strips) -> Launch:
    """The two launches of these strips, of which programs hold parts of columns."""
    device = device_of(x)
    parts, tiles = strip_parts(columns, strips, device), columns.strips(strips.columns)
    pairs = x.new_empty((tiles, parts, strips.columns), dtype=torch.int64)
    arrivals = x.new_zeros(1, dtype=torch.int64)  # the kernel's argument, of which these phases make no use
    programs, warps = shared_programs(columns, strips, device), device.warps(strips.threads)
    options = strip_options(strips, device)

    def part(phase: object) -> Launch:
        args = strip_arguments(x, out, columns, strips, (pairs, arrivals), phase, device)
        return bound("triton/softmax/columns_two_launches", x, columns_kernel, programs, args, warps, **options)

    return sequence(part(LEAVE), part(WRITE))
