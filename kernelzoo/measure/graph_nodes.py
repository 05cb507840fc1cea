"""The nodes of a CUDA graph, which show whether all captured launches do the same work."""

from __future__ import annotations

import ctypes
from collections import Counter

from kernelzoo.errors import ContractError

_KERNEL = 0  # CU_GRAPH_NODE_TYPE_KERNEL

Nodes = Counter[tuple[int, ...]]
"""The number of nodes of each kind. Kernel nodes are counted separately by kernel, grid and block."""


class _Kernel(ctypes.Structure):
    """The struct CUDA_KERNEL_NODE_PARAMS_v2. A function or handle, with sizes, identifies a kernel."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("sizes", ctypes.c_uint32 * 7),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def count_captured_nodes(stream: int) -> Nodes:
    """Count the nodes of the graph that is being captured. ``stream``: the CUDA handle of the captured stream."""
    driver = ctypes.CDLL("libcuda.so.1")  # loaded once, since a graph has thousands of nodes
    state, number, graph, count = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_size_t()
    outputs = map(ctypes.byref, (state, number, graph))
    _call_driver(driver, "cuStreamGetCaptureInfo_v2", ctypes.c_void_p(stream), *outputs, None, None)
    _call_driver(driver, "cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    if count.value:
        _call_driver(driver, "cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    found = Nodes()
    for node in map(ctypes.c_void_p, nodes):
        kind, kernel = ctypes.c_int(), _Kernel()
        _call_driver(driver, "cuGraphNodeGetType", node, ctypes.byref(kind))
        if kind.value == _KERNEL:
            _call_driver(driver, "cuGraphKernelNodeGetParams_v2", node, ctypes.byref(kernel))
        found[kind.value, kernel.function or 0, kernel.handle or 0, *kernel.sizes] += 1
    return found


def check_equal_launches(graph_nodes: Nodes, extra_nodes: Nodes, launches: int) -> None:
    """Raise ContractError unless each kind of node, without ``extra_nodes``, occurs equally often in each launch."""
    uneven = [count for count in (graph_nodes - extra_nodes).values() if count % launches]
    if uneven:
        raise ContractError(
            f"its {launches} launches in a CUDA graph differ: one kernel occurs {uneven[0]} times", "not repeatable"
        )


def _call_driver(driver: ctypes.CDLL, name: str, *arguments: object) -> None:
    status = getattr(driver, name)(*arguments)
    if status:
        raise RuntimeError(f"{name}: CUDA error {status}")
