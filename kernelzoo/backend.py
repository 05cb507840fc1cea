"""One call of a backend: checks, binds and launches it; and the fast path of a repeated call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo import operations, registry, tables
from kernelzoo.device import on_device_of
from kernelzoo.errors import BackendUnavailableError, DeviceError, RegistrationError, UnknownNameError
from kernelzoo.interrupts import uninterrupted
from kernelzoo.kept import Launches
from kernelzoo.launch import Launch
from kernelzoo.methods import Undeclared, constant, empty_strided, function_of, lookup, method_of, pickled, unscripted
from kernelzoo.operations import Dims, Operation
from kernelzoo.operations.arguments import is_followed, plain_dim, plainer, without_storage
from kernelzoo.storages import placed

if TYPE_CHECKING:
    import torch

    from kernelzoo.signatures import Operations
else:
    Operations = object  # the methods of operations come with them


class Backend(Operations):
    """The operations in one kernel language; ``kernelzoo.get(name)`` makes it.

    Every method takes a dense torch tensor of any rank and any strides on one of :attr:`devices`, never changes it,
    runs on the caller's current stream without synchronising, and returns a contiguous tensor (or ``out``).
    ``variant`` names the algorithm; ``"auto"`` chooses one for the problem and takes every legal input. An array of
    NumPy, CuPy, Numba or JAX, or of any library with DLPack, is read in place, and the result is one of that library.
    ``axis`` is another name of ``dim``, ``keepdims`` of ``keepdim``. A backend is pickled by its name.

    Errors: UnknownNameError (variant), InputTypeError, AxisError, DeviceError, GradientError, OutputError,
    UnsupportedProblemError (a named variant only).

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
                operations.OPERATIONS[name]  # torch.compile finds no method that is not there yet
            elif name not in vars(Backend):
                setattr(Backend, name, Undeclared(name))
        self.name = language.name
        self.devices = language.devices
        """Device types that this backend takes on this machine, such as ``("cuda",)``."""
        self.emulator = language.emulator
        """What runs the kernels in place of a device (an interpreter, a simulator), or "". Never to be timed."""
        self.on_host = language.devices == ("cpu",) and not language.emulator
        """Whether it takes tensors on the host alone."""
        self._binds = language.binds
        self._check = language.check
        self._launches = Launches(self)
        self._last, self._last_calls = self._launches.last, self._launches.last_calls
        self._before, self._copied = self._launches.before, self._launches.copied
        import torch  # for the fast path of a repeated call, which has no time to import anything

        self._tensor, self._strided = torch.Tensor, torch.strided
        where = "cpu" if self.on_host else "cuda"
        plain: _Allocate = partial(empty_strided, device=where)
        self._allocate: _Allocate = getattr(torch._C._dynamo.guards, f"_empty_strided_{where}", plain)
        self._chosen, self._follows = tables.chosen.get, torch.is_grad_enabled
        self._current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
        self._wrote = torch.autograd.graph.increment_version
        self._is_compiling = torch.compiler.is_dynamo_compiling  # and not while exporting, which runs what is here
        self._arrays: Callable[..., Any] | None = None
        self._forward, self._profiler = torch.autograd.forward_ad, torch.autograd.profiler
        self._modes = torch._C._len_torch_dispatch_stack
        self._overridden, self._overrides = torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function

    def __repr__(self) -> str:
        return f"<kernelzoo backend {self.name!r} on {', '.join(self.devices)}>"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return pickled(self.name, self._binds)

    def variants(self, op: str) -> tuple[str, ...]:
        """Names of the variants of one operation, sorted. Raises UnknownNameError."""
        registry.known_op(op)
        return tuple(sorted(variant for known, variant in list(self._binds) if known == op))

    def _run(
        self, op: Operation, x: torch.Tensor, dim: Dims, keepdim: bool, variant: str, out: Any, seen: bool = False
    ) -> torch.Tensor:
        if self._is_compiling():
            return self._followed(op, (x,), dim, keepdim, {}, variant, out)  # type: ignore[no-any-return]
        # The fast path of a repeated call. What another launch table than that in force was chosen for is not kept.
        # What torch would have to see of a call, for a tangent or a trace, is looked at in a first one.
        watched = not seen and (self._modes() or self._profiler._is_profiler_enabled or self._overridden(x))
        key: tuple[object, ...] | None = None
        result: torch.Tensor
        if out is None and self._forward._current_level < 0 and not watched:
            address = 0  # also that of a tensor without memory
            kept = self._last.get(op)
            if kept is not None:
                named, axis, keeps, alike, offset, span, device, at, shape, strides, dtype, followed, after = kept
                # Of a nested tensor, which has no one shape, the test would end the process.
                dense = isinstance(x, self._tensor) and not x.is_nested
                if dense and variant is named and dim is axis and keepdim is keeps and alike(x) and not self._chosen():
                    address, storage = x.data_ptr(), x.untyped_storage()
                    if address % 16 != offset or address + span > storage.data_ptr() + len(storage):
                        address = 0  # one that the storage holds no more, at the worst
                    elif after[0] is not kept:
                        self._last[op], self._before[op] = after[0], after
            if not address:
                if not isinstance(x, self._tensor):
                    return self._of_arrays(op, (x,), dim, keepdim, {}, variant, out)
                if plain_dim(dim) and type(variant) is str and not self._chosen():
                    key, address, kept = self._launches.find(op, x, dim, keepdim, variant)
                    if kept is not None:
                        device, at, shape, strides, dtype, followed, _ = kept[6:]
            if address and kept is not None and (device is None or device == self._current_device()):
                if followed is not None and self._follows():
                    return followed(x)  # type: ignore[no-any-return]
                result = self._allocate(shape, strides, dtype)
                if at(address, result.data_ptr()) is None:
                    return result
                if key is None:  # another stream than before, say
                    key, _, _ = self._launches.find(op, x, dim, keepdim, variant)
        elif out is not None and not watched:
            key, launched = self._launches.into(op, (x,), dim, keepdim, {}, variant, (out,))
            if launched:
                return out  # type: ignore[no-any-return]
        if key is None:
            if not plain_dim(dim) and plain_dim(plain := plainer(dim, op.several_axes)):
                return self._run(op, x, plain, keepdim, variant, out)
            if not (watched or isinstance(x, self._tensor)):
                return self._of_arrays(op, (x,), dim, keepdim, {}, variant, out)
        if watched or (not seen and is_followed((x,))):
            found = self._followed(op, (x,), dim, keepdim, {}, variant, out)
            if found is not NotImplemented:
                return found  # type: ignore[no-any-return]
        if key in self._copied and not without_storage(x):
            return self._run(op, x.contiguous(), dim, keepdim, variant, out, seen)
        launch, (result,) = self._bound(op, (x,), dim, keepdim, (), variant, out)
        if key is not None and out is None:
            self._launches.keep(key, x, launch, result)
        elif key is not None:
            self._launches.keep_into(key, (x,), launch, (result,))
        return result

    def _call(
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
        """A call of any operation: its outputs, one tensor or a tuple."""
        if self._is_compiling():
            return self._followed(op, inputs, dim, keepdim, scalars, variant, out)
        watched = not seen and (self._modes() or self._profiler._is_profiler_enabled or self._overrides(inputs))
        key = None
        if out is None and self._forward._current_level < 0 and not watched:
            addresses: list[int] = []
            call = self._last_calls.get(op)
            if call is not None:
                named, axis, keeps, alike, offsets, spans, device, at, results, followed, said, after = call
                dense = not [x for x in inputs if not isinstance(x, self._tensor) or x.is_nested]
                same = variant is named and dim is axis and keepdim is keeps and scalars == said
                if dense and same and alike(*inputs):
                    addresses = [] if self._chosen() else placed(inputs, offsets, spans)
                    if addresses and after[0] is not call:
                        self._last_calls[op], self._before[op] = after[0], after
            if not addresses and plain_dim(dim) and isinstance(variant, str) and not self._chosen():
                key, call = self._launches.find_call(op, inputs, dim, keepdim, scalars, variant)
                if call is not None:
                    device, at, results, followed, *_ = call[6:]
                    addresses = [x.data_ptr() for x in inputs]
            if addresses and call is not None and (device is None or device == self._current_device()):
                if followed is not None and self._follows():
                    return followed(*inputs)
                outs = []
                for result in results:
                    outs.append(self._allocate(*result))
                    addresses.append(outs[-1].data_ptr())
                if at(*addresses) is None:
                    return outs[0] if len(outs) == 1 else tuple(outs)
                if key is None:
                    key, _ = self._launches.find_call(op, inputs, dim, keepdim, scalars, variant)
        elif out is not None:
            given = tuple(out) if isinstance(out, list | tuple) else (out,)
            key, launched = self._launches.into(op, inputs, dim, keepdim, scalars, variant, given)
            if launched:
                return out
        if key is None:
            if not plain_dim(dim) and plain_dim(plain := plainer(dim, op.several_axes)):
                return self._call(op, inputs, plain, keepdim, scalars, variant, out)
            if not (watched or all(isinstance(x, self._tensor) for x in inputs)):
                return self._of_arrays(op, inputs, dim, keepdim, scalars, variant, out)
        if watched or (not seen and is_followed(inputs)):
            found = self._followed(op, inputs, dim, keepdim, scalars, variant, out)
            if found is not NotImplemented:
                return found
        if key in self._copied and not any(map(without_storage, inputs)):
            return self._call(op, tuple(x.contiguous() for x in inputs), dim, keepdim, scalars, variant, out, seen)
        launch, made = self._bound(op, inputs, dim, keepdim, scalars, variant, out)
        if key is not None and out is None:
            self._launches.keep_call(key, inputs, scalars, launch, made)
        elif key is not None:
            self._launches.keep_into(key, inputs, launch, made)
        return out if out is not None else made[0] if len(made) == 1 else made

    def _followed(self, op: Operation, inputs: tuple[Any, ...], dim: Dims, keepdim: bool, *rest: Any) -> Any:
        """A call of which torch must see something; NotImplemented, if it need not."""
        from kernelzoo import derivatives, torch_ops  # a tenth of a second's work at first, and few need it

        scalars, variant, out = rest
        dim = dim if plain_dim(dim) else plainer(dim, op.several_axes)
        return torch_ops.called(derivatives.Call(self, op, dim, keepdim, dict(scalars), variant), inputs, out)

    def _of_arrays(self, op: Operation, inputs: tuple[Any, ...], *rest: Any) -> Any:
        """A call on arrays of another library than torch."""
        called = self._arrays
        if called is None:
            from kernelzoo import arrays

            called = self._arrays = arrays.called
        return called(self, op, inputs, *rest)

    def _bound(
        self,
        op: Operation,
        inputs: tuple[Any, ...],
        dim: Dims,
        keepdim: bool,
        scalars: Mapping[str, Any] | tuple[()],
        variant: str,
        out: Any,
    ) -> tuple[Launch | None, tuple[Any, ...]]:
        """Check, bind and launch a call: the launch, and the outputs."""
        bind = self._binds.get((op.name, variant)) if isinstance(variant, str) else None
        if bind is None:
            alone = self.variants(op.name)
            if variant != "auto" or len(alone) != 1:
                raise UnknownNameError(f"{self.name} {op.name} variant", variant, alone)
            (variant,) = alone
            bind = self._binds[op.name, variant]
        args = op.arguments(inputs, dim, keepdim, scalars)
        self._check(*args.inputs)
        if out is None:
            outs = op.allocate(args)
        else:
            outs = tuple(out) if isinstance(out, list | tuple) and len(op.outputs) > 1 else (out,)
            op.check_outs(outs, args)
        launch = None
        if any(tensor.numel() for tensor in outs):
            with on_device_of(args.x):
                launch = op.launch(partial(registry.launch_of, f"{self.name}/{op.name}/{variant}", bind), args, outs)
                launch()
        if out is not None:
            self._wrote(outs)
        return launch, outs


@unscripted
def get(name: str) -> Backend:
    """The backend of that name, loaded on first use and kept. Safe from several threads.

    Raises UnknownNameError, or BackendUnavailableError with the reason and the remedy if it can't run here.

    >>> import kernelzoo
    >>> kernelzoo.get("torch").name
    'torch'
    """
    backend = _backends.get(name)
    if backend is None:
        _load(name)
        backend = _kept(_backends, name, getattr(_loaded, name))
    return backend


def _kept(table: dict[Any, Backend], key: Any, backend: Backend) -> Backend:
    """Keep a backend in a table, unless torch.compile traces this: its code is for the table as it was."""
    import torch

    if not torch.compiler.is_dynamo_compiling():
        table[key] = backend
    return backend


@constant
def _load(name: str) -> bool:
    """Put a backend into ``_loaded``: True, since an object is no constant to torch.compile."""
    if name not in vars(_loaded):
        with uninterrupted():  # what stops half-way through the imports of a language can't be imported again
            language = registry.language(name)
        vars(_loaded).setdefault(name, Backend(language))
    return True


@unscripted
def best(op: str, x: torch.Tensor) -> Backend:
    """The best backend for an operation on the device of a tensor or an array that can run here.

    Raises InputTypeError, DeviceError.
    """
    try:
        device = "cuda" if x.is_cuda is True else "cpu" if x.is_cpu is True else ""  # quicker than its text
    except AttributeError:
        device = ""
    if not device:
        from kernelzoo import arrays, torch_ops

        device = arrays.device_type(x)
        if not device:  # before torch.fx runs what it traces here
            return torch_ops.Recorded(function)  # type: ignore[return-value]
    backend = _best.get((op, device))
    return _kept(_best, (op, device), get(_best_name(op, device))) if backend is None else backend


@constant
def _best_name(op: str, device: str) -> str:
    if device == "cuda" and device not in get(registry.BASELINE).devices:  # it is a fake tensor's
        device = "meta"
    refusals = []
    for name in registry.preferred(op, device):
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
"""The public function of each operation, by name: its call by the best backend."""


def _declared(op: Operation) -> None:
    """Give backends the method of an operation, and make its function. Raises RegistrationError for a name that is
    taken."""
    taken = vars(Backend).get(op.name)
    if taken is not None and not isinstance(taken, Undeclared) and op.name not in functions:
        raise RegistrationError(f"an operation can't be called {op.name!r}, as a backend has an attribute of that name")
    setattr(Backend, op.name, method_of(op))
    functions[op.name] = function_of(op, best)


def function(name: str) -> Callable[..., Any]:
    """The public function of an operation; see :data:`functions`. Raises KeyError."""
    operations.OPERATIONS[name]
    return functions[name]


_backends: dict[str, Backend] = {}
_loaded = SimpleNamespace()
"""The same by attribute, which torch.compile looks up when it is asked for."""
_best: dict[tuple[str, str], Backend] = {}


def _forget(name: str) -> None:
    """Forget the launches of a replaced implementation."""
    _best.clear()
    backend = _backends.get(name)
    if backend is not None:
        backend._launches.forget()


registry.on_change.append(_forget)
lookup.append(lambda name: _backends.get(name) or (_load(name) and getattr(_loaded, name)))  # torch.compile may trace
for _name in operations.BUILT_IN:
    setattr(Backend, _name, Undeclared(_name))
for _op in list(operations.declared.values()):
    _declared(_op)
operations.on_declared.append(_declared)


_Allocate: TypeAlias = "Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]"
