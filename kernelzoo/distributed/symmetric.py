"""The exchange by symmetric memory, where torch has it between the ranks: kernels write into each other's words."""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
from typing import TYPE_CHECKING, Any

from kernelzoo.device import on_device_of
from kernelzoo.errors import BackendUnavailableError, PeerError
from kernelzoo.launch import Movable
from kernelzoo.packages import packages

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


class Workspace:
    """Words of a group for so many rows, on one stream. Made by all ranks together."""

    def __init__(self, group: ProcessGroup, rows: int, device: torch.device) -> None:
        import torch
        import torch.distributed as dist

        os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
        from torch.distributed import _symmetric_memory as symmetric

        self.rank, self.ranks = group.rank(), group.size()
        self.words = symmetric.empty((2, rows, self.ranks), dtype=torch.int64, device=device)
        self._handle = symmetric.rendezvous(self.words, group)
        self.peers = torch.tensor(self._handle.buffer_ptrs, dtype=torch.int64, device=device)
        self.words.fill_(-1)
        self.state = torch.zeros(2, dtype=torch.int64, device=device)
        self.late = torch.zeros(1, dtype=torch.int64).pin_memory()
        self.limit = int(group._get_backend(device).options._timeout.total_seconds() * 1e9)
        torch.cuda.synchronize(device)
        dist.barrier(group)
        self._bound: dict[tuple[object, ...], Movable] = {}

    def launch(self, form: Any, x: torch.Tensor, out: torch.Tensor) -> None:
        """Launch a form on a shard, bound once for a layout, and kept as long as the words are."""
        key = form, x.dtype, x.shape, x.stride(), x.data_ptr() % 16
        bound = self._bound.get(key)
        if bound is None:
            place = self.words, self.peers, self.state, self.late
            bound = self._bound[key] = form(x, out, *place, self.rank, self.ranks, self.limit)
        bound.at(x.data_ptr(), out.data_ptr())


_workspaces: dict[tuple[object, ...], Workspace] = {}
_lock = threading.Lock()


def _workspace(group: ProcessGroup, rows: int, device: torch.device) -> Workspace:
    import torch

    key = group.group_name, rows, device, torch._C._cuda_getCurrentRawStream(device.index)
    with _lock:
        found = _workspaces.get(key)
        if found is None:
            if torch.cuda.is_current_stream_capturing():
                raise PeerError("ranks make their memory known to each other in a first call, before a graph's capture")
            found = _workspaces[key] = Workspace(group, rows, device)
    return found


def softmax(x: torch.Tensor, dim: int, group: ProcessGroup, backend: str) -> torch.Tensor:
    """Softmax of a shard in one launch, of checked arguments.

    Raises BackendUnavailableError where the backend has no such form; PeerError after a call in which a rank was later
    than the group's timeout, whose results are NaN.
    """
    import torch

    package = packages().get(backend, "")
    name = f"{package}.softmax.split_ranks"
    if not package or importlib.util.find_spec(name) is None or not x.is_cuda or x.itemsize > 4:
        reason = "its kernels exchange no pairs by symmetric memory for this tensor"
        raise BackendUnavailableError(backend, reason, "leave out exchange='symmetric'")
    n, rows = x.size(dim), x.numel() // max(x.size(dim), 1)
    if not n:  # it takes part with a shard that says nothing
        kept_shape = [1 if d == dim else size for d, size in enumerate(x.shape)]
        softmax(x.new_full(kept_shape, float("-inf")), dim, group, backend)
        return torch.empty_like(x)
    if not rows:
        return torch.empty_like(x)
    lined = x.movedim(dim, -1).contiguous()
    flat = lined.view(rows, n, 1)
    workspace = _workspace(group, rows, x.device)
    if workspace.late[0]:
        raise PeerError(
            f"rank {workspace.rank} of {workspace.ranks}: a rank was later than the group's timeout of "
            f"{workspace.limit / 1e9:g} s in a call before this one, whose results are NaN"
        )
    out = torch.empty_like(flat)
    with on_device_of(x):
        workspace.launch(importlib.import_module(name).split_ranks, flat, out)
    return out.view(lined.shape).movedim(-1, dim).contiguous()
