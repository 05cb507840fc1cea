"""What a CUDA graph holds: whether each of the launches that were captured in it is the same work."""

from __future__ import annotations

import ctypes
from collections import Counter

from kernelzoo.errors import ContractError

_KERNEL = 0  # CU_GRAPH_NODE_TYPE_KERNEL

Nodes = Counter[tuple[int, ...]]
"""How often each kernel, with its grid and block, and each other kind of node is in a graph."""


class _Kernel(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2, of which a kernel is known by its function or its handle, and by its sizes."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("sizes", ctypes.c_uint32 * 7),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def nodes_of(stream: int) -> Nodes:
    """Those of the graph that this stream, a CUDA handle, is captured into."""
    driver = ctypes.CDLL("libcuda.so.1")  # once: a graph has thousands of nodes
    state, number, graph, count = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_size_t()
    outputs = map(ctypes.byref, (state, number, graph))
    _call(driver, "cuStreamGetCaptureInfo_v2", ctypes.c_void_p(stream), *outputs, None, None)
    _call(driver, "cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    if count.value:
        _call(driver, "cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    found = Nodes()
    for node in map(ctypes.c_void_p, nodes):
        kind, kernel = ctypes.c_int(), _Kernel()
        _call(driver, "cuGraphNodeGetType", node, ctypes.byref(kind))
        if kind.value == _KERNEL:
            _call(driver, "cuGraphKernelNodeGetParams_v2", node, ctypes.byref(kernel))
        found[kind.value, kernel.function or 0, kernel.handle or 0, *kernel.sizes] += 1
    return found


def alike(found: Nodes, apart: Nodes, launches: int) -> None:
    """Raises ContractError unless so many launches may each be the same nodes; those ``apart`` are no launch's."""
    uneven = [count for count in (found - apart).values() if count % launches]
    if uneven:
        raise ContractError(
            f"its {launches} launches in a CUDA graph are not alike: a kernel of theirs is there {uneven[0]} times",
            "not repeatable",
        )


def _call(driver: ctypes.CDLL, name: str, *arguments: object) -> None:
    status = getattr(driver, name)(*arguments)
    if status:
        raise RuntimeError(f"{name}: CUDA error {status}")
