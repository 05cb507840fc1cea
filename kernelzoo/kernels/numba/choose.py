"""Choosers that several operations share. Other operations have a ``choose.py`` of their own."""

from kernelzoo.kernels.numba.launch import RowView, chooser_by_layout, has_clusters
from kernelzoo.kernels.numba.min_backward import fused as min_fused
from kernelzoo.kernels.numba.min_backward import online as min_online
from kernelzoo.kernels.numba.softmax_backward import fused, online, split_cluster
from kernelzoo.kernels.numba.tiling import Tiling
from kernelzoo.kernels.shared.long_rows import should_split_rows
from kernelzoo.layout import cdiv
from kernelzoo.registry import chooser

SHARED_VECTORS = 2048
"""The most vectors of a gradient's row for one block, if there are at most half as many rows as SMs."""


@chooser("numba", "argmin", "auto")
@chooser("numba", "cross_entropy", "auto")
@chooser("numba", "cumsum", "auto")
@chooser("numba", "logsumexp", "auto")
@chooser("numba", "sum", "auto")
@chooser_by_layout()
def rows_or_split(v: RowView) -> str:
    """Several blocks share a row if rows are long and too few to fill the device. Otherwise a row has one block."""
    return "split" if should_split_rows(v, v.device) else "rows"


@chooser("numba", "softmax_backward", "auto")
@chooser_by_layout()
def softmax_backward(v: RowView) -> str:
    """Return the fastest form for the row's length and the number of rows."""
    if fits_one_block(v, fused.fused_tiling(v)):
        return "fused"
    held = not v.is_strided and split_cluster.cluster_shape(v) is not None
    return "split_cluster" if has_clusters(v.device) and (held or wastes_sms(v, online.online_tiling(v))) else "online"


@chooser("numba", "min_backward", "auto")
@chooser_by_layout()
def min_backward(v: RowView) -> str:
    """Return the fastest form for the row's length and the number of rows."""
    if fits_one_block(v, min_fused.fused_tiling(v)):
        return "fused"
    return "split_grid" if wastes_sms(v, min_online.online_tiling(v)) else "online"


def fits_one_block(v: RowView, tiling: Tiling | None) -> bool:
    """Whether one block per row is best: ``tiling`` keeps the row in registers, and rows aren't both long and few."""
    few = 2 * v.planned <= v.device.multiprocessors and v.n // v.vec > SHARED_VECTORS
    return (v.is_strided or not few) and tiling is not None


def wastes_sms(v: RowView, tiling: Tiling) -> bool:
    """Whether a tiling makes fewer blocks than there are SMs. Strided rows may leave three quarters of the SMs idle:
    with several blocks per row, threads would use only a few elements of each vector that they load."""
    return (4 if v.is_strided else 1) * cdiv(v.planned, tiling.rows) < v.device.multiprocessors
