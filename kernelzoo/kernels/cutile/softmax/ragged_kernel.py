"""A row that starts anywhere in memory to a program, which holds it on chip: of fused and split_cluster, where not all
rows start on 16 bytes.

The whole vectors inside a row are an array of their own, and what is left of it at its ends is read by elements.
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax.words import exponential, inverse_of, zero_if_empty
from kernelzoo.kernels.cutile.tiles import flat, inside_sizes
from kernelzoo.kernels.cutile.words import block_inside, ends_of, inside_of, memory_of
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


@ct.kernel
def ragged_kernel(x, out, n, PACK: ct.Constant[int], SIZE: ct.Constant[int]):
    """One read, one write. PACK: elements of a vector. SIZE: the power of two that holds a row's whole vectors."""
    ct.grid_dependency_control_wait()
    inside = block_inside(inside_of(x, ct.bid(0), n, PACK), 0, -float("inf"), SIZE)
    place, outside, ends = ends_of(x, ct.bid(0), n, -float("inf"), PACK)
    top = zero_if_empty(ct.maximum(ct.max(inside, 0), ct.max(ends, 0)))
    inside, ends = exponential(inside - top), exponential(ends - top)
    inverse = inverse_of(ct.sum(inside, 0) + ct.sum(ends, 0))
    result, written = ct.astype(inside * inverse, out.dtype), ct.astype(ends * inverse, out.dtype)
    ct.store(inside_of(out, ct.bid(0), n, PACK), (0,), result, allow_tma=False)
    memory_of(out, ct.bid(0), n).store_offset(place, written, mask=outside)


def launch_of_ragged(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, warps: int, blocks: int = 1) -> Launch:
    """The launch of ragged_kernel, each row held by so many blocks."""
    views = [flat(tensor) for tensor in (x, out)]
    return bound(id, ragged_kernel, (x, out), views, (rows.n,), inside_sizes(rows), rows.total, warps, blocks)
