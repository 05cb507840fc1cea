"""A cache of a backend's launches, so that a repeated call binds nothing. Its keys leave out only addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from kernelzoo.calls.call import Call, Tensors
from kernelzoo.launch import ContiguousFallback, Launch, PerStreamLaunches, RebindableLaunch, WorkspaceLaunch
from kernelzoo.layout import span
from kernelzoo.operations import Dims, Operation
from kernelzoo.operations.arguments import is_cacheable_dim
from kernelzoo.torch_private import current_device, is_jit_traced, make_tensor_guard

Key: TypeAlias = "tuple[object, ...]"
Result: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], torch.dtype]"
"""Shape, strides and dtype of an output."""

Run: TypeAlias = "Callable[..., bool | None]"
"""A function that launches on addresses. It returns True, without launching, if the call must be bound anew."""

MAX_LAUNCHES = 4096
"""The most launches that a backend caches. One more empties the cache."""

MAX_WORKSPACE_BYTES = 2**26
"""The most bytes of workspace in the cache. More empties the cache, too. One launch uses a few KB."""


@dataclass(slots=True, eq=False)
class CachedLaunch:
    """A launch that takes any addresses, with the arguments of the call for which it was bound."""

    dim: Dims
    keepdim: bool
    scalars: Mapping[str, Any]
    variant: str
    guard: Callable[..., bool]
    """A function: whether tensors have the dtypes, devices, shapes and strides of that call."""
    offsets: list[int]
    """Addresses of the tensors modulo 16."""
    spans: list[int]
    """For each tensor: the bytes from the start of its first element to the end of its last one."""
    device: int | None
    """Index of the GPU; None on the host."""
    run: Run
    results: tuple[Result, ...]
    """The outputs to allocate; empty if the caller passes them."""
    places: list[bool | None]
    """What ``classify_overlaps`` returned for the call's tensors; empty unless the caller passes outputs."""
    differentiable: Callable[..., Any] | None
    """The function to call if gradients are enabled; None if no input requires one."""
    checks: Sequence[tuple[int, Callable[[Tensor], None]]] = ()
    """Indices of inputs, and a function for each that raises an error for a wrong value."""
    following: CachedLaunch | None = None
    """The launch that came after this one the last time."""

    def addresses_for(
        self, tensors: Sequence[Any], dim: Dims, keepdim: bool, scalars: Mapping[str, Any], variant: str
    ) -> list[int]:
        """Return the addresses of a call's tensors if this launch fits the call; else an empty list."""
        if variant != self.variant or dim is not self.dim or keepdim is not self.keepdim:
            return []
        if len(tensors) != len(self.spans) or (scalars is not self.scalars and scalars != self.scalars):
            return []
        for x in tensors:
            if not isinstance(x, Tensor) or x.is_nested:  # the guard of a nested tensor would end the process
                return []
        return self.addresses(tensors) if self.guard(*tensors) else []

    def addresses(self, tensors: Sequence[Tensor]) -> list[int]:
        """Return the tensors' addresses if the launch can run on them; else an empty list."""
        found = []
        for i, x in enumerate(tensors):  # zip() takes as long as all the rest
            address, storage = x.data_ptr(), x.untyped_storage()
            # A view of a freed storage has an address, too: a small number. len() needs no look-up of an attribute.
            if not address or address % 16 != self.offsets[i]:
                return []
            if address + self.spans[i] > storage.data_ptr() + len(storage):
                return []
            found.append(address)
        if self.places and classify_overlaps(found, self.spans) != self.places:
            return []
        return found if self.device is None or self.device == current_device() else []


@dataclass(slots=True, eq=False)
class CachedArrayLaunch:
    """A launch on any addresses for another library's arrays, with its device and each result's shape and dtype."""

    run: Run
    device: int
    results: list[tuple[Any, Any]]


class LaunchCache:
    """The cached launches of one backend."""

    def __init__(self, on_host: bool) -> None:
        self.arrays: dict[Key, CachedArrayLaunch] = {}
        self.copied: set[Key] = set()
        """Keys of calls whose inputs are copied first. The launches on the copies can be cached."""
        self._launches: dict[Key | None, CachedLaunch] = {}
        self.expected: dict[Operation, CachedLaunch] = {}
        """Per operation: the launch to try first, without a key. It came next the last time, as in a model's layers."""
        self._previous: dict[Operation, CachedLaunch] = {}
        """Per operation: the launch of the previous call."""
        self._workspace_bytes = 0
        self._on_host, self._tensor = on_host, torch.Tensor

    def find(self, call: Call, inputs: Any, outs: Any) -> tuple[CachedLaunch | None, list[int]]:
        """Return a call's cached launch, or None, and the tensors' addresses: [] if the launch can't run on them."""
        cached = self._launches.get(self.key(call, inputs, outs))
        if cached is None:
            return None, []
        tensors = inputs + outs
        if not cached.guard(*tensors):  # it was made in another of torch's modes
            cached.guard = make_tensor_guard(*tensors)
        self.record_used_launch(call.op, cached)
        return cached, cached.addresses(tensors)

    def record_used_launch(self, op: Operation, cached: CachedLaunch) -> None:
        """Record the launch that a call used, and the launch that the next call is likely to use."""
        self._previous.setdefault(op, cached).following = cached
        self._previous[op] = cached
        self.expected[op] = cached.following or cached

    def key(self, call: Call, inputs: Tensors, outs: Tensors) -> Key | None:
        """Return a key of all that a launch depends on except addresses; None if the call can't be cached."""
        _, op, dim, keepdim, scalars, variant = call
        if not is_cacheable_dim(dim) or type(variant) is not str or type(keepdim) is not bool or is_jit_traced():
            return None
        casts = bool(op.autocast) and torch.is_autocast_enabled("cuda")
        found: list[object] = [op, variant, dim, keepdim, *scalars.items()]
        try:
            for x in inputs + outs:
                kind, gradient = type(x), x.requires_grad
                if kind is not self._tensor and kind is not torch.nn.Parameter:
                    return None
                if ((device := x.get_device()) < 0) is not self._on_host or x.is_neg() or not (at := x.data_ptr()):
                    return None
                if (casts and x.itemsize == 2) or (gradient and outs):
                    return None
                found += kind, gradient, x.dtype, x.shape, x.stride(), at % 16, device
            hash(key := tuple(found))
        # An input is no tensor, is sparse or in torch.vmap, or a scalar has no hash
        except (AttributeError, RuntimeError, TypeError):
            return None
        return key

    def keep(self, key: Key, call: Call, inputs: Tensors, given: Tensors, launch: Launch | None, outs: Tensors) -> None:
        """Cache the launch of a call if it can run on other addresses. ``given``: the caller's outputs."""
        if not isinstance(launch, RebindableLaunch):
            if isinstance(launch, ContiguousFallback) and not given and len(self.copied) < MAX_LAUNCHES:
                self.copied.add(key)
            return
        tensors = inputs + given
        addresses, spans = [x.data_ptr() for x in tensors], [span(x) for x in tensors]
        places = classify_overlaps(addresses, spans) if given else []
        run = None if None in places else self._make_run(launch, self._launches.get(key))
        if run is None:
            return
        call = call._replace(scalars=dict(call.scalars)) if call.scalars else call  # the caller may change them
        results = () if given else tuple((tuple(out.shape), out.stride(), out.dtype) for out in outs)
        cached = CachedLaunch(
            *call[2:],
            make_tensor_guard(*tensors),
            [address % 16 for address in addresses],
            spans,
            None if self._on_host or torch.cuda.device_count() <= 1 else inputs[0].get_device(),
            run,
            results,
            places,
            _make_differentiable(call, run, results) if not given and any(x.requires_grad for x in inputs) else None,
            op.value_checks(op.arguments(inputs, *call[2:5])) if (op := call.op).checks_values else (),
        )
        self._launches[key] = cached
        self.record_used_launch(call.op, cached)

    def keep_arrays(self, key: Key, launch: Launch | None, x: torch.Tensor, results: list[tuple[Any, Any]]) -> None:
        """Cache the launch of a call on arrays. ``x``: the first array as a tensor."""
        if isinstance(launch, RebindableLaunch) and (run := self._make_run(launch, self.arrays.get(key))) is not None:
            self.arrays[key] = CachedArrayLaunch(run, x.get_device(), results)

    def _make_run(self, launch: RebindableLaunch, previous: CachedLaunch | CachedArrayLaunch | None) -> Run | None:
        """Return a function that launches on addresses; None if its workspace is large. ``previous``: its old entry."""
        own = sum(tensor.nbytes for tensor in launch.workspace)
        if own > MAX_WORKSPACE_BYTES:
            return None
        if len(self._launches) + len(self.arrays) >= MAX_LAUNCHES or self._workspace_bytes + own > MAX_WORKSPACE_BYTES:
            self.forget()
        self._workspace_bytes += own
        if self._on_host or not isinstance(launch, WorkspaceLaunch):  # calls on the host do not overlap
            return launch.at
        # One launch for each stream that this call was bound on, with a workspace of its own.
        run = None if previous is None else previous.run
        found = run if isinstance(run, PerStreamLaunches) else PerStreamLaunches(launch.tensors[0].get_device())
        found.keep(launch)
        return found

    def forget(self) -> None:
        self._workspace_bytes = 0
        tables: tuple[Any, ...] = (self._launches, self.arrays, self.copied, self.expected, self._previous)
        for table in tables:
            table.clear()


def _make_differentiable(call: Call, run: Callable[..., Any], results: tuple[Result, ...]) -> Callable[..., Any]:
    """Return the function to call if gradients are enabled and an input requires one."""
    from kernelzoo.calls import autograd

    if not call.op.gradient or not (len(call.op.inputs) == 1 == len(results)) or call.scalars:
        return partial(autograd.call_differentiable, call)
    ready = autograd.CachedDifferentiable(call, run, results[0])
    return partial(autograd.unchecked_apply(autograd.CachedLaunchFunction, call.op), ready)  # no frame above torch's


def classify_overlaps(addresses: Sequence[int], spans: Sequence[int]) -> list[bool | None]:
    """Compare each tensor with each earlier one: True at the same address, False if disjoint, None if they overlap."""
    found: list[bool | None] = []
    for i, at in enumerate(addresses):
        for j in range(i):
            apart = at >= addresses[j] + spans[j] or addresses[j] >= at + spans[i]
            found.append(False if apart else True if at == addresses[j] else None)
    return found
