"""A program takes several rows, or a block of one at a time: in each lane the least element so far, and its place."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.min.device_functions import load_padded
from kernelzoo.kernels.shared.minimum import identity
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register

PAST = 2**63 - 1
"""A place past all others: what is there is never the first of equal elements."""


def lesser(a, i, b, j):
    """The lesser of two elements, and its place: a NaN is less than all others, and of equal ones the first is."""
    equal = (a == b) | ((a != a) & (b != b))
    less = (a < b) | ((a != a) & (b == b)) | (equal & (i < j))
    return ct.where(less, a, b), ct.where(less, i, j)


@ct.kernel
def argmin_kernel(
    x, out, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    least = ct.full(SHAPE, IDENTITY, x.dtype)
    places = ct.full(SHAPE, PAST, ct.int64)
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        tile = load_padded(x, group, strip, i, IDENTITY, FLOAT, not FLOAT, AXIS, SHAPE)
        least, places = lesser(least, places, tile, dev.elements_of(i, AXIS, SHAPE))
    least, place = ct.reduce((least, places), AXIS, lesser, (IDENTITY, PAST))
    ct.store(out, (group, strip), place, allow_tma=False)


@register("cutile", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """In each lane the least element so far and its place; lanes meet after the loop."""
    id, rows = "cutile/argmin/rows", rows_of(x, out)
    tile = tiles.plain(rows, device_of(x), 2)
    views = tiles.make_views(rows, tile, (x, out))
    constants = (identity(x.dtype), x.dtype.is_floating_point, tile.axis, tile.shape)
    return bound(id, argmin_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps)
