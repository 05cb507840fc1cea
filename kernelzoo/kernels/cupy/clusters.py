"""Rows that the blocks of a thread-block cluster share."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.rows import side_by_side
from kernelzoo.layout import Rows

THREADS = 512  # of its largest block: an SM runs two with 64 registers a thread: one computes, one loads


def sizes_of(device: Device) -> list[int]:
    """Blocks that a cluster may have."""
    return [size for size in (2, 4, 8, 16) if size <= device.cluster_blocks]


def clustered(rows: Rows, device: Device) -> bool:
    """Whether clusters can take the rows: where elements lie side by side, and the device has any."""
    return device.cluster_blocks > 1 and side_by_side(rows)


def require_clusters(id: str, there: bool) -> None:
    """Raise UnsupportedProblemError of a form for clusters where these can't take the rows."""
    if not there:
        raise UnsupportedProblemError(id, "it takes rows whose elements lie side by side, on a device with clusters")
