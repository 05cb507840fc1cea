from kernelzoo.device import KIB, Device
from kernelzoo.kernels.cupy.clusters import THREADS, cluster_sizes, require_clusters
from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import c_type, count_packs, num_threads, pack_width, require_fit
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

PACKS_HELD = 8  # packs of each input per thread: grad's in 32 registers, y's in shared memory
OTHER_BYTES = 4 * KIB  # shared memory for other data


@form_knobs
class Knobs:
    cluster_threads: int = knob(288, among=(160, 224, 288, 384, 512), unit="threads", why="above which blocks double")


@register("cupy", "softmax_backward", "split_cluster")
@plan_once(Knobs)
def split_cluster(rows: Rows, y: Strides, device: Device, knobs: Knobs) -> Plan:
    """The blocks of a cluster keep a row in registers and shared memory, and exchange sums through the latter."""
    packed = device.cluster_blocks > 1 and pack_width(rows, y) > 1
    require_clusters("cupy/softmax_backward/split_cluster", packed)
    cluster, lanes = choose_cluster_shape(rows, device, knobs)
    held = cluster * max_threads_per_block(device) * PACKS_HELD
    require_fit("cupy/softmax_backward/split_cluster", rows, pack_width(rows), held, f"{cluster} blocks")
    kernel = f"split_cluster<{c_type(rows)}, {pack_width(rows, y)}, {PACKS_HELD}, {cluster}>"
    step = Step(kernel, rows.total * cluster, lanes, (), lanes * PACKS_HELD * VECTOR_BYTES, cluster=cluster)
    return Plan(rows, (step,), others=(y,))


def max_threads_per_block(device: Device) -> int:
    """Return the largest number of threads per block whose packs of y fit in shared memory."""
    return min(THREADS, (device.shared_per_block - OTHER_BYTES) // (PACKS_HELD * VECTOR_BYTES * 32) * 32)


def choose_cluster_shape(rows: Rows, device: Device, knobs: Knobs) -> tuple[int, int]:
    """Return (blocks per cluster, threads per block). If a row doesn't fit, threads exceed ``max_threads_per_block``.
    The first choice is up to eight moderate blocks, then larger blocks, then sixteen blocks, which few SMs can hold."""
    count = count_packs(rows)
    sizes = cluster_sizes(device)
    usual = [size for size in sizes if size <= 8]
    largest = max_threads_per_block(device)
    fitting = [size for size in usual if count <= size * min(knobs.cluster_threads, largest) * PACKS_HELD]
    fitting += [size for size in sizes if count <= size * largest * PACKS_HELD]
    cluster = fitting[0] if fitting else sizes[-1]
    return cluster, num_threads(cdiv(count, cluster), PACKS_HELD)
