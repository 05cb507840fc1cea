"""Plans in which the blocks of a thread-block cluster share a row."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.rows import has_contiguous_rows
from kernelzoo.layout import Rows

THREADS = 512  # per block, at most. At 64 registers per thread, an SM runs two such blocks: one computes, one loads


def cluster_sizes(device: Device) -> list[int]:
    """Return the numbers of blocks per cluster that the device allows."""
    return [size for size in (2, 4, 8, 16) if size <= device.cluster_blocks]


def can_use_clusters(rows: Rows, device: Device) -> bool:
    """Whether clusters can process the rows: rows are contiguous, and the device supports clusters."""
    return device.cluster_blocks > 1 and has_contiguous_rows(rows)


def require_clusters(id: str, usable: bool) -> None:
    """Raise UnsupportedProblemError, which names the form ``id``, unless ``usable``: clusters can process the rows."""
    if not usable:
        raise UnsupportedProblemError(id, "it takes rows whose elements lie side by side, on a device with clusters")
