"""Rows of some length: a cluster of blocks to each, whose minima meet in distributed shared memory."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.min.blocks import ITEMS, threads
from kernelzoo.kernels.cupy.rows import c_type, packs, width
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register

CLUSTER = 4
"""Blocks to a row."""

THREADS = 512
"""In a block at most, as the kernel is compiled for."""


@register("cupy", "min", "split_cluster")
@planned()
def split_cluster(rows: Rows, device: Device, _: None) -> Plan:
    """A cluster of four blocks per row; their minima meet in the shared memory of the first."""
    if device.cluster_blocks < CLUSTER:
        reason = f"it takes clusters of blocks, of compute capability 9.0; this is {device.name}"
        raise UnsupportedProblemError("cupy/min/split_cluster", reason)
    kernel = f"split_cluster<{c_type(rows)}, {width(rows)}, {ITEMS}>"
    each = threads(cdiv(packs(rows), CLUSTER), THREADS)
    return Plan(rows, (Step(kernel, rows.total * CLUSTER, each, cluster=CLUSTER),))
