"""Who can do what: the table of backends, the implementations each one holds, and the way of one call.

Listing reads source, not modules: the ``@register`` decorators of a backend are found in its files by parsing them, so
that ``backends()`` and ``implementations()`` answer without importing, or owning, the language.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kernelzoo import ops, tables
from kernelzoo.errors import BackendUnavailableError, DeviceError, RegistrationError, UnknownNameError

if TYPE_CHECKING:
    import torch

Launch = Callable[[], None]
"""What binding returns: runs the bound problem on the current stream, as often as it is called.

It may run on another stream than it was bound on, and from any thread, but not twice at once: both would write the same
``out``. A CUDA graph that captured it holds the addresses of its memory and not the memory: keep the launch as long as
the graph.
"""

Bind = Callable[["torch.Tensor", "torch.Tensor"], Launch]
"""An implementation: takes the canonical ``(x, out)`` of its operation (see :mod:`kernelzoo.ops`), returns a launch."""


class Movable:
    """A launch whose only memory is x and out, and which can run on other addresses of the same layout.

    ``at(x, out)`` takes the addresses of the canonical tensors. A backend keeps such launches by layout, and spares a
    repeated call all the work of binding; one with a workspace must not be kept, since two streams would share it.
    """

    __slots__ = ("_out", "_x", "at")

    def __init__(self, at: Callable[[int, int], None], x: torch.Tensor, out: torch.Tensor) -> None:
        self.at, self._x, self._out = at, x, out

    def __call__(self) -> None:
        self.at(self._x.data_ptr(), self._out.data_ptr())


BindT = TypeVar("BindT", bound=Bind)

ENTRY_POINTS = "kernelzoo.backends"
"""Entry-point group of backends in other packages: name = the backend, value = a package laid out like ours."""

# A backend is one line here and one folder: ``probe()`` in its __init__, and one module per operation.
BUILT_IN = {
    "cpu": "kernelzoo.kernels.cpu",
    "cupy": "kernelzoo.kernels.cupy",
    "numba": "kernelzoo.kernels.numba",
    "torch": "kernelzoo.kernels.torch",
    "triton": "kernelzoo.kernels.triton",
}

BASELINE = "torch"
"""The backend that the others are measured by, and that runs wherever torch does: what a torch user has without us."""

BASELINE_VARIANT = "eager"

# The backends that kernelzoo.softmax and kernelzoo.min try, best first, by the input's device type. The order on CUDA
# is that of the measured results in bench/results; torch, which runs anywhere, comes last.
_PREFERENCE = {"cuda": ("triton", "cupy", "numba", "torch"), "cpu": ("cpu", "torch")}


@dataclass(frozen=True)
class Implementation:
    """One algorithm of one operation in one language, named ``backend/op/variant`` everywhere."""

    backend: str
    op: str
    variant: str
    summary: str
    """The first line of its docstring."""

    @property
    def id(self) -> str:
        return f"{self.backend}/{self.op}/{self.variant}"

    @property
    def operation(self) -> ops.Operation:
        return ops.OPERATIONS[self.op]

    def bind(self, x: torch.Tensor, out: torch.Tensor) -> Launch:
        """Bind a canonical ``(x, out)``; load the backend first if need be.

        Raises BackendUnavailableError if the backend can't run here, UnsupportedProblemError if this variant can't
        take the problem.
        """
        return get(self.backend)._binds[self.op, self.variant](x, out)

    def form(self, x: torch.Tensor, out: torch.Tensor) -> str:
        """The id of the form that :meth:`bind` takes for a canonical ``(x, out)``."""
        return self.id

    def launch(self, x: torch.Tensor, *, dim: ops.Dims = -1, out: torch.Tensor) -> Launch:
        """Bind tensors of any legal shape and layout, as :meth:`Backend.softmax` does, and return the launch.

        This is what benchmarks time: the launch holds every copy, fill and workspace pass that the variant needs.
        """
        get(self.backend)._check_device(x)
        dims = self.operation.check(x, dim)
        self.operation.check_out(out, x, dims, keepdim=out.ndim == x.ndim)
        with ops.on_device_of(x):
            return ops.on_its_device(self.operation.launch(self.bind, x, dims, out), x)


class Backend:
    """The operations of the zoo in one kernel language; ``kernelzoo.get(name)`` makes it.

    Every method takes a dense torch tensor of any rank and any strides on one of :attr:`devices`, never changes it,
    runs on the caller's current stream without synchronising, and returns a contiguous tensor (or ``out``).
    ``variant`` names the algorithm; ``"auto"`` picks one by the problem and takes every legal input.

    Errors: UnknownNameError (variant), InputTypeError, AxisError, DeviceError, GradientError, OutputError,
    UnsupportedProblemError (a named variant only).
    """

    def __init__(
        self, name: str, devices: tuple[str, ...], binds: dict[tuple[str, str], Bind], emulator: str = ""
    ) -> None:
        self.name = name
        self.devices = devices
        """Device types that this backend takes on this machine, such as ``("cuda",)``."""
        self.emulator = emulator
        """What runs the kernels in place of a device (an interpreter, a simulator), or "". Never to be timed."""
        self._binds = binds
        self._kept: dict[tuple[object, ...], _Kept] = {}
        self._last: dict[object, _Kept] = {}
        """Of those, for each operation, the one of the call before."""
        import torch  # for the short way of a repeated call, which has no time to import anything

        self._tensor = torch.Tensor
        self._allocate: _Allocate = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", _empty_strided)
        self._chosen = tables.chosen.get
        self._current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
        self._device_count = torch.cuda.device_count
        self._is_compiling = torch.compiler.is_dynamo_compiling  # and not while exporting, which runs what is here

        def run(*arguments: Any) -> torch.Tensor:
            return self._run(*arguments)

        # torch.compiler.disable, which imports torch's compiler, a second's work, only when it is at work already.
        self._uncompiled: Callable[..., torch.Tensor] = torch._compile._disable_dynamo(run)

    def __repr__(self) -> str:
        return f"<kernelzoo backend {self.name!r} on {', '.join(self.devices)}>"

    def variants(self, op: str) -> tuple[str, ...]:
        """Names of the variants of one operation, sorted. Raises UnknownNameError."""
        _known_op(op)
        return tuple(sorted(variant for known, variant in list(self._binds) if known == op))

    def softmax(
        self, x: torch.Tensor, dim: int = -1, *, variant: str = "auto", out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Softmax of ``x`` over one axis, as ``torch.softmax``: ``exp(x - max) / sum(exp(x - max))``.

        x: float16, bfloat16, float32 or float64, any rank (0-d as torch does it). Half precision is accumulated in
        float32. Returns a contiguous tensor of x's shape and dtype. A NaN or +inf in a row, or a row of -inf alone,
        makes that whole row NaN.
        """
        return self._run(ops.SOFTMAX, x, dim, False, variant, out)

    def min(
        self,
        x: torch.Tensor,
        dim: ops.Dims = -1,
        keepdim: bool = False,
        *,
        variant: str = "auto",
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Minimum of ``x`` along one axis or a tuple of axes (an empty tuple: all of them), as ``torch.amin``.

        x: float16, bfloat16, float32, float64, bool, uint8 or int8 to int64, any rank. Returns the values only, with
        x's dtype. A NaN in the reduced axis gives NaN. Raises EmptyReductionError if the reduced axis is empty.
        """
        return self._run(ops.MIN, x, dim, keepdim, variant, out)

    def _run(
        self,
        op: ops.Operation,
        x: torch.Tensor,
        dim: ops.Dims,
        keepdim: bool,
        variant: str,
        out: torch.Tensor | None,
    ) -> torch.Tensor:
        if self._is_compiling():  # torch.compile breaks its graph here: what binds and compiles kernels can't be traced
            return self._uncompiled(op, x, dim, keepdim, variant, out)
        # The short way of a repeated call. What another launch table than that in force was chosen for is not kept.
        key: tuple[object, ...] | None = None
        address = 0  # also that of a tensor without memory
        kept = self._last.get(op)
        if (
            kept is not None
            and variant is kept[0]
            and dim is kept[1]
            and keepdim is kept[2]
            and out is None
            and kept[3](x)
            and not self._chosen()
        ):
            address = x.data_ptr()
            if address % 16 != kept[4]:
                address = 0
        if not address and out is None and type(dim) is int and type(variant) is str and not self._chosen():
            key, address, kept = self._find(op, x, dim, keepdim, variant)
        if address and kept is not None:
            _, _, _, _, _, device, alone, at, shape, strides, dtype = kept
            if alone or device == self._current_device():
                out = self._allocate(shape, strides, dtype)
                at(address, out.data_ptr())
                return out
        bind = self._binds.get((op.name, variant)) if isinstance(variant, str) else None
        if bind is None:
            raise UnknownNameError(f"{self.name} {op.name} variant", variant, self.variants(op.name))
        dims = op.check(x, dim)
        self._check_device(x)
        if out is None:
            out = op.allocate(x, dims, keepdim)
        else:
            op.check_out(out, x, dims, keepdim)
        if out.numel():
            with ops.on_device_of(x):
                launch = op.launch(bind, x, dims, out)
                launch()
            if key is not None and isinstance(launch, Movable):
                self._keep(key, x, launch, out)
        return out

    def _find(
        self, op: ops.Operation, x: torch.Tensor, dim: int, keepdim: bool, variant: str
    ) -> tuple[tuple[object, ...] | None, int, _Kept | None]:
        """A key of everything that a launch depends on but the addresses, x's address, and what is kept for the key;
        no key for what is not a plain tensor on a GPU, or needs a check that a key can't stand for."""
        nothing = None, 0, None
        if type(x) is not self._tensor or (device := x.get_device()) < 0:  # negative on the host
            return nothing
        if x.requires_grad or x.is_neg():
            return nothing
        try:
            address = x.data_ptr()
        except RuntimeError:  # a sparse tensor has none
            return nothing
        if not address:
            return nothing
        key = (op, variant, dim, keepdim, x.dtype, x.shape, x.stride(), address % 16, device)
        kept = self._kept.get(key)
        if kept is not None:
            if kept is self._last.get(op):  # whose test was made in another of torch's modes, or for an equal name
                kept = self._kept[key] = (variant, dim, keepdim, _alike(x), *kept[4:])
            self._last[op] = kept
        return key, address, kept

    def _keep(self, key: tuple[object, ...], x: torch.Tensor, launch: Movable, out: torch.Tensor) -> None:
        """Keep a launch for its key, and for the next call if that is alike."""
        if len(self._kept) >= _KEPT:
            self._forget()
        op, variant, dim, keepdim, *_, offset, device = key
        result = tuple(out.shape), out.stride(), out.dtype
        kept: Any = (variant, dim, keepdim, _alike(x), offset, device, self._device_count() == 1, launch.at, *result)
        self._kept[key] = self._last[op] = kept

    def _forget(self) -> None:
        """Keep no launch."""
        self._kept.clear()
        self._last.clear()

    def _check_device(self, x: torch.Tensor) -> None:
        if x.device.type not in self.devices:
            raise DeviceError(
                f"backend {self.name!r} takes tensors on {' or '.join(self.devices)} here, got one on {x.device}; "
                f"move it with x.to({self.devices[0]!r}), or use another backend: {', '.join(backends())}"
            )
        if x.is_cuda and _forked:
            import torch

            if torch.cuda._is_in_bad_fork():
                raise BackendUnavailableError(
                    self.name,
                    "this process was forked from one that had used CUDA, which a fork can't go on with",
                    "start it with multiprocessing's method 'spawn' or 'forkserver', or fork before the first use",
                )


def register(backend: str, op: str, variant: str) -> Callable[[BindT], BindT]:
    """Register the decorated function as ``backend/op/variant`` and hand it back unchanged.

    The function takes the canonical ``(x, out)`` of its operation and returns a launch. It checks what it, in
    particular, can't take, and raises UnsupportedProblemError for that. A backend name not seen before makes a new
    backend, which takes tensors on the CPU and on any GPU.

    Raises RegistrationError if the id is taken by another function, UnknownNameError for an unknown operation.
    """
    _known_op(op)
    for part in (backend, variant):
        if not (isinstance(part, str) and part.isidentifier()):
            raise RegistrationError(f"a backend or variant is a Python identifier, got {part!r}")

    def decorate(bind: BindT) -> BindT:
        with _lock:
            known = _registered.get((backend, op, variant))
            if known is not None and (known.__module__, known.__qualname__) != (bind.__module__, bind.__qualname__):
                raise RegistrationError(
                    f"{backend}/{op}/{variant} is taken by {known.__module__}.{known.__qualname__}; choose another name"
                )
            _registered[backend, op, variant] = bind
            loaded = _loaded.get(backend)
            if loaded is not None:
                loaded._binds[op, variant] = bind
                loaded._forget()  # launches of what is replaced
        return bind

    return decorate


def backends() -> tuple[str, ...]:
    """Names of all known backends, sorted, whether or not they can run here. Imports no language."""
    return tuple(sorted({*_packages(), *(backend for backend, _, _ in list(_registered))}))


def implementations(backend: str | None = None, op: str | None = None) -> tuple[Implementation, ...]:
    """All implementations, or those of one backend or operation, sorted by id. Imports no language.

    Raises UnknownNameError for an unknown backend or operation.
    """
    if backend is not None and backend not in backends():
        raise UnknownNameError("backend", backend, backends())
    if op is not None:
        _known_op(op)
    found = {i.id: i for name, package in _packages().items() for i in _scan(name, package)}
    for (name, operation, variant), bind in list(_registered.items()):
        implementation = Implementation(name, operation, variant, _first_line(bind.__doc__))
        found.setdefault(implementation.id, implementation)
    return tuple(
        found[id]
        for id in sorted(found)
        if found[id].backend == (backend or found[id].backend) and found[id].op == (op or found[id].op)
    )


def implementation(id: str) -> Implementation:
    """The implementation of one id, ``backend/op/variant``. Raises UnknownNameError."""
    known = {i.id: i for i in implementations()}
    if id not in known:
        raise UnknownNameError("implementation", id, known)
    return known[id]


def baseline(op: str) -> str:
    """The id of the implementation of an operation that the others are measured by."""
    return f"{BASELINE}/{op}/{BASELINE_VARIANT}"


def get(name: str) -> Backend:
    """The backend of that name, loaded on first use and kept.

    Raises UnknownNameError, or BackendUnavailableError with the reason and the remedy if it can't run here. Safe from
    several threads.
    """
    backend = _loaded.get(name)
    return backend if backend is not None else _load(name)


def softmax(x: torch.Tensor, dim: int = -1, *, variant: str = "auto", out: torch.Tensor | None = None) -> torch.Tensor:
    """Softmax over one axis by the best backend that can run here for x's device; see :meth:`Backend.softmax`."""
    return _best(x).softmax(x, dim, variant=variant, out=out)


def min(
    x: torch.Tensor,
    dim: ops.Dims = -1,
    keepdim: bool = False,
    *,
    variant: str = "auto",
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Minimum along axes by the best backend that can run here for x's device; see :meth:`Backend.min`."""
    return _best(x).min(x, dim, keepdim, variant=variant, out=out)


def load_module(path: str | Path) -> None:
    """Run a Python file of anyone's that registers implementations; a second time, nothing.

    Raises UnknownNameError if there is no such file, and whatever the file itself raises.
    """
    file = Path(path).resolve()
    name = f"kernelzoo_module_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UnknownNameError("Python file", str(path), sorted(map(str, Path(path).parent.glob("*.py"))))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def require(backend: str, module: str, remedy: str) -> Any:
    """Import a module that a backend needs, for its ``probe``; BackendUnavailableError if that fails."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BackendUnavailableError(
            backend, f"the package {error.name or module!r} is not installed", remedy
        ) from error
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendUnavailableError(backend, f"importing {module} failed: {error}", remedy) from error


_Kept: TypeAlias = (
    "tuple[str, int, bool, Callable[[object], bool], int, int, bool, Callable[[int, int], None],"
    " tuple[int, ...], tuple[int, ...], torch.dtype]"
)
"""The variant, axis and keepdim of a call, and whether an x is alike; its address modulo 16, its device, and whether
there is no other; a launch on any addresses; the output's shape, strides and dtype."""

_Allocate: TypeAlias = "Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]"


def _empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Memory on the current GPU, for a torch without the short way to it that its own compiler's code takes."""
    import torch

    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


def _alike(x: torch.Tensor) -> Callable[[object], bool]:
    """A test for plain tensors of x's dtype, device, shape and strides, in the mode that torch is in: what its own
    compiler guards compiled code with, a fourth of the time of a key. It fails for all in a torch that has it not."""
    import torch

    try:
        guards: Any = torch._C._dynamo.guards.TensorGuards
        made = guards(x, dynamic_dims_sizes=[list(x.shape)], dynamic_dims_strides=[list(x.stride())])
        return made.check  # type: ignore[no-any-return]  # torch's C++ has no annotations
    except (AttributeError, TypeError):
        return lambda x: False


_KEPT = 4096
"""Layouts that a backend keeps a launch for; a program that goes through more begins anew."""

# Guards the tables below. Never held while a module is imported, which may wait for a thread that waits here.
_lock = threading.RLock()
_loading: dict[str, threading.RLock] = {}
"""By backend, what lets one thread at a time import it."""

_forked = False
_registered: dict[tuple[str, str, str], Bind] = {}
_loaded: dict[str, Backend] = {}
_best_by_device: dict[str, Backend] = {}


def _known_op(op: str) -> None:
    if op not in ops.OPERATIONS:
        raise UnknownNameError("operation", op, ops.OPERATIONS)


@cache
def announced() -> tuple[tuple[str, str, str], ...]:
    """Name, package and distribution of every backend that another distribution announces. Nothing of it is run."""
    import importlib.metadata  # slow to import, and only this needs it

    return tuple(
        (point.name, point.value, f"{point.dist.name} {point.dist.version}" if point.dist else "unknown")
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS)
        if point.name not in BUILT_IN
    )


@cache
def _packages() -> dict[str, str]:
    """Import path of every backend's package, by name; ours win over an entry point of the same name."""
    return {**{name: package for name, package, _ in announced()}, **BUILT_IN}


def _load(name: str) -> Backend:
    with _lock:
        loading = _loading.setdefault(name, threading.RLock())
    with loading:
        if name in _loaded:
            return _loaded[name]
        package = _packages().get(name)
        import torch

        devices: tuple[str, ...] = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
        emulator = ""
        if package is not None:
            module = importlib.import_module(package)
            devices = module.probe()
            emulator = module.emulator() if hasattr(module, "emulator") else ""
            for op in ops.OPERATIONS:
                if importlib.util.find_spec(f"{package}.{op}") is not None:
                    require(name, f"{package}.{op}", "reinstall the backend's package")
        elif name not in backends():
            raise UnknownNameError("backend", name, backends())
        with _lock:
            binds = {(op, variant): bind for (backend, op, variant), bind in _registered.items() if backend == name}
            _loaded[name] = Backend(name, devices, binds, emulator)
        return _loaded[name]


def _after_fork() -> None:
    """In a forked child: locks that another thread of the parent held are free, and no launch of its device is kept."""
    global _lock, _forked
    _lock, _forked = threading.RLock(), True
    _loading.clear()
    for backend in _loaded.values():
        backend._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _best(x: torch.Tensor) -> Backend:
    try:
        return _best_by_device[x.device.type]  # whose methods check x as well
    except (AttributeError, KeyError):
        ops.check_tensor(x)
    device = x.device.type
    if device not in _best_by_device:
        refusals = []
        for name in _PREFERENCE.get(device, ("torch",)):
            try:
                backend = get(name)
            except BackendUnavailableError as error:
                refusals.append(error)
                continue
            if device in backend.devices:
                _best_by_device[device] = backend
                break
        else:
            raise DeviceError(
                f"no backend can take a tensor on {x.device}: "
                + ("; ".join(map(str, refusals)) or "none is written for it")
            )
    return _best_by_device[device]


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


@cache
def _scan(backend: str, package: str) -> tuple[Implementation, ...]:
    """The implementations that a package's modules register, read off their source."""
    spec = importlib.util.find_spec(package)
    folders: Sequence[str] = spec.submodule_search_locations or () if spec is not None else ()
    return tuple(
        found
        for folder in folders
        for op in ops.OPERATIONS
        if (path := Path(folder, f"{op}.py")).is_file()
        for found in _decorated(ast.parse(path.read_text(encoding="utf-8")))
        if found.backend == backend
    )


def _decorated(tree: ast.Module) -> Iterator[Implementation]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for call in node.decorator_list:
                if (
                    isinstance(call, ast.Call)
                    and "register" in (getattr(call.func, "id", None), getattr(call.func, "attr", None))
                    and len(call.args) == 3
                ):
                    backend, op, variant = (ast.literal_eval(argument) for argument in call.args)
                    yield Implementation(backend, op, variant, _first_line(ast.get_docstring(node)))
