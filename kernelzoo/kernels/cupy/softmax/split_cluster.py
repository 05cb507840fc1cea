from kernelzoo.device import Device
from kernelzoo.kernels.cupy.clusters import THREADS, can_use_clusters, cluster_sizes, require_clusters
from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import PACKS_HELD, c_type, count_packs, num_threads, pack_width, require_fit
from kernelzoo.kernels.cupy.softmax.exact import plan_exact_sums
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob


@form_knobs
class Knobs:
    cluster_threads: int = knob(288, among=(160, 224, 288, 384, 512), unit="threads", why="above which blocks double")
    cluster_blocks: int = knob(3, among=(1, 2, 3, 4), unit="blocks", why="an SM with four packs of halves a thread")


@register("cupy", "softmax", "split_cluster")
@plan_once(Knobs)
def split_cluster(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """The blocks of a cluster keep a row in registers, and exchange pairs through distributed shared memory."""
    rows, exact = plan_exact_sums(rows)
    require_clusters("cupy/softmax/split_cluster", can_use_clusters(rows, device))
    cluster, items, lanes = choose_cluster_shape(rows, device, knobs)
    held = cluster * THREADS * items
    require_fit("cupy/softmax/split_cluster", rows, pack_width(rows), held, f"the registers of {cluster} blocks")
    kernel = f"split_cluster<{c_type(rows)}, {pack_width(rows)}, {items}, {cluster}{exact}>"
    return Plan(rows, (Step(kernel, rows.total * cluster, lanes, cluster=cluster),))


def choose_cluster_shape(rows: Rows, device: Device, knobs: Knobs) -> tuple[int, int, int]:
    """Return (blocks per cluster, packs per thread, threads per block). If a row doesn't fit, threads exceed 512."""
    count, items = count_packs(rows), PACKS_HELD
    sizes = cluster_sizes(device)
    cluster = next((c for c in sizes if count <= c * knobs.cluster_threads * PACKS_HELD), sizes[-1])
    # If blocks are few, half precision uses twice as many with four packs, so that exponentials stay in registers.
    few = cluster * rows.planned <= knobs.cluster_blocks * device.multiprocessors
    if few and rows.itemsize == 2 and cluster < sizes[-1]:
        cluster, items = 2 * cluster, 4
    return cluster, items, num_threads(cdiv(count, cluster), items)
