"""Columns shared by the blocks of a cluster, of which the first reduces what all have found (sm_90 and later)."""

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.launch import BindView, View, has_clusters, planned
from kernelzoo.kernels.numba.min.strips import CLUSTER, Numbers, by_strips
from kernelzoo.registry import register

ID = "numba/min/columns_cluster"


@register("numba", "min", "columns_cluster")
@planned(Numbers)
def columns_cluster(v: View, device: Device, numbers: Numbers) -> BindView:
    """Columns by strips, each shared in a cluster of up to eight blocks; of one where columns are short."""
    if not has_clusters(device):
        raise UnsupportedProblemError(ID, f"clusters need compute capability 9.0, and this is {device.name}")
    return by_strips(ID, v, device, numbers, CLUSTER)
