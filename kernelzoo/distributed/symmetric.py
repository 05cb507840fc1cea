"""The exchange by torch's symmetric memory: kernels write words into other ranks' memory."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from kernelzoo import tables
from kernelzoo.device import on_device_of
from kernelzoo.distributed.exchange import gather_from_ranks
from kernelzoo.distributed.local import is_capturing
from kernelzoo.errors import BackendUnavailableError, PeerError
from kernelzoo.packages import backend_packages

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@contextmanager
def _without_multicast() -> Iterator[None]:
    """A context in which torch allocates symmetric memory without multicast, unless the user chose otherwise."""
    name = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
    own = os.environ.get(name)
    os.environ.setdefault(name, "1")
    try:
        yield
    finally:
        if own is None:
            del os.environ[name]


class Workspace:
    """Words in a group's symmetric memory, for a number of rows. All ranks allocate the words together."""

    def __init__(self, group: ProcessGroup, rows: int, device: torch.device) -> None:
        self.group = weakref.ref(group)
        self.rank, self.ranks = group.rank(), group.size()
        with _without_multicast():
            from torch.distributed import _symmetric_memory as symmetric

            self.words = symmetric.empty((2, rows, self.ranks), dtype=torch.int64, device=device)
            try:
                self._handle = symmetric.rendezvous(self.words, group)
            except RuntimeError as error:
                why = " ".join(str(error).split())
                raise PeerError(f"rank {self.rank} of {self.ranks} shares no memory with the others: {why}") from error
        bases = torch.tensor(self._handle.buffer_ptrs, dtype=torch.int64, device=device)
        self.words.fill_(-1)
        self.state = torch.zeros(2, dtype=torch.int64, device=device)
        self.late = torch.zeros(1, dtype=torch.int64).pin_memory()
        self.came_late = ctypes.c_int64.from_address(self.late.data_ptr())
        self.limit = int(group._get_backend(device).options._timeout.total_seconds() * 1e9)
        # The words' offset in the allocation differs by rank. A rank sends its offset after it has cleared its words.
        offset = self.words.data_ptr() - int(bases[self.rank])
        self.peers = bases + gather_from_ranks(bases.new_tensor([offset]), group).view(-1)
        torch.cuda.synchronize(device)
        self._bound: dict[tuple[object, ...], tuple[Callable[..., None], object]] = {}

    def launch(self, variant: Any, x: torch.Tensor, out: torch.Tensor, rows: int) -> None:
        """Launch a kernel variant on a contiguous shard. It is bound once per layout, and cached in this workspace.

        Nothing is cached while a CUDA graph is captured: the graph owns the memory, which is ready only after a replay.
        """
        key = variant, x.dtype, x.numel(), x.data_ptr() % 16
        at, _ = self._bound.get(key, (None, None))
        if at is None:
            place = self.words, self.peers, self.state, self.late
            flat = (one.view(rows, -1, 1) for one in (x, out))
            bound = variant(*flat, *place, self.rank, self.ranks, self.limit)
            at = bound.at
            if not (is_capturing(x) or tables.chosen.get()):
                self._bound[key] = at, bound.workspace
        at(x.data_ptr(), out.data_ptr())


_workspaces: dict[tuple[object, ...], Workspace] = {}
_last: dict[torch.device, tuple[int, Any]] = {}
"""The last launch's stream on each device, with its handle."""
_lock = threading.Lock()


def _group_workspace(group: ProcessGroup, rows: int, x: torch.Tensor) -> Workspace:
    """Return the group's workspace for ``rows`` rows. All streams share it: ranks may call on different streams."""
    key = group.group_name, rows, x.device
    found = _workspaces.get(key)
    if found is None or found.group() is not group:  # a new group may have a destroyed group's name
        if is_capturing(x):
            raise PeerError("ranks make their memory known to each other in a first call, before a graph's capture")
        found = _workspaces[key] = Workspace(group, rows, x.device)
    return found


def _wait_for_last_launch(device: torch.device) -> None:
    """Let the stream wait for the last launch. Two launches at once could block each other by occupying SMs."""
    from kernelzoo.torch_private import current_stream

    handle = current_stream(device.index)
    known, last = _last.get(device, (None, None))
    if known == handle or torch.cuda.is_current_stream_capturing():  # a graph's replay is ordered by its stream
        return
    stream = torch.cuda.current_stream(device)
    if last is not None:
        with torch.cuda.stream(last):
            free = not torch.cuda.is_current_stream_capturing()
        if free:
            stream.wait_event(last.record_event())
    _last[device] = handle, stream


@functools.cache
def _symmetric_variant(backend: str) -> Any:
    """Return a backend's variant that exchanges states by symmetric memory, or None."""
    package = backend_packages().get(backend, "")
    name = f"{package}.softmax.split_ranks"
    known = package and importlib.util.find_spec(name) is not None
    return importlib.import_module(name).split_ranks if known else None


def softmax(x: torch.Tensor, dim: int, group: ProcessGroup, backend: str) -> torch.Tensor:
    """Return the softmax of a shard, computed in one launch, from checked arguments.

    Raises BackendUnavailableError if the backend has no such variant. Raises PeerError if a rank exceeded the group's
    timeout in an earlier call, whose results are NaN.
    """
    variant = _symmetric_variant(backend)
    if variant is None or not x.is_cuda or x.itemsize > 4:
        reason = "its kernels exchange no states by symmetric memory for this tensor"
        raise BackendUnavailableError(backend, reason, "leave out exchange='symmetric'")
    n, rows = x.size(dim), x.numel() // max(x.size(dim), 1)
    if not n:  # an empty shard takes part with -inf
        kept_shape = [1 if d == dim else size for d, size in enumerate(x.shape)]
        softmax(x.new_full(kept_shape, float("-inf")), dim, group, backend)
        return torch.empty_like(x)
    if not rows:
        return torch.empty_like(x)
    in_place = dim == x.ndim - 1 and x.is_contiguous()
    lined = x if in_place else x.movedim(dim, -1).contiguous()
    out = torch.empty_like(lined)
    with on_device_of(x), _lock:
        workspace = _group_workspace(group, rows, x)
        if workspace.came_late.value:
            raise PeerError(
                f"rank {workspace.rank} of {workspace.ranks}: a rank was later than the group's timeout of "
                f"{workspace.limit / 1e9:g} s in a call before this one, whose results are NaN"
            )
        _wait_for_last_launch(x.device)
        workspace.launch(variant, lined, out, rows)
    return out if in_place else out.movedim(-1, dim).contiguous()
