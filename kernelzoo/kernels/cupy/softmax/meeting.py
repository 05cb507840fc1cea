"""Blocks that meet in a thread-block cluster: see meeting.cuh."""

from kernelzoo.device import Device

CLUSTERS = (2, 4, 8, 16)
"""Blocks of a cluster."""

BLOCK_BYTES = 1024 + 16
"""Shared memory that a block takes beside what it asks for: the system's, and a barrier."""


def clusters(device: Device) -> tuple[int, ...]:
    """Sizes of clusters that the device has."""
    return tuple(size for size in CLUSTERS if size <= device.cluster_blocks)
