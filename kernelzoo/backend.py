"""One call of a backend: checks, binds and launches it; and the fast path of a repeated call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelzoo import operations, registry, tables
from kernelzoo.device import on_device_of
from kernelzoo.errors import BackendUnavailableError, DeviceError, RegistrationError, UnknownNameError
from kernelzoo.interrupts import uninterrupted
from kernelzoo.launch import Launch, Movable, OnStreams, WithWorkspace
from kernelzoo.methods import alike, empty_strided, function_of, method_of, plain_dim
from kernelzoo.operations import Dims, Operation, check_tensor

if TYPE_CHECKING:
    import torch


class Backend:
    """The operations in one kernel language; ``kernelzoo.get(name)`` makes it.

    Every method takes a dense torch tensor of any rank and any strides on one of :attr:`devices`, never changes it,
    runs on the caller's current stream without synchronising, and returns a contiguous tensor (or ``out``).
    ``variant`` names the algorithm; ``"auto"`` chooses one for the problem and takes every legal input.

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
            if name not in vars(Backend):
                setattr(Backend, name, _Undeclared(name))
        self.name = language.name
        self.devices = language.devices
        """Device types that this backend takes on this machine, such as ``("cuda",)``."""
        self.emulator = language.emulator
        """What runs the kernels in place of a device (an interpreter, a simulator), or "". Never to be timed."""
        self._binds = language.binds
        self._check = language.check
        self._kept: dict[tuple[object, ...], _Kept] = {}
        self._workspaces = 0
        """Bytes of those of the launches that are kept."""
        self._kept_calls: dict[tuple[object, ...], tuple[Callable[..., None], _Outputs]] = {}
        """Those of operations on several tensors."""
        self._last: dict[object, _Kept] = {}
        """Of those, for each operation, the one of the call before."""
        import torch  # for the fast path of a repeated call, which has no time to import anything

        self._tensor, self._strided = torch.Tensor, torch.strided
        self._allocate: _Allocate = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", empty_strided)
        self._chosen = tables.chosen.get
        self._current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
        self._device_count = torch.cuda.device_count
        self._is_compiling = torch.compiler.is_dynamo_compiling  # and not while exporting, which runs what is here
        self._forward, self._modes = torch.autograd.forward_ad, torch.utils._python_dispatch

        def run(*arguments: Any) -> torch.Tensor:
            return self._run(*arguments)

        # torch.compiler.disable, which imports torch's compiler, a second's work, only when it is at work already.
        self._uncompiled: Callable[..., torch.Tensor] = torch._compile._disable_dynamo(run)
        self._uncompiled_call: Callable[..., Any] = torch._compile._disable_dynamo(lambda *given: self._call(*given))

    def __repr__(self) -> str:
        return f"<kernelzoo backend {self.name!r} on {', '.join(self.devices)}>"

    if TYPE_CHECKING:  # the methods of operations, which come with them

        def __getattr__(self, name: str) -> Any: ...

    def variants(self, op: str) -> tuple[str, ...]:
        """Names of the variants of one operation, sorted. Raises UnknownNameError."""
        registry.known_op(op)
        return tuple(sorted(variant for known, variant in list(self._binds) if known == op))

    def _run(
        self,
        op: Operation,
        x: torch.Tensor,
        dim: Dims,
        keepdim: bool,
        variant: str,
        out: torch.Tensor | None,
    ) -> torch.Tensor:
        if self._is_compiling():  # torch.compile breaks its graph here: what binds and compiles kernels can't be traced
            return self._uncompiled(op, x, dim, keepdim, variant, out)
        # The fast path of a repeated call. What another launch table than that in force was chosen for is not kept.
        # What torch would have to see of a call, for a tangent or a trace, is looked at in a first one.
        key: tuple[object, ...] | None = None
        if out is None and self._forward._current_level < 0 and not self._modes._is_in_torch_dispatch_mode:
            address = 0  # also that of a tensor without memory
            kept = self._last.get(op)
            if (
                kept is not None
                and variant is kept[0]
                and dim is kept[1]
                and keepdim is kept[2]
                and kept[3](x)
                and not self._chosen()
            ):
                address = x.data_ptr()
                if address % 16 != kept[4]:
                    address = 0
            if not address and plain_dim(dim) and type(variant) is str and not self._chosen():
                key, address, kept = self._find(op, x, dim, keepdim, variant)
            if address and kept is not None:
                _, _, _, _, _, device, alone, at, shape, strides, dtype = kept
                if alone or device == self._current_device():
                    result = self._allocate(shape, strides, dtype)
                    if at(address, result.data_ptr()) is None:
                        return result
                    if key is None:  # another stream than before, say
                        key, _, _ = self._find(op, x, dim, keepdim, variant)
        return self._first(op, x, dim, keepdim, variant, out, key)

    def _call(
        self,
        op: Operation,
        inputs: tuple[Any, ...],
        dim: Dims,
        keepdim: bool,
        scalars: Mapping[str, Any],
        variant: str,
        out: Any,
    ) -> Any:
        """A call of any operation: its outputs, one tensor or a tuple."""
        if self._is_compiling():
            return self._uncompiled_call(op, inputs, dim, keepdim, scalars, variant, out)
        key = None
        if out is None and isinstance(variant, str) and self._forward._current_level < 0 and not self._chosen():
            key = self._key(op, inputs, dim, keepdim, scalars, variant)
            kept = self._kept_calls.get(key) if key is not None else None
            if kept is not None:
                at, outputs = kept
                with on_device_of(inputs[0]):
                    outs = tuple(inputs[0].new_empty(shape, dtype=dtype) for shape, dtype in outputs)
                    at(*(tensor.data_ptr() for tensor in (*inputs, *outs)))
                return outs[0] if len(outs) == 1 else outs
        launch, outs = self._bound(op, inputs, dim, keepdim, scalars, variant, out)
        if key is not None and isinstance(launch, Movable) and not isinstance(launch, WithWorkspace):
            if len(self._kept_calls) >= _KEPT:
                self._kept_calls.clear()
            self._kept_calls[key] = launch.at, tuple((tuple(t.shape), t.dtype) for t in outs)
        return out if out is not None else outs[0] if len(outs) == 1 else outs

    def _key(
        self, op: Operation, inputs: tuple[Any, ...], dim: Dims, keepdim: bool, scalars: Mapping[str, Any], variant: str
    ) -> tuple[object, ...] | None:
        """Of all that a launch depends on except the addresses; None for what is not plain tensors on a GPU."""
        found: list[object] = [op, variant, dim, keepdim, *scalars.items()]
        try:
            for x in inputs:
                if type(x) is not self._tensor or x.get_device() < 0 or x.requires_grad or x.is_neg():
                    return None
                if x.layout is not self._strided or not x.data_ptr() or self._modes._is_in_torch_dispatch_mode:
                    return None
                found.append((x.dtype, x.shape, x.stride(), x.data_ptr() % 16, x.get_device()))
            hash(key := tuple(found))
        except (RuntimeError, TypeError):  # a tensor within torch.vmap; a scalar that is no number
            return None
        return key

    def _first(
        self,
        op: Operation,
        x: torch.Tensor,
        dim: Dims,
        keepdim: bool,
        variant: str,
        out: torch.Tensor | None,
        key: tuple[object, ...] | None,
    ) -> torch.Tensor:
        """A call without a kept launch, of an operation on one tensor: check, bind and launch, and keep the launch for
        its key if possible."""
        result: torch.Tensor
        launch, (result,) = self._bound(op, (x,), dim, keepdim, (), variant, out)
        if key is not None and isinstance(launch, Movable):
            self._keep(key, x, launch, result)
        return result

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
        return launch, outs

    def _find(
        self, op: Operation, x: torch.Tensor, dim: Dims, keepdim: bool, variant: str
    ) -> tuple[tuple[object, ...] | None, int, _Kept | None]:
        """A key of all that a launch depends on except the addresses; x's address; and what is kept for the key. No key
        for what is not a plain tensor on a GPU, or needs a check that the key can't replace."""
        nothing = None, 0, None
        if type(x) is not self._tensor or (device := x.get_device()) < 0:  # negative on the host
            return nothing
        if x.requires_grad or x.is_neg():
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
            if kept is self._last.get(op):  # whose test was made in another of torch's modes, or for an equal name
                kept = self._kept[key] = (variant, dim, keepdim, alike(x), *kept[4:])
            self._last[op] = kept
        return key, address, kept

    def _keep(self, key: tuple[object, ...], x: torch.Tensor, launch: Movable, out: torch.Tensor) -> None:
        """Keep a launch for its key, and as that of the last call."""
        if len(self._kept) >= _KEPT:
            self._forget()
        op, variant, dim, keepdim, *_, offset, device = key
        result = tuple(out.shape), out.stride(), out.dtype
        at: Callable[..., bool | None] = launch.at
        if isinstance(launch, WithWorkspace):
            own = sum(tensor.nbytes for tensor in launch.workspace)
            if self._workspaces + own > _WORKSPACES:
                self._forget()
            self._workspaces += own
            before = self._kept.get(key)
            at = before[7] if before is not None and isinstance(before[7], OnStreams) else OnStreams(x.get_device())
            at.keep(launch)
        kept: Any = (variant, dim, keepdim, alike(x), offset, device, self._device_count() == 1, at, *result)
        self._kept[key] = self._last[op] = kept

    def _forget(self) -> None:
        """Keep no launch."""
        self._workspaces = 0
        self._kept.clear()
        self._kept_calls.clear()
        self._last.clear()


class _Undeclared:
    """The method of an operation whose module was not imported yet. Looked up, it imports it, and the method takes its
    place. A ``__getattr__`` would do the same, and slow down every attribute in Python 3.11."""

    def __init__(self, op: str) -> None:
        self.op = op

    def __get__(self, backend: Backend | None, owner: type[Backend]) -> Any:
        operations.OPERATIONS[self.op]
        return getattr(owner if backend is None else backend, self.op)


def get(name: str) -> Backend:
    """The backend of that name, loaded on first use and kept. Safe from several threads.

    Raises UnknownNameError, or BackendUnavailableError with the reason and the remedy if it can't run here.

    >>> import kernelzoo
    >>> kernelzoo.get("torch").name
    'torch'
    """
    backend = _backends.get(name)
    if backend is None:
        import torch

        load = torch._compile._disable_dynamo(_load) if torch.compiler.is_dynamo_compiling() else _load
        backend = load(name)
    return backend


def _load(name: str) -> Backend:
    with uninterrupted():  # what stops half-way through the imports of a language can't be imported again
        language = registry.language(name)
    return _backends.setdefault(name, Backend(language))


def best(op: str, x: torch.Tensor) -> Backend:
    """The best backend for an operation on x's device that can run here.

    Raises InputTypeError, DeviceError.
    """
    try:
        return _best[op, x.device.type]  # whose methods check x as well
    except (AttributeError, KeyError):
        check_tensor(x)
    device = x.device.type
    if (op, device) not in _best:
        refusals = []
        for name in registry.preferred(op, device):
            try:
                backend = get(name)
            except BackendUnavailableError as error:
                refusals.append(error)
                continue
            if device in backend.devices and backend.variants(op):
                _best[op, device] = backend
                break
        else:
            raise DeviceError(
                f"no backend has a {op} that can take a tensor on {x.device}: "
                + ("; ".join(map(str, refusals)) or "none is written for it")
            )
    return _best[op, device]


functions: dict[str, Callable[..., Any]] = {}
"""The public function of each operation, by name: its call by the best backend."""


def _declared(op: Operation) -> None:
    """Give backends the method of an operation, and make its function. Raises RegistrationError for a name that is
    taken."""
    taken = vars(Backend).get(op.name)
    if taken is not None and not isinstance(taken, _Undeclared) and op.name not in functions:
        raise RegistrationError(f"an operation can't be called {op.name!r}, as a backend has an attribute of that name")
    setattr(Backend, op.name, method_of(op))
    functions[op.name] = function_of(op, best)


def function(name: str) -> Callable[..., Any]:
    """The public function of an operation; see :data:`functions`. Raises KeyError."""
    operations.OPERATIONS[name]
    return functions[name]


_backends: dict[str, Backend] = {}
_best: dict[tuple[str, str], Backend] = {}


def _forget(name: str) -> None:
    """Forget the launches of a replaced implementation."""
    _best.clear()
    backend = _backends.get(name)
    if backend is not None:
        backend._forget()


registry.on_change.append(_forget)
for _op in list(operations.declared.values()):
    _declared(_op)
operations.on_declared.append(_declared)


_Kept: TypeAlias = (
    "tuple[str, Dims, bool, Callable[[object], bool], int, int, bool, Callable[[int, int], bool | None],"
    " tuple[int, ...], tuple[int, ...], torch.dtype]"
)
"""The variant, axis and keepdim of a call, and whether an x is alike; its address modulo 16, its device, and whether
there is no other; a launch on any addresses; the output's shape, strides and dtype."""

_Outputs: TypeAlias = "tuple[tuple[tuple[int, ...], torch.dtype], ...]"
"""Shape and dtype of each output."""

_Allocate: TypeAlias = "Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]"


_KEPT = 4096
"""Layouts that a backend keeps a launch for. A program that uses more starts again with none."""

_WORKSPACES = 2**26
"""Bytes of workspaces that it keeps with them, of which one has some KB; likewise."""
