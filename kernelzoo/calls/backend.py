"""Backends: how a call is checked, bound and launched, and the fast path of a repeated call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kernelzoo import operations, registry, tables
from kernelzoo.calls.call import Call, Tensors
from kernelzoo.calls.methods import LazyMethod, function_of, lookup, mark_constant, method_of, pickle_args, unscripted
from kernelzoo.device import is_on_usable_device, on_device_of
from kernelzoo.errors import BackendUnavailableError, DeviceError, RegistrationError, UnknownNameError
from kernelzoo.interrupts import delay_interrupt
from kernelzoo.launch import Bind, Launch
from kernelzoo.operations import Dims, Operation
from kernelzoo.operations.arguments import is_cacheable_dim, make_bound_launch, normalize_dim
from kernelzoo.operations.tensors import why_storage_unusable

if TYPE_CHECKING:
    import torch

    from kernelzoo.signatures import _Operations as Operations
else:
    Operations = object  # :class:`LazyMethod` and ``_add_operation`` add the methods of operations


class Backend(Operations):
    """The operations in one kernel language; ``kernelzoo.get(name)`` makes it.

    Each operation is a method. Its inputs are dense torch tensors of any rank and strides, on one of :attr:`devices`.
    The call never changes its inputs, and runs on the caller's current stream without synchronising. It returns a
    contiguous tensor, or ``out``. ``variant`` names the algorithm; ``"auto"`` selects one and takes every legal input.
    Arrays of NumPy, CuPy, Numba, JAX or any library with DLPack are read in place, and the result is such an array.
    ``axis`` means the same as ``dim``, and ``keepdims`` the same as ``keepdim``. A backend is pickled by its name.

    Raises UnknownNameError for an unknown variant. Raises UnsupportedProblemError if a named variant refuses the
    problem or ``batch_invariant``. Also: InputTypeError, AxisError, DeviceError, GradientError, OutputError.

    >>> import torch, kernelzoo
    >>> backend = kernelzoo.get("torch")
    >>> backend.variants("min")
    ('auto', 'compile', 'eager')
    >>> backend.softmax(torch.zeros(2, 2), dim=0, variant="eager")
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    def __init__(self, language: registry.Language) -> None:
        for name in operations.OPERATIONS:
            if name in operations.BUILT_IN:
                operations.OPERATIONS[name]  # torch.compile finds only methods that exist already
            elif name not in vars(Backend):
                setattr(Backend, name, LazyMethod(name))
        self.name = language.name
        self.devices = language.devices
        """Device types that this backend takes on this machine, such as ``("cuda",)``."""
        self.emulator = language.emulator
        """The interpreter or simulator that runs the kernels, or "" on a device. Its times mean nothing."""
        self.on_host = language.devices == ("cpu",) and not language.emulator
        """Whether it takes host tensors only."""
        self._binds, self._check = language.binds, language.check_inputs
        import torch  # imported late, so that commands that only list start fast

        from kernelzoo.calls import arrays
        from kernelzoo.calls.launch_cache import LaunchCache
        from kernelzoo.torch_private import allocator, can_skip_dispatch, in_forward_mode, is_torch_watching

        self._is_watched, self._is_ordinary, self._has_tangents = is_torch_watching, can_skip_dispatch, in_forward_mode
        self._is_overridden, self._tensor = torch.overrides.has_torch_function, torch.Tensor
        self._cache, self._run_on_arrays = LaunchCache(self.on_host), arrays.run
        self._find, self._expected = self._cache.find, self._cache.expected
        self._allocate = allocator("cpu" if self.on_host else "cuda")
        self._table_chosen, self._follows = tables.chosen.get, torch.is_grad_enabled
        self._wrote = torch.autograd.graph.increment_version
        self._is_compiling = torch.compiler.is_dynamo_compiling  # False while exporting, which runs this code

    def __repr__(self) -> str:
        return f"<kernelzoo backend {self.name!r} on {', '.join(self.devices)}>"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return pickle_args(self.name, self._binds)

    def variants(self, op: str) -> tuple[str, ...]:
        """Return the names of an operation's variants, sorted. Raises UnknownNameError."""
        registry.check_operation_name(op)
        return tuple(sorted(variant for known, variant in list(self._binds) if known == op))

    def _run(
        self,
        op: Operation,
        inputs: tuple[Any, ...],
        dim: Dims,
        keepdim: bool,
        scalars: Mapping[str, Any],
        variant: str,
        out: Any,
        seen: bool = False,
    ) -> Any:
        """Run an operation; returns its output, or a tuple. ``seen``: whether torch has dispatched the call."""
        if self._is_compiling():
            return self._dispatch(Call(self, op, dim, keepdim, scalars, variant), inputs, out)
        watched = not seen and (self._is_watched() or self._is_overridden(inputs))
        given = () if out is None else tuple(out) if isinstance(out, list | tuple) else (out,)
        # A launch bound with a table of ``tables.using`` is not cached.
        cacheable = not (watched or self.emulator or self._table_chosen() or (seen and self._has_tangents()))
        if cacheable:
            cached = self._expected.get(op)
            addresses = [] if cached is None else cached.addresses_for(inputs + given, dim, keepdim, scalars, variant)
            if not addresses:
                cached, addresses = self._find(Call(self, op, dim, keepdim, scalars, variant), inputs, given)
            elif cached is not None and cached.following is not cached:
                self._cache.record_used_launch(op, cached)
            if cached is not None and addresses:
                for place, check in cached.checks:
                    check(inputs[place])
                if cached.differentiable is not None and self._follows():
                    return cached.differentiable(*inputs)
                outs = [self._allocate(*result) for result in cached.results]
                addresses += [made.data_ptr() for made in outs]
                if cached.run(*addresses) is None:
                    if given:
                        self._wrote(given)
                        return out
                    return outs[0] if len(outs) == 1 else tuple(outs)
        return self._bind(Call(self, op, dim, keepdim, scalars, variant), inputs, out, given, seen, watched, cacheable)

    def _bind(
        self, call: Call, inputs: Tensors, out: Any, targets: Tensors, dispatched: bool, observed: bool, cacheable: bool
    ) -> Any:
        """Bind and launch a call that is not cached. ``targets``: the tensors in ``out``. ``observed``: by torch."""
        if not is_cacheable_dim(call.dim) and is_cacheable_dim(plain := normalize_dim(call.dim, call.op.several_axes)):
            return call._replace(dim=plain)(*inputs, out=out, dispatched=dispatched)
        if not observed and not all(isinstance(x, self._tensor) for x in inputs):
            return self._run_on_arrays(call, inputs, out)
        if observed or dispatched or not all(map(self._is_ordinary, inputs)):
            found = NotImplemented if dispatched else self._dispatch(call, inputs, out)
            if found is not NotImplemented:
                return found
            self._check(*inputs)
        key = self._cache.key(call, inputs, targets) if cacheable else None
        if key in self._cache.copied and not any(map(why_storage_unusable, inputs)):
            return call(*(x.contiguous() for x in inputs), out=out, dispatched=dispatched)
        launch, outs = self._launch(call, inputs, out)
        if key is not None:
            self._cache.keep(key, call, inputs, targets, launch, outs)
        return out if out is not None else outs[0] if len(outs) == 1 else outs

    def _dispatch(self, call: Call, inputs: Tensors, out: Any) -> Any:
        """Dispatch a call through torch; returns NotImplemented if torch need not see it."""
        from kernelzoo.calls import torch_library  # its import takes a tenth of a second, and few calls need it

        _, op, dim, keepdim, scalars, variant = call
        dim = dim if is_cacheable_dim(dim) else normalize_dim(dim, op.several_axes)
        return torch_library.dispatch(Call(self, op, dim, keepdim, dict(scalars), variant), inputs, out)

    def _launch(self, call: Call, inputs: Tensors, out: Any) -> tuple[Launch | None, Tensors]:
        """Check, bind and launch a call; returns the launch and the outputs."""
        op, variant = call.op, call.variant
        bind, invariant = self._binds.get((op.name, variant)) if isinstance(variant, str) else None, ""
        if bind is None:
            variant, bind, invariant = self._find_variant(op, variant)
        args = op.arguments(inputs, call.dim, call.keepdim, call.scalars)
        if not is_on_usable_device(args.x, self.devices):
            self._check(args.x)  # raises
        outs = op.allocate(args) if out is None else op.outputs_of(out, args)
        launch = None
        if any(tensor.numel() for tensor in outs):
            with on_device_of(args.x):
                made = partial(op.make_batch_invariant_launch, invariant) if invariant else op.make_launch
                launch = made(partial(make_bound_launch, f"{self.name}/{op.name}/{variant}", bind), args, outs)
                launch()
        if out is not None:
            self._wrote(outs)
        return launch, outs

    def _find_variant(self, op: Operation, variant: str) -> tuple[str, Bind, str]:
        """Return a variant's name, bind, and id ("" unless the call is batch-invariant). Raises UnknownNameError.
        If the operation has a single variant, ``auto`` means that variant."""
        known = self.variants(op.name)
        name = variant.removesuffix(registry.BATCH_INVARIANT) if isinstance(variant, str) else variant
        found = known[0] if name == "auto" and len(known) == 1 else name
        if found not in known:
            raise UnknownNameError(f"{self.name} {op.name} variant", variant, known)
        return found, self._binds[op.name, found], "" if name == variant else f"{self.name}/{op.name}/{variant}"


@unscripted
def get(name: str) -> Backend:
    """Return the backend of that name. It is loaded on first use, and cached. Several threads may call this.

    Raises UnknownNameError, or BackendUnavailableError with reason and remedy if the backend can't run here.

    >>> import kernelzoo
    >>> kernelzoo.get("torch").name
    'torch'
    """
    backend = _backends.get(name)
    if backend is None:
        _load(name)
        backend = _store_backend(_backends, name, getattr(_loaded, name))
    return backend


def _store_backend(table: dict[Any, Backend], key: Any, backend: Backend) -> Backend:
    """Store a backend in a table, and return it. While torch.compile traces, the table must not change."""
    import torch

    if not torch.compiler.is_dynamo_compiling():
        table[key] = backend
    return backend


@mark_constant
def _load(name: str) -> bool:
    """Load a backend into ``_loaded``. Returns True, because torch.compile accepts no object as a constant."""
    if name not in vars(_loaded):
        with delay_interrupt():  # an import that was interrupted can't be repeated
            language = registry.language(name)
        vars(_loaded).setdefault(name, Backend(language))
    return True


@unscripted
def best(op: str, x: torch.Tensor) -> Backend:
    """Return the best backend for an operation on a tensor's or array's device. Raises InputTypeError, DeviceError."""
    try:
        device = "cuda" if x.is_cuda is True else "cpu" if x.is_cpu is True else ""  # faster than the device's text
    except AttributeError:
        device = ""
    if not device:
        from kernelzoo.calls import arrays, torch_library

        device = arrays.device_type(x)
        if not device:  # torch.fx is tracing
            return torch_library.SymbolicTraceBackend(public_function)  # type: ignore[return-value]
    backend = _best.get((op, device))
    return _store_backend(_best, (op, device), get(_best_backend_name(op, device))) if backend is None else backend


@mark_constant
def _best_backend_name(op: str, device: str) -> str:
    if device == "cuda" and device not in get(registry.BASELINE).devices:  # a fake tensor
        device = "meta"
    refusals = []
    for name in registry.preferred_backends(op, device):
        try:
            backend = get(name)
        except BackendUnavailableError as error:
            refusals.append(error)
            continue
        if (device == "meta" or device in backend.devices) and backend.variants(op):
            return name
    raise DeviceError(
        f"no backend has a {op} that can take a tensor on {device}: "
        + ("; ".join(map(str, refusals)) or "none is written for it")
    )


functions: dict[str, Callable[..., Any]] = {}
"""By name of an operation: its public function, which calls the best backend."""


def _add_operation(op: Operation) -> None:
    """Add an operation's method, and make its public function. Raises RegistrationError if the name is taken."""
    taken = vars(Backend).get(op.name)
    if taken is not None and not isinstance(taken, LazyMethod) and op.name not in functions:
        raise RegistrationError(f"an operation can't be called {op.name!r}, as a backend has an attribute of that name")
    setattr(Backend, op.name, method_of(op))
    functions[op.name] = function_of(op, best)


def public_function(name: str) -> Callable[..., Any]:
    """Return the public function of an operation; see :data:`functions`. Raises KeyError."""
    operations.OPERATIONS[name]
    return functions[name]


_backends: dict[str, Backend] = {}
_loaded = SimpleNamespace()
"""The loaded backends as attributes, which torch.compile looks up."""
_best: dict[tuple[str, str], Backend] = {}


def _clear_launch_cache(name: str) -> None:
    """Empty the launch cache of a backend, after one of its implementations was replaced."""
    _best.clear()
    backend = _backends.get(name)
    if backend is not None:
        backend._cache.forget()


registry.on_change.append(_clear_launch_cache)
lookup.append(lambda name: _backends.get(name) or (_load(name) and getattr(_loaded, name)))  # torch.compile may trace
for _name in operations.BUILT_IN:
    setattr(Backend, _name, LazyMethod(_name))
for _op in list(operations.declared.values()):
    _add_operation(_op)
operations.on_declared.append(_add_operation)
