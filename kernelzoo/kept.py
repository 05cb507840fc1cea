"""The launches that a backend keeps, so that a repeated call is spared all the work of binding: by all that a launch
depends on except the addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo import tables
from kernelzoo.launch import Movable, OnStreams, WithWorkspace
from kernelzoo.methods import alike
from kernelzoo.operations import Dims, Operation
from kernelzoo.operations.arguments import plain_dim

if TYPE_CHECKING:
    import torch

Kept: TypeAlias = (
    "tuple[str, Dims, bool, Callable[[object], bool], int, int, bool, Callable[[int, int], bool | None],"
    " tuple[int, ...], tuple[int, ...], torch.dtype, Callable[..., Any] | None]"
)
"""The variant, axis and keepdim of a call, and whether an x is alike; its address modulo 16, its device, and whether
there is no other; a launch on any addresses; the output's shape, strides and dtype; and for an x that requires a
gradient, the call by which it gets one."""

KeptCall: TypeAlias = (
    "tuple[str, Dims, bool, Callable[..., bool], list[int], int, bool, Callable[..., bool | None],"
    " tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...], Callable[..., Any] | None, dict[str, Any]]"
)
"""The same of several tensors: their addresses modulo 16; shape, strides and dtype of each output; and the scalars."""

KeptInto: TypeAlias = "tuple[tuple[int, ...], list[bool | None], bool, Callable[..., bool | None]]"
"""Of a call with outputs of the caller: the bytes that its inputs and outputs span, where these are to each other (see
``_places``), whether there is no other device, and a launch on any addresses."""

MOST = 4096
"""Layouts that a backend keeps a launch for. A program that uses more starts again with none."""

WORKSPACES = 2**26
"""Bytes of workspaces that it keeps with them, of which one has some KB; likewise."""


class Launches:
    """The kept launches of one backend."""

    def __init__(self, backend: Any) -> None:
        import torch  # for the path of a repeated call, which has no time to import anything

        self.last: dict[object, Kept] = {}
        """Of each operation on one tensor, that of the call before."""
        self.last_calls: dict[object, KeptCall] = {}
        """The same of operations on several tensors."""
        self._kept: dict[tuple[object, ...], Kept] = {}
        self._kept_calls: dict[tuple[object, ...], KeptCall] = {}
        self.last_into: dict[object, Any] = {}
        """The same of each operation with outputs of the caller."""
        self._kept_into: dict[tuple[object, ...], KeptInto] = {}
        self.arrays: dict[tuple[object, ...], tuple[Callable[..., bool | None], int, list[tuple[Any, Any]]]] = {}
        """Of calls on arrays of another library: a launch on any addresses, its device, and the shape and dtype of each
        result, as that library has them."""
        self._workspaces = 0
        """Bytes of those of the launches that are kept."""
        self._tensor, self._strided = torch.Tensor, torch.strided
        self._wrote = torch.autograd.graph.increment_version
        self._backend = backend
        self._traces = torch._C._get_tracing_state
        self._chosen = tables.chosen.get
        self._forward, self._modes = torch.autograd.forward_ad, torch.utils._python_dispatch
        self._casts = torch._C._is_any_autocast_enabled
        self._device_count = torch.cuda.device_count
        self._current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
        self._host = backend.on_host

    def find(
        self, op: Operation, x: torch.Tensor, dim: Dims, keepdim: bool, variant: str
    ) -> tuple[tuple[object, ...] | None, int, Kept | None]:
        """A key of all that a launch depends on except the addresses; x's address; and what is kept for the key. No key
        for what is not a plain tensor on the backend's kind of device, or needs a check that the key can't replace."""
        nothing = None, 0, None
        if type(x) is not self._tensor or ((device := x.get_device()) < 0) is not self._host:
            return nothing
        if x.is_neg() or self._casts() or self._traces() is not None:
            return nothing
        try:
            address = x.data_ptr()
            key = (op, variant, dim, keepdim, x.dtype, x.shape, x.stride(), address % 16, device)
            kept = self._kept.get(key)
        except (RuntimeError, TypeError):  # a sparse tensor has no address; a list for keepdim
            return nothing
        if not address:
            return nothing
        if kept is not None:
            # Its test was made in another of torch's modes, for an equal name, or without a gradient to come.
            if kept is self.last.get(op) or x.requires_grad is (kept[11] is None):
                call = self._ready(op, x, dim, keepdim, variant, *kept[7:11])
                kept = self._kept[key] = (variant, dim, keepdim, alike(x), *kept[4:11], call)
            self.last[op] = kept
        return key, address, kept

    def keep(self, key: tuple[object, ...], x: torch.Tensor, launch: Movable, out: torch.Tensor) -> None:
        """Keep a launch for its key, and as that of the last call."""
        op, variant, dim, keepdim, *_, offset, device = key
        before = self._kept.get(key)
        at = self._movable(launch, x, before[7] if before is not None else None)
        result = at, tuple(out.shape), out.stride(), out.dtype
        call = self._ready(op, x, dim, keepdim, variant, *result)
        kept: Any = (
            variant,
            dim,
            keepdim,
            alike(x),
            offset,
            device,
            self._host or self._device_count() == 1,
            *result,
            call,
        )
        self._kept[key] = self.last[op] = kept

    def find_call(
        self,
        op: Operation,
        inputs: tuple[Any, ...],
        dim: Dims,
        keepdim: bool,
        scalars: Mapping[str, Any],
        variant: str,
    ) -> tuple[tuple[object, ...] | None, KeptCall | None]:
        """The same of a call on several tensors: its key, and what is kept for it."""
        if self._casts() or self._traces() is not None:
            return None, None
        found: list[object] = [op, variant, dim, keepdim, *scalars.items()]
        try:
            for x in inputs:
                if (
                    type(x) is not self._tensor
                    or (x.get_device() < 0) is not self._host
                    or x.layout is not self._strided
                ):
                    return None, None
                if x.is_neg() or not x.data_ptr():
                    return None, None
                found.append((x.dtype, x.shape, x.stride(), x.data_ptr() % 16, x.get_device()))
            kept = self._kept_calls.get(key := tuple(found))
        except (RuntimeError, TypeError):  # a tensor within torch.vmap; a scalar that is no number
            return None, None
        if kept is not None:
            if kept is self.last_calls.get(op) or any(x.requires_grad for x in inputs) is (kept[9] is None):
                call = self._followed(op, inputs, dim, keepdim, scalars, variant)
                kept = self._kept_calls[key] = (variant, dim, keepdim, alike(*inputs), *kept[4:9], call, kept[10])
            self.last_calls[op] = kept
        return key, kept

    def keep_call(
        self,
        key: tuple[object, ...],
        inputs: tuple[torch.Tensor, ...],
        scalars: Mapping[str, Any],
        launch: Movable,
        outs: tuple[torch.Tensor, ...],
    ) -> None:
        op, variant, dim, keepdim, *_ = key
        before = self._kept_calls.get(key)
        at = self._movable(launch, inputs[0], before[7] if before is not None else None)
        offsets = [x.data_ptr() % 16 for x in inputs]
        results = tuple((tuple(out.shape), out.stride(), out.dtype) for out in outs)
        where = inputs[0].get_device(), self._host or self._device_count() == 1
        call = self._followed(op, inputs, dim, keepdim, scalars, variant)
        kept: Any = (variant, dim, keepdim, alike(*inputs), offsets, *where, at, results, call, dict(scalars))
        self._kept_calls[key] = self.last_calls[op] = kept

    def into(
        self,
        op: Operation,
        inputs: tuple[Any, ...],
        dim: Dims,
        keepdim: bool,
        scalars: Mapping[str, Any],
        variant: str,
        outs: tuple[Any, ...],
    ) -> tuple[tuple[object, ...] | None, bool]:
        """Launch what is kept for a call with outputs of the caller. Its key, or None for a call that is never kept,
        and whether it was launched. None is kept where a gradient is asked for."""
        if self._forward._current_level >= 0 or self._modes._is_in_torch_dispatch_mode or self._chosen():
            return None, False
        tensors = *inputs, *outs
        last = self.last_into.get(op)
        if last is not None:
            named, axis, keeps, said, alike_, offsets, device, kept = last
            same = variant is named and dim is axis and keepdim is keeps and scalars == said
            if same and not [x for x in tensors if not isinstance(x, self._tensor) or x.is_nested] and alike_(*tensors):
                addresses = [x.data_ptr() for x in tensors]
                if [address % 16 for address in addresses] == offsets and self._at(kept, addresses, device):
                    self._wrote(outs)
                    return None, True
        if not plain_dim(dim) or type(variant) is not str or self._casts() or self._traces() is not None:
            return None, False
        found: list[object] = [op, variant, dim, keepdim, *scalars.items()]
        addresses = []
        try:
            for x in tensors:
                if type(x) is not self._tensor or ((device := x.get_device()) < 0) is not self._host:
                    return None, False
                if x.requires_grad or x.is_neg() or not (address := x.data_ptr()):
                    return None, False
                addresses.append(address)
                found += x.dtype, x.shape, x.stride(), address % 16, device
            kept = self._kept_into.get(key := tuple(found))
        except (RuntimeError, TypeError):  # as in find_call
            return None, False
        if kept is None or not self._at(kept, addresses, device):
            return key, False
        self._wrote(outs)
        offsets = [address % 16 for address in addresses]
        self.last_into[op] = variant, dim, keepdim, dict(scalars), alike(*tensors), offsets, device, kept
        return key, True

    def _at(self, kept: KeptInto, addresses: list[int], device: int) -> bool:
        spans, places, alone, at = kept
        if not (alone or device == self._current_device()) or _places(addresses, spans) != places:
            return False
        return at(*addresses) is None

    def keep_into(
        self, key: tuple[object, ...], inputs: tuple[Any, ...], launch: Movable, outs: tuple[torch.Tensor, ...]
    ) -> None:
        tensors = *inputs, *outs
        spans = tuple(
            x.element_size() * (1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))) for x in tensors
        )
        places = _places([x.data_ptr() for x in tensors], spans)
        if None in places:
            return
        before = self._kept_into.get(key)
        at = self._movable(launch, inputs[0], before[3] if before is not None else None)
        self._kept_into[key] = spans, places, self._host or self._device_count() == 1, at

    def keep_arrays(
        self, key: tuple[object, ...], launch: Movable, x: torch.Tensor, results: list[tuple[Any, Any]]
    ) -> None:
        """Keep the launch of a call on arrays, of which x is the first as a tensor."""
        before = self.arrays.get(key)
        at = self._movable(launch, x, before[0] if before is not None else None)
        self.arrays[key] = at, x.get_device(), results

    def _followed(
        self, op: Any, inputs: tuple[Any, ...], dim: Any, keepdim: Any, scalars: Mapping[str, Any], variant: Any
    ) -> Callable[..., Any] | None:
        """The call by which inputs that require a gradient get one. The test of what is alike tells these from others,
        and not whether gradients are enabled."""
        if not any(x.requires_grad for x in inputs):
            return None
        from kernelzoo.derivatives import Call

        return Call(self._backend, op, dim, keepdim, dict(scalars), variant).followed

    def _ready(
        self, op: Any, x: torch.Tensor, dim: Any, keepdim: Any, variant: Any, at: Any, *result: Any
    ) -> Callable[..., Any] | None:
        """The same of one tensor, by the launch itself."""
        call = self._followed(op, (x,), dim, keepdim, {}, variant)
        if call is None or not op.gradient:
            return call
        from kernelzoo.derivatives import Call, Ready

        found: Callable[..., Any] = Ready(Call(self._backend, op, dim, keepdim, {}, variant), at, result)
        return found

    def _movable(self, launch: Movable, x: torch.Tensor, before: Any) -> Callable[..., bool | None]:
        """What launches on any addresses; one with a workspace on the streams it was bound on."""
        own = sum(tensor.nbytes for tensor in launch.workspace) if isinstance(launch, WithWorkspace) else 0
        kept = len(self._kept) + len(self._kept_calls) + len(self._kept_into) + len(self.arrays)
        if kept >= MOST or self._workspaces + own > WORKSPACES:
            self.forget()
        if not isinstance(launch, WithWorkspace):
            return launch.at
        self._workspaces += own
        at = before if isinstance(before, OnStreams) else OnStreams(x.get_device())
        at.keep(launch)
        return at

    def forget(self) -> None:
        """Keep no launch."""
        self._workspaces = 0
        kept: tuple[dict[Any, Any], ...] = (self._kept, self._kept_calls, self._kept_into, self.arrays)
        for table in (*kept, self.last, self.last_calls, self.last_into):
            table.clear()


def _places(addresses: list[int], spans: tuple[int, ...]) -> list[bool | None]:
    """Of each tensor to each before it: True where both begin at one address, False where they have no memory in
    common, None where they may."""
    found: list[bool | None] = []
    for i, at in enumerate(addresses):
        for j in range(i):
            apart = at >= addresses[j] + spans[j] or addresses[j] >= at + spans[i]
            found.append(False if apart else True if at == addresses[j] else None)
    return found
