from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy.clusters import THREADS, cluster_sizes, require_clusters
from kernelzoo.kernels.cupy.launch import Plan, Step, planned
from kernelzoo.kernels.cupy.rows import c_type, count_packs, pack_width, require_fit, threads
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

PACKS_HELD = 8  # packs of each input per thread: grad's in 32 registers, y's in shared memory
OTHER_BYTES = 4 * KIB  # shared memory for other data


@numbers
class Knobs:
    cluster_threads: int = knob(288, among=(160, 224, 288, 384, 512), unit="threads", why="above which blocks double")


@register("cupy", "softmax_backward", "split_cluster")
@planned(Knobs)
def split_cluster(rows: Rows, y: Strides, device: Device, numbers: Knobs) -> Plan:
    """The blocks of a cluster keep a row in registers and shared memory, and exchange sums through the latter."""
    packed = device.cluster_blocks > 1 and pack_width(rows, y) > 1
    require_clusters("cupy/softmax_backward/split_cluster", packed)
    cluster, lanes = choose_cluster_shape(rows, device, numbers)
    held = cluster * most_threads(device) * PACKS_HELD
    require_fit("cupy/softmax_backward/split_cluster", rows, pack_width(rows), held, f"{cluster} blocks")
    kernel = f"split_cluster<{c_type(rows)}, {pack_width(rows, y)}, {PACKS_HELD}, {cluster}>"
    step = Step(kernel, rows.total * cluster, lanes, (), lanes * PACKS_HELD * VECTOR_BYTES, cluster=cluster)
    return Plan(rows, (step,), others=(y,))


def most_threads(device: Device) -> int:
    """Return the largest number of threads per block whose packs of y fit in shared memory."""
    return min(THREADS, (device.shared_per_block - OTHER_BYTES) // (PACKS_HELD * VECTOR_BYTES * 32) * 32)


def choose_cluster_shape(rows: Rows, device: Device, numbers: Knobs) -> tuple[int, int]:
    """Return (blocks per cluster, threads per block). If a row doesn't fit, threads are too many. Up to eight blocks of
    moderate size are preferred, then larger ones, then sixteen, for which fewer SMs have room."""
    count = count_packs(rows)
    sizes = cluster_sizes(device)
    usual = [size for size in sizes if size <= 8]
    largest = most_threads(device)
    fitting = [size for size in usual if count <= size * min(numbers.cluster_threads, largest) * PACKS_HELD]
    fitting += [size for size in sizes if count <= size * largest * PACKS_HELD]
    cluster = fitting[0] if fitting else sizes[-1]
    return cluster, threads(cdiv(count, cluster), PACKS_HELD)
