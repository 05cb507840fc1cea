"""Softmax of a row held in the registers of a thread-block cluster, whose blocks exchange their (max, sum) pairs.

After Quack (github.com/Dao-AILab/quack): pairs go through distributed shared memory.
"""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import PACKS_HELD, c_type, packs, require_held, threads, width
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

CLUSTERS = (2, 4, 8, 16)  # blocks of a cluster
MOST_THREADS = 512  # of a block: an SM runs two with 64 registers a thread, so that one computes while the other loads


@numbers
class Numbers:
    cluster_threads: int = knob(288, among=(160, 224, 288, 384, 512), unit="threads", why="above which blocks double")
    cluster_blocks: int = knob(3, among=(1, 2, 3, 4), unit="blocks", why="an SM with four packs of halves a thread")


@register("cupy", "softmax", "split_cluster")
@planned(Numbers)
def split_cluster(rows: Rows, device: Device, table: Numbers) -> Plan:
    """A row in the registers of a cluster of blocks, which exchange pairs through distributed shared memory."""
    if device.cluster_blocks == 1 or width(rows) == 1:
        raise UnsupportedProblemError(
            "cupy/softmax/split_cluster", "it takes rows whose elements lie side by side, on a device with clusters"
        )
    cluster, items, lanes = block_of(rows, device, table)
    held = cluster * MOST_THREADS * items
    require_held("cupy/softmax/split_cluster", rows, width(rows), held, f"the registers of {cluster} blocks")
    kernel = f"split_cluster<{c_type(rows)}, {width(rows)}, {items}, {cluster}>"
    return Plan(rows, (Step(kernel, rows.total * cluster, lanes, cluster=cluster),))


def block_of(rows: Rows, device: Device, table: Numbers) -> tuple[int, int, int]:
    """Blocks of a cluster; packs that a thread of them has, and threads of a block, more than it may have where a row
    doesn't fit. Eight packs, in as few blocks of moderate size as hold a row.

    Of half precision four, in twice the blocks, where they are few: then the exponentials stay in registers.
    """
    count, items = packs(rows), PACKS_HELD
    sizes = [size for size in CLUSTERS if size <= device.cluster_blocks]
    cluster = next((c for c in sizes if count <= c * table.cluster_threads * PACKS_HELD), sizes[-1])
    few = cluster * rows.total <= table.cluster_blocks * device.multiprocessors
    if few and rows.itemsize == 2 and cluster < sizes[-1]:
        cluster, items = 2 * cluster, 4
    return cluster, items, threads(cdiv(count, cluster), items)
