"""A row that starts anywhere in memory, of both inputs, to a program, which holds it on chip: the kernel of fused for
those. Whole vectors inside a row are an array of their own, and what is left of it at its ends is read by elements.
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.tiles import flat, inside_sizes, is_ragged
from kernelzoo.kernels.cutile.words import block_inside, ends_of, inside_of, memory_of
from kernelzoo.launch import Launch
from kernelzoo.layout import VECTOR_BYTES, Rows


@ct.kernel
def ragged_kernel(grad, y, out, n, PACK: ct.Constant[int], SIZE: ct.Constant[int]):
    """Each input is read once, and the result written. PACK: elements of a vector. SIZE: the power of two that holds a
    row's whole vectors."""
    ct.grid_dependency_control_wait()
    row = ct.bid(0)
    grads = block_inside(inside_of(grad, row, n, PACK), 0, 0.0, SIZE)
    weights = block_inside(inside_of(y, row, n, PACK), 0, 0.0, SIZE)
    _, _, grad_ends = ends_of(grad, row, n, 0.0, PACK)
    place, outside, y_ends = ends_of(y, row, n, 0.0, PACK)
    total = ct.sum(grads * weights, 0) + ct.sum(grad_ends * y_ends, 0)
    result = ct.astype(weights * (grads - total), out.dtype)
    ct.store(inside_of(out, row, n, PACK), (0,), result, allow_tma=False)
    ends = ct.astype(y_ends * (grad_ends - total), out.dtype)
    memory_of(out, row, n).store_offset(place, ends, mask=outside)


def are_ragged(rows: Rows, grad: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether rows of both inputs follow each other without a gap, and begin anywhere in vectors."""
    return is_ragged(rows, grad) and y.is_contiguous() and y.data_ptr() % VECTOR_BYTES == 0


def launch_of_ragged(id: str, tensors: tuple[torch.Tensor, ...], rows: Rows, warps: int) -> Launch:
    """The launch of ragged_kernel. tensors: grad, y and out."""
    views = [flat(tensor) for tensor in tensors]
    return bound(id, ragged_kernel, tensors, views, (rows.n,), inside_sizes(rows), rows.total, warps)
