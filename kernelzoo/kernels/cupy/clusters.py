"""Rows that the blocks of a thread-block cluster share."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.rows import side_by_side
from kernelzoo.layout import Rows

THREADS = 512  # of the largest block. With 64 registers a thread an SM runs two: one computes, one loads


def cluster_sizes(device: Device) -> list[int]:
    """Return the numbers of blocks that a cluster may have."""
    return [size for size in (2, 4, 8, 16) if size <= device.cluster_blocks]


def can_use_clusters(rows: Rows, device: Device) -> bool:
    """Whether clusters can take the rows: rows are contiguous, and the device has clusters."""
    return device.cluster_blocks > 1 and side_by_side(rows)


def require_clusters(id: str, usable: bool) -> None:
    """Raise UnsupportedProblemError for a form if clusters can't take its rows."""
    if not usable:
        raise UnsupportedProblemError(id, "it takes rows whose elements lie side by side, on a device with clusters")
