"""The registry of backends and their implementations.

Listing parses source files for ``@register`` and ``@chooser`` and imports none, so it needs no language.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from kernelzoo import operations
from kernelzoo.device import is_on_usable_device, on_device_of, wrap_with_device
from kernelzoo.errors import (
    BackendUnavailableError,
    DeviceError,
    GridTooLargeError,
    RegistrationError,
    UnknownNameError,
)
from kernelzoo.launch import Bind, Launch, add_storage_checks
from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import make_bound_launch as make_bound_launch
from kernelzoo.operations.canonical import split_in_two
from kernelzoo.operations.tensors import check_untraced
from kernelzoo.packages import backend_packages, importing, list_variants, summary_of
from kernelzoo.packages import import_kernels as import_kernels
from kernelzoo.packages import require as require

Choose: TypeAlias = "Callable[..., str]"
"""A chooser: takes what a bind takes, and returns the name of the variant to use."""

BindT = TypeVar("BindT", bound=Bind)
ChooseT = TypeVar("ChooseT", bound=Choose)

BASELINE = "torch"
"""The backend to compare with. It runs wherever torch does."""

BASELINE_VARIANT = "eager"
BATCH_INVARIANT = "+batch_invariant"  # after a variant or an id: a row's bits don't depend on the number of rows
# The backends that kernelzoo.softmax tries, the best first, by device type, as measured in bench/results.
PREFERENCE = {"cuda": ("triton", "cupy", "numba", "torch"), "cpu": ("cpu", "torch")}


@dataclass(frozen=True)
class Implementation:
    """One algorithm of one operation in one language, named ``backend/op/variant`` everywhere."""

    backend: str
    op: str
    variant: str
    summary: str
    """The first paragraph of its docstring."""
    chooses: bool = False
    """Whether it is a chooser, which selects one of several variants for a problem."""

    @property
    def id(self) -> str:
        return f"{self.backend}/{self.op}/{self.variant}"

    @property
    def batch_invariant(self) -> bool:
        """Whether a row's bits must not depend on the number of rows, in a call and a ``launch``."""
        return self.variant.endswith(BATCH_INVARIANT)

    @property
    def registered(self) -> str:
        """The variant without ``+batch_invariant``."""
        return self.variant.removesuffix(BATCH_INVARIANT)

    @property
    def operation(self) -> operations.Operation:
        return operations.OPERATIONS[self.op]

    def bind(self, *tensors: torch.Tensor, **scalars: Any) -> Launch:
        """Bind canonical tensors, inputs first, and load the backend if necessary.

        Raises BackendUnavailableError if the backend can't run here, UnsupportedProblemError if this variant can't take
        the problem, LaunchError if it returns no launch.
        """
        launch = make_bound_launch(self.id, language(self.backend).binds[self.op, self.registered], *tensors, **scalars)
        return add_storage_checks(launch, tensors, len(self.operation.outputs))

    def form(self, *tensors: torch.Tensor, **scalars: Any) -> str:
        """Return the id of the variant that runs: its own, or a chooser's choice. Raises as ``bind`` does."""
        language(self.backend)
        return f"{self.backend}/{self.op}/{choose_variant(self.backend, self.op, self.registered, *tensors, **scalars)}"

    def launch(
        self,
        *inputs: torch.Tensor,
        dim: operations.Dims = -1,
        out: torch.Tensor | Sequence[torch.Tensor],
        **scalars: Any,
    ) -> Launch:
        """Bind tensors of any legal shape and layout, as a call of the backend does, and return the launch.

        Benchmarks time this launch, with every copy, fill and workspace pass that the variant needs. ``out``: a tensor,
        or a tuple of them for several outputs. Raises as ``bind`` and the operation's checks do. If a storage moves,
        the launch uses its new address. Once one is freed or shrunk, it only raises InputTypeError or OutputError.

        >>> import torch, kernelzoo
        >>> x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
        >>> out = torch.empty(2)
        >>> launch = kernelzoo.implementation("torch/min/eager").launch(x, out=out)
        >>> launch()
        >>> out
        tensor([1., 2.])
        """
        outs = tuple(out) if isinstance(out, list | tuple) else (out,)
        keepdim = self.operation.reduces and outs[0].ndim == inputs[0].ndim
        args = self.operation.arguments(inputs, dim, keepdim, scalars)
        language(self.backend).check_inputs(*args.inputs)
        self.operation.check_outs(outs, args)
        return self.launch_checked(args, outs)

    def launch_checked(self, args: operations.Arguments, outs: Sequence[torch.Tensor]) -> Launch:
        """Bind arguments and outputs that are checked already."""
        language(self.backend).check_inputs(*args.inputs)
        with on_device_of(args.x):
            invariant = partial(self.operation.make_batch_invariant_launch, self.id)
            made = invariant if self.batch_invariant else self.operation.make_launch
            launch = made(self.bind, args, outs)
            return wrap_with_device(add_storage_checks(launch, (*args.inputs, *outs), len(outs), anew=True), args.x)


@dataclass
class Language:
    """A backend whose package is loaded, on this machine."""

    name: str
    devices: tuple[str, ...]
    """Device types that it takes here, such as ``("cuda",)``."""
    binds: dict[tuple[str, str], Bind] = field(repr=False)
    """Bind functions of its variants, by operation and name."""
    emulator: str = ""
    """The interpreter or simulator that runs the kernels, or "" on a device. Its times mean nothing."""

    def check_inputs(self, *inputs: torch.Tensor) -> None:
        """Raise DeviceError for an unfit device, BackendUnavailableError in a fork, InputTypeError if torch traces."""
        x = inputs[0]
        if x.device.type not in self.devices:
            raise DeviceError(
                f"backend {self.name!r} takes tensors on {' or '.join(self.devices)} here, got one on {x.device}; "
                f"move it with x.to({self.devices[0]!r}), or use another backend: {', '.join(backends())}"
            )
        if not is_on_usable_device(x, self.devices):
            reason = "this process was forked from one that had used CUDA, which a fork can't go on with"
            remedy = "start it with multiprocessing's method 'spawn' or 'forkserver', or fork before the first use"
            raise BackendUnavailableError(self.name, reason, remedy)
        if self.name != BASELINE:
            check_untraced(inputs, self.name)


def register(backend: str, op: str, variant: str) -> Callable[[BindT], BindT]:
    """Register the decorated function as ``backend/op/variant`` and hand it back unchanged.

    The function takes canonical tensors, inputs first, and scalars by name: for a softmax ``(x, out)``, both of shape
    (outer, n, inner). It returns a launch: a function without arguments that runs the kernel and writes the outputs.
    For a problem that it can't take, it raises UnsupportedProblemError. A new backend name makes a new backend, for
    tensors on the CPU and on any GPU.

    Raises RegistrationError if the id is taken by another function, UnknownNameError for an unknown operation.

    >>> import torch, kernelzoo
    >>> @kernelzoo.register("mine", "min", "simple")
    ... def simple(x, out):
    ...     def launch():
    ...         torch.amin(x, 1, out=out)
    ...     return launch
    >>> kernelzoo.get("mine").min(torch.tensor([[3.0, 1.0], [2.0, 5.0]]), variant="simple")
    tensor([1., 2.])
    """
    _check_id(backend, op, variant)

    def decorate(bind: BindT) -> BindT:
        _store_variant(backend, op, variant, bind, None)
        return bind

    return decorate


def chooser(backend: str, op: str, variant: str) -> Callable[[ChooseT], ChooseT]:
    """Register the decorated function as the chooser ``backend/op/variant``, which selects one of several variants.

    The function takes what a bind takes, and returns the name of a registered variant that is no chooser. Raises as
    ``register`` does.

    >>> import kernelzoo
    >>> @kernelzoo.chooser("mine", "min", "auto")
    ... def auto(x, out):
    ...     return "simple"
    """
    _check_id(backend, op, variant)

    def decorate(choose: ChooseT) -> ChooseT:
        def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
            try:
                form = choose_variant(backend, op, variant, *tensors, **scalars)
                return make_bound_launch(f"{backend}/{op}/{form}", _registered[backend, op, form], *tensors, **scalars)
            except GridTooLargeError:
                x, operation = tensors[0], operations.OPERATIONS[op]
                if not operation.by_rows or x.size(0) * x.size(2) < 2**20:  # the number of rows is not the reason
                    raise
                return split_in_two(partial(bind, **scalars), tensors, operation.axes)

        bind.__doc__, bind.__module__, bind.__qualname__ = choose.__doc__, choose.__module__, choose.__qualname__
        _store_variant(backend, op, variant, bind, choose)
        return choose

    return decorate


def choose_variant(backend: str, op: str, variant: str, *tensors: torch.Tensor, **scalars: Any) -> str:
    """Return the variant that binds canonical tensors: ``variant``, or if that is a chooser, the one it chooses."""
    if (choose := _choosers.get((backend, op, variant))) is None:
        return variant
    name = choose(*tensors, **scalars)
    if (backend, op, name) not in _registered or (backend, op, name) in _choosers:
        raise RegistrationError(f"{backend}/{op}/{variant} chose {name!r}, which is no form of {backend}/{op}")
    return name


def _check_id(backend: str, op: str, variant: str) -> None:
    check_operation_name(op)
    for part in (backend, variant):
        if not (isinstance(part, str) and part.isidentifier()):
            raise RegistrationError(f"a backend or variant is a Python identifier, got {part!r}")


def _store_variant(backend: str, op: str, variant: str, bind: Bind, choose: Choose | None) -> None:
    with _lock:
        known = _registered.get((backend, op, variant))
        if known is not None and (known.__module__, known.__qualname__) != (bind.__module__, bind.__qualname__):
            raise RegistrationError(
                f"{backend}/{op}/{variant} is taken by {known.__module__}.{known.__qualname__}; choose another name"
            )
        _registered[backend, op, variant] = bind
        _choosers.pop((backend, op, variant), None)
        if choose is not None:
            _choosers[backend, op, variant] = choose
        if (loaded := _loaded.get(backend)) is not None:
            loaded.binds[op, variant] = bind
            for forget in on_change:
                forget(backend)


on_change: list[Callable[[str], None]] = []
"""Functions to call with a loaded backend's name when one of its implementations is replaced."""


def backends() -> tuple[str, ...]:
    """Return the names of all known backends, sorted, whether or not they can run here. Imports no language.

    >>> import kernelzoo
    >>> "triton" in kernelzoo.backends()
    True
    """
    return tuple(sorted({*backend_packages(), *(backend for backend, _, _ in list(_registered))}))


def implementations(backend: str | None = None, op: str | None = None) -> tuple[Implementation, ...]:
    """Return implementations, of one backend or operation if given, sorted by id. Imports no language.

    Unreadable code of another package is listed as ``unreadable``, with the reason as its summary. Raises
    UnknownNameError for an unknown backend or operation.

    >>> import kernelzoo
    >>> [i.variant for i in kernelzoo.implementations("torch", "min")]
    ['auto', 'compile', 'eager']
    """
    if backend is not None and backend not in backends():
        raise UnknownNameError("backend", backend, backends())
    if op is not None:
        check_operation_name(op)
    found = dict[str, Implementation]()
    for name in backend_packages():
        rows = list_variants(name) if backend in (None, name) else ()
        found |= {f"{name}/{row.op}/{row.variant}": Implementation(*row[:5]) for row in rows if op in (None, row.op)}
    for key, bind in list(_registered.items()):
        if backend in (None, key[0]) and op in (None, key[1]):
            found.setdefault("/".join(key), Implementation(*key, summary_of(bind.__doc__), key in _choosers))
    return tuple(found[id] for id in sorted(found))


def implementation(id: str) -> Implementation:
    """Return the implementation of an id, ``backend/op/variant``, maybe ``+batch_invariant``. Raises UnknownNameError.

    >>> import kernelzoo
    >>> kernelzoo.implementation("torch/min/eager").id
    'torch/min/eager'
    """
    backend, op, *_ = (*id.split("/"), "")
    among = implementations(backend, op) if backend in backends() and op in operations.OPERATIONS else ()
    for one in among:
        if id.removesuffix(BATCH_INVARIANT) == one.id:
            return one if id == one.id else replace(one, variant=one.variant + BATCH_INVARIANT)
    raise UnknownNameError("implementation", id, [i.id for i in implementations()])


def preferred_backends(op: str, device: str) -> tuple[str, ...]:
    """Return the backends to try for an operation on a device, the best first: built-in ones, then others."""
    others = {i.backend for i in implementations(op=op)} - {*backend_packages(), BASELINE}
    return (*PREFERENCE.get(device, (BASELINE,)), *sorted(others))


def baseline(op: str) -> str:
    """Return the id of the implementation that others of an operation are compared with."""
    return f"{BASELINE}/{op}/{BASELINE_VARIANT}"


def language(name: str) -> Language:
    """Return the backend of that name, imported at first use and cached.

    Raises UnknownNameError, BackendUnavailableError. Safe from several threads.
    """
    return _loaded.get(name) or _load(name)


# Guards the tables below. It is not held during imports, which may wait for a thread that waits for it.
_lock = threading.RLock()
_loading: dict[str, threading.RLock] = {}
"""Locks by backend, so that one thread at a time imports it."""
_registered: dict[tuple[str, str, str], Bind] = {}
_choosers: dict[tuple[str, str, str], Choose] = {}
_loaded: dict[str, Language] = {}


def check_operation_name(op: str) -> None:
    """Raise UnknownNameError unless there is such an operation."""
    if op not in operations.OPERATIONS:
        raise UnknownNameError("operation", op, operations.OPERATIONS)


def _load(name: str) -> Language:
    with _lock:
        loading = _loading.setdefault(name, threading.RLock())
    with loading:
        if name in _loaded:
            return _loaded[name]
        emulator = ""
        if (package := backend_packages().get(name)) is not None:
            with importing(name):
                module = importlib.import_module(package)
                devices: tuple[str, ...] = module.probe()
                emulator = module.emulator() if hasattr(module, "emulator") else ""
                import_kernels(name, package)
        elif name in backends():
            devices = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
        else:
            raise UnknownNameError("backend", name, backends())
        with _lock:
            binds = {(op, variant): bind for (backend, op, variant), bind in _registered.items() if backend == name}
            _loaded[name] = Language(name, devices, binds, emulator)
        return _loaded[name]


def _reset_after_fork() -> None:
    """Make new locks in a forked child, since a parent's thread may hold the old ones, and drop all launches."""
    global _lock
    _lock = threading.RLock()
    _loading.clear()
    for backend in _loaded:
        for forget in on_change:
            forget(backend)


os.register_at_fork(after_in_child=_reset_after_fork)
