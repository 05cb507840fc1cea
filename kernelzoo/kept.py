"""The launches that a backend keeps, so that a repeated call is spared all the work of binding: by all that a launch
depends on except the addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from kernelzoo import tables
from kernelzoo.launch import Copied, Launch, Movable, OnStreams, WithWorkspace
from kernelzoo.methods import alike
from kernelzoo.operations import Dims, Operation
from kernelzoo.operations.arguments import plain_dim
from kernelzoo.storages import held, placed, span

if TYPE_CHECKING:
    import torch

Kept: TypeAlias = (
    "tuple[str, Dims, bool, Callable[[object], bool], int, int, int | None, Callable[[int, int], bool | None],"
    " tuple[int, ...], tuple[int, ...], torch.dtype, Callable[..., Any] | None, list[Any]]"
)
"""The variant, axis and keepdim of a call, and whether an x is alike; its address modulo 16, the bytes that it spans,
and its device, if there is another; a launch on any addresses; the output's shape, strides and dtype; for an x that
requires a gradient, the call by which it gets one; and in a list, what is kept for the call that came after one like
it."""

KeptCall: TypeAlias = (
    "tuple[str, Dims, bool, Callable[..., bool], list[int], tuple[int, ...], int | None, Callable[..., bool | None],"
    " tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...], Callable[..., Any] | None, dict[str, Any],"
    " list[Any]]"
)
"""The same of several tensors: their addresses modulo 16, and the bytes that they span; shape, strides and dtype of
each output; and the scalars."""

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
        """Of each operation on one tensor, what the next call is likely to need: what came after the call before it the
        last time. So layouts in turn, as the layers of a model have them, need no key."""
        self.last_calls: dict[object, KeptCall] = {}
        """The same of operations on several tensors."""
        self.before: dict[object, Any] = {}
        """Of each operation, what is kept for the call before; of a row of calls alike, maybe for one more before."""
        self.copied: set[tuple[object, ...]] = set()
        """Keys of layouts that are copied."""
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
        self._parameter = torch.nn.Parameter
        self._wrote = torch.autograd.graph.increment_version
        self._backend = backend
        self._traces = torch._C._get_tracing_state
        self._chosen = tables.chosen.get
        self._forward = torch.autograd.forward_ad
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
        kind = type(x)
        plain = kind is self._tensor or kind is self._parameter
        if not plain or ((device := x.get_device()) < 0) is not self._host:
            return nothing
        casts = self._casts()
        if x.is_neg() or (casts and op.autocast and x.itemsize == 2) or self._traces() is not None:
            return nothing
        try:
            address = x.data_ptr()
            state = kind, casts, x.requires_grad
            key = (op, variant, dim, keepdim, state, x.dtype, x.shape, x.stride(), address % 16, device)
            kept = self._kept.get(key)
        except (RuntimeError, TypeError):  # a sparse tensor has no address; a list for keepdim
            return nothing
        if not address or (kept is not None and not held(x, kept[5])):
            return nothing
        if kept is not None:
            if kept is self.last.get(op) and not kept[3](x):  # its test was made in another of torch's modes
                kept = self._kept[key] = self._after((variant, dim, keepdim, alike(x), *kept[4:12]))
            self.last[op] = self._came(op, kept, kept[12])
        return key, address, kept

    def _after(self, kept: Any) -> Any:
        """What is kept, with a list of what came after it: at first, itself."""
        after: list[Any] = []
        after.append((*kept, after))
        return after[0]

    def _came(self, op: object, kept: Any, after: list[Any]) -> Any:
        """What is likely to come after that which came now. The list is that of the latter."""
        before = self.before.get(op)
        if before is not None:
            before[0] = kept
        self.before[op] = after
        return after[0]

    def keep(self, key: tuple[object, ...], x: torch.Tensor, launch: Launch | None, out: torch.Tensor) -> None:
        """Keep a launch for its key, and as that of the last call, if it can run on other addresses."""
        if not _is_movable(launch):
            self._copies(key, launch)
            return
        op, variant, dim, keepdim, *_, offset, device = key
        before = self._kept.get(key)
        at = self._movable(launch, x, before[7] if before is not None else None)
        result = at, tuple(out.shape), out.stride(), out.dtype
        call = self._ready(op, x, dim, keepdim, variant, *result)
        where = offset, span(x), self._among_others(device)
        kept = self._kept[key] = self._after((variant, dim, keepdim, alike(x), *where, *result, call))
        self.last[op] = self._came(op, kept, kept[12])

    def _among_others(self, device: Any) -> int | None:
        """The device, or None where there is no other that could be the current one."""
        return None if self._host or self._device_count() == 1 else device

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
        casts = self._casts()
        if (casts and op.autocast) or self._traces() is not None:
            return None, None
        found: list[object] = [op, variant, dim, keepdim, casts, *scalars.items()]
        try:
            for x in inputs:
                if type(x) is not self._tensor or ((device := x.get_device()) < 0) is not self._host:
                    return None, None
                if x.layout is not self._strided or x.is_neg() or not (address := x.data_ptr()):
                    return None, None
                found += x.requires_grad, x.dtype, x.shape, x.stride(), address % 16, device
            kept = self._kept_calls.get(key := tuple(found))
        except (RuntimeError, TypeError):  # a tensor within torch.vmap; a scalar that is no number
            return None, None
        if kept is not None:
            if not all(map(held, inputs, kept[5])):
                return None, None
            if kept is self.last_calls.get(op) and not kept[3](*inputs):
                kept = self._kept_calls[key] = self._after((variant, dim, keepdim, alike(*inputs), *kept[4:11]))
            self.last_calls[op] = self._came(op, kept, kept[11])
        return key, kept

    def keep_call(
        self,
        key: tuple[object, ...],
        inputs: tuple[torch.Tensor, ...],
        scalars: Mapping[str, Any],
        launch: Launch | None,
        outs: tuple[torch.Tensor, ...],
    ) -> None:
        if not _is_movable(launch):
            self._copies(key, launch)
            return
        op, variant, dim, keepdim, *_ = key
        before = self._kept_calls.get(key)
        at = self._movable(launch, inputs[0], before[7] if before is not None else None)
        offsets = [x.data_ptr() % 16 for x in inputs]
        results = tuple((tuple(out.shape), out.stride(), out.dtype) for out in outs)
        where = tuple(map(span, inputs)), self._among_others(inputs[0].get_device())
        call = self._followed(op, inputs, dim, keepdim, scalars, variant)
        said = variant, dim, keepdim, alike(*inputs), offsets, *where, at, results, call, dict(scalars)
        kept = self._kept_calls[key] = self._after(said)
        self.last_calls[op] = self._came(op, kept, kept[11])

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
        if self._forward._current_level >= 0 or self._chosen():
            return None, False
        tensors = *inputs, *outs
        last = self.last_into.get(op)
        if last is not None:
            named, axis, keeps, said, alike_, offsets, device, kept = last
            dense = variant is named and dim is axis and keepdim is keeps and scalars == said
            for x in tensors:
                dense = dense and isinstance(x, self._tensor) and not x.is_nested
            if dense and alike_(*tensors):
                addresses = placed(tensors, offsets, kept[0])
                if addresses and self._at(kept, addresses, device):
                    self._wrote(outs)
                    return None, True
        casts = self._casts()
        if not plain_dim(dim) or type(variant) is not str or (casts and op.autocast) or self._traces() is not None:
            return None, False
        found: list[object] = [op, variant, dim, keepdim, casts, *scalars.items()]
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
        if kept is None or not all(map(held, tensors, kept[0])) or not self._at(kept, addresses, device):
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
        self, key: tuple[object, ...], inputs: tuple[Any, ...], launch: Launch | None, outs: tuple[Any, ...]
    ) -> None:
        if not _is_movable(launch):
            return
        tensors = *inputs, *outs
        spans = tuple(map(span, tensors))
        places = _places([x.data_ptr() for x in tensors], spans)
        if None in places:
            return
        before = self._kept_into.get(key)
        at = self._movable(launch, inputs[0], before[3] if before is not None else None)
        self._kept_into[key] = spans, places, self._host or self._device_count() == 1, at

    def keep_arrays(
        self, key: tuple[object, ...], launch: Launch | None, x: torch.Tensor, results: list[tuple[Any, Any]]
    ) -> None:
        """Keep the launch of a call on arrays, of which x is the first as a tensor."""
        if not _is_movable(launch):
            return
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

        return Ready(Call(self._backend, op, dim, keepdim, {}, variant), at, result).function()

    def _copies(self, key: tuple[object, ...], launch: Launch | None) -> None:
        """Note that tensors of such layouts are copied. Their copies have launches that can be kept."""
        if isinstance(launch, Copied) and len(self.copied) < MOST:
            self.copied.add(key)

    def _movable(self, launch: Movable, x: torch.Tensor, before: Any) -> Callable[..., bool | None]:
        """What launches on any addresses; one with a workspace on the streams it was bound on."""
        own = _own_bytes(launch)
        kept = len(self._kept) + len(self._kept_calls) + len(self._kept_into) + len(self.arrays)
        if kept >= MOST or self._workspaces + own > WORKSPACES:
            self.forget()
        self._workspaces += own
        if not isinstance(launch, WithWorkspace) or self._host:  # where one call ends before the next begins
            return launch.at
        at = before if isinstance(before, OnStreams) else OnStreams(x.get_device())
        at.keep(launch)
        return at

    def forget(self) -> None:
        """Keep no launch."""
        self._workspaces = 0
        kept: tuple[Any, ...] = (self._kept, self._kept_calls, self._kept_into, self.arrays)
        for table in (*kept, self.last, self.last_calls, self.last_into, self.before, self.copied):
            table.clear()


def _is_movable(launch: Launch | None) -> TypeGuard[Movable]:
    """Whether a launch can run on other addresses, and has little memory of its own."""
    return isinstance(launch, Movable) and _own_bytes(launch) <= WORKSPACES


def _own_bytes(launch: Movable) -> int:
    return sum(tensor.nbytes for tensor in launch.workspace) if isinstance(launch, WithWorkspace) else 0


def _places(addresses: list[int], spans: tuple[int, ...]) -> list[bool | None]:
    """Of each tensor to each before it: True where both begin at one address, False where they have no memory in
    common, None where they may."""
    if len(addresses) == 2:  # the same in half the time
        (x, out), (x_span, out_span) = addresses, spans
        return [False if out >= x + x_span or x >= out + out_span else True if out == x else None]
    found: list[bool | None] = []
    for i, at in enumerate(addresses):
        for j in range(i):
            apart = at >= addresses[j] + spans[j] or addresses[j] >= at + spans[i]
            found.append(False if apart else True if at == addresses[j] else None)
    return found
