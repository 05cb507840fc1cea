"""A row that starts anywhere in memory to a program, which holds it on chip: of fused and split_cluster, where not all
rows start on 16 bytes.

The whole vectors inside a row are an array of their own, and what is left of it at its ends is read by elements.
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile.launch import View, bound
from kernelzoo.kernels.cutile.softmax.words import exponential, zero_if_empty
from kernelzoo.kernels.cutile.words import wide
from kernelzoo.launch import Launch
from kernelzoo.layout import VECTOR_BYTES, Rows, power_of_two


@ct.kernel
def ragged_kernel(x, out, n, PACK: ct.Constant[int], SIZE: ct.Constant[int]):
    """One read, one write. PACK: elements of a vector. SIZE: the power of two that holds a row's whole vectors."""
    ct.grid_dependency_control_wait()
    first = ct.bid(0) * n
    begin = (first + (PACK - 1)) // PACK * PACK
    end = (first + n) // PACK * PACK
    inside = ct.load(x.slice(0, begin, end), (0,), (SIZE,), padding_mode=ct.PaddingMode.NEG_INF, allow_tma=False)
    # The first elements and the last, as many as a vector has; some are inside.
    place = ct.arange(2 * PACK, dtype=ct.int32)
    place = ct.where(place < PACK, place, place + (n - 2 * PACK))
    outside = (place < begin - first) | (place >= end - first)
    edges = x.slice(0, first, first + n).get_raw_memory()
    ends = edges.load_offset(place, mask=outside, padding_value=-float("inf"))
    inside, ends = ct.astype(inside, wide(x)), ct.astype(ends, wide(x))
    top = zero_if_empty(ct.maximum(ct.max(inside, 0), ct.max(ends, 0)))
    inside, ends = exponential(inside - top), exponential(ends - top)
    inverse = 1.0 / (ct.sum(inside, 0) + ct.sum(ends, 0))
    ct.store(out.slice(0, begin, end), (0,), ct.astype(inside * inverse, out.dtype), allow_tma=False)
    written = out.slice(0, first, first + n).get_raw_memory()
    written.store_offset(place, ct.astype(ends * inverse, out.dtype), mask=outside)


def is_ragged(rows: Rows, x: torch.Tensor) -> bool:
    """Whether rows follow each other without a gap, and begin anywhere in vectors though the first begins with one."""
    pack = VECTOR_BYTES // rows.itemsize
    near = View(x, (rows.total * rows.n,), (1,))
    return rows.one_piece and rows.aligned and rows.n % pack > 0 and rows.n >= 4 * pack and not near.far


def launch_of_ragged(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, warps: int, blocks: int = 1) -> Launch:
    """The launch of ragged_kernel, each row held by so many blocks."""
    pack = VECTOR_BYTES // rows.itemsize
    views = [View(tensor, (rows.total * rows.n,), (1,)) for tensor in (x, out)]
    constants = pack, power_of_two(rows.n // pack) * pack
    return bound(id, ragged_kernel, (x, out), views, (rows.n,), constants, rows.total, warps, blocks)
