"""A row that starts anywhere in memory to a program, which goes through it in blocks: of online, where not all rows
start on 16 bytes.

The whole vectors inside a row are an array of their own, and what is left of it at its ends is read by elements.
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax.words import exponential, inverse_of, lowest, taken_in
from kernelzoo.kernels.cutile.tiles import flat, inside_sizes
from kernelzoo.kernels.cutile.words import ends_of, inside_of, memory_of, stretches_inside, taken_inside, wide
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


@ct.kernel
def ragged_online_kernel(x, out, n, PACK: ct.Constant[int], SIZE: ct.Constant[int]):
    """A running pair in each lane over blocks of a row, then a pass that writes. PACK: elements of a vector."""
    ct.grid_dependency_control_wait()
    row = ct.bid(0)
    inside, target = inside_of(x, row, n, PACK), inside_of(out, row, n, PACK)
    stretches = stretches_inside(inside, 0, ct.num_tiles(inside, 0, (SIZE,)), SIZE)
    LANES = (1, 1, SIZE // PACK)
    top, total = lowest(x, LANES), ct.zeros(LANES, wide(x))
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # Backwards, as the blocks that are read last are likeliest to be in a cache still when the others write.
            block = taken_inside(inside, first + last - 1 - i, -float("inf"), SIZE, WHOLE)
            top, total = taken_in(top, total, block, 2, PACK)
    top, total = ct.reshape(top, (SIZE // PACK,)), ct.reshape(total, (SIZE // PACK,))
    place, outside, ends = ends_of(x, row, n, -float("inf"), PACK)
    row_top = ct.maximum(ct.max(top, 0, keepdims=True), ct.max(ends, 0, keepdims=True))
    ends = exponential(ends - row_top)
    inverse = inverse_of(ct.sum(total * exponential(top - row_top), 0, keepdims=True) + ct.sum(ends, 0, keepdims=True))
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # The index is the loop's own: see online.
            result = exponential(taken_inside(inside, i, -float("inf"), SIZE, WHOLE) - row_top) * inverse
            ct.store(target, (i,), ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)
    memory_of(out, row, n).store_offset(place, ct.astype(ends * inverse, out.dtype), mask=outside)


def launch_of_ragged_online(
    id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, block: int, warps: int, occupancy: int | None
) -> Launch:
    """The launch over all rows, each a program's, which takes so many elements at a time."""
    pack, size = inside_sizes(rows)
    views, constants = [flat(tensor) for tensor in (x, out)], (pack, min(block, size))
    return bound(
        id, ragged_online_kernel, (x, out), views, (rows.n,), constants, rows.total, warps, occupancy=occupancy
    )
