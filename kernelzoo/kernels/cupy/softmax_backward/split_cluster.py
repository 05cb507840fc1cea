from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy.clusters import THREADS, require_clusters, sizes_of
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type, packs, require_held, threads, width
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

PACKS_HELD = 8  # packs of each input that a thread has: those of grad are 32 registers, those of y are in shared memory
OTHER_BYTES = 4 * KIB  # shared memory for all else


@numbers
class Numbers:
    cluster_threads: int = knob(288, among=(160, 224, 288, 384, 512), unit="threads", why="above which blocks double")


@register("cupy", "softmax_backward", "split_cluster")
@planned(Numbers)
def split_cluster(rows: Rows, y: Strides, device: Device, numbers: Numbers) -> Plan:
    """A row in the registers and shared memory of a cluster of blocks, which exchange sums through distributed shared
    memory."""
    packed = device.cluster_blocks > 1 and width(rows, y) > 1
    require_clusters("cupy/softmax_backward/split_cluster", packed)
    cluster, lanes = block_of(rows, device, numbers)
    held = cluster * most_threads(device) * PACKS_HELD
    require_held("cupy/softmax_backward/split_cluster", rows, width(rows), held, f"{cluster} blocks")
    kernel = f"split_cluster<{c_type(rows)}, {width(rows, y)}, {PACKS_HELD}, {cluster}>"
    step = Step(kernel, rows.total * cluster, lanes, (), lanes * PACKS_HELD * VECTOR_BYTES, cluster=cluster)
    return Plan(rows, (step,), others=(y,))


def most_threads(device: Device) -> int:
    """Threads of the largest block, whose packs of y its shared memory holds."""
    return min(THREADS, (device.shared_per_block - OTHER_BYTES) // (PACKS_HELD * VECTOR_BYTES * 32) * 32)


def block_of(rows: Rows, device: Device, numbers: Numbers) -> tuple[int, int]:
    """Blocks of a cluster, and threads of a block, more than it may have where a row doesn't fit. As few blocks of
    moderate size as hold a row, up to eight; then larger ones; and then sixteen, which fewer SMs have room for."""
    count = packs(rows)
    sizes = sizes_of(device)
    usual = [size for size in sizes if size <= 8]
    largest = most_threads(device)
    fitting = [size for size in usual if count <= size * min(numbers.cluster_threads, largest) * PACKS_HELD]
    fitting += [size for size in sizes if count <= size * largest * PACKS_HELD]
    cluster = fitting[0] if fitting else sizes[-1]
    return cluster, threads(cdiv(count, cluster), PACKS_HELD)
