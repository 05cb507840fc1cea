import torch

from kernelzoo.kernels.numba.launch import View, has_clusters, settled
from kernelzoo.kernels.numba.softmax_backward.fused import fused_tiling
from kernelzoo.kernels.numba.softmax_backward.online import online_tiling
from kernelzoo.kernels.numba.softmax_backward.split_cluster import cluster_shape
from kernelzoo.layout import cdiv
from kernelzoo.registry import chooser

SHARED_VECTORS = 2048
"""Of a row, above which a cluster shares it, if rows are fewer than half of the SMs."""


@chooser("numba", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest sibling for the problem, by the row's length and the number of rows."""
    return settled(fastest, None, grad, y, out)


def fastest(v: View) -> str:
    """The form for any problem."""
    few = 2 * v.planned <= v.device.multiprocessors and v.n // v.vec > SHARED_VECTORS
    if (v.across or not few) and fused_tiling(v) is not None:
        return "fused"
    # Of columns a cluster goes down single ones: it wastes most of each vector, but leaves fewer SMs idle.
    few = (4 if v.across else 1) * cdiv(v.planned, online_tiling(v).rows) < v.device.multiprocessors
    held = not v.across and cluster_shape(v) is not None
    return "split_cluster" if has_clusters(v.device) and (held or few) else "online"
