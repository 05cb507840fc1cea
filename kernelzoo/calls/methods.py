"""The method and the public function of an operation, with signature and docstring from its class."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kernelzoo.errors import AxisError, InputTypeError
from kernelzoo.operations import BUILT_IN, OPERATIONS, Dims, Operation
from kernelzoo.operations.arguments import convert_scalar
from kernelzoo.registry import BATCH_INVARIANT

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_NEEDED = inspect.Parameter.empty


class _DimSentinel:
    def __repr__(self) -> str:
        return "dim"


_DIM = _DimSentinel()
"""The default of ``axis``. It can't be None, because that means all axes in NumPy."""


_NOT_PASSED: Any = object()
"""The internal default of ``keepdim`` and ``dtype``. It tells whether the caller passed a value."""

_NO_SCALARS: dict[str, Any] = {}

lookup: list[Callable[[str], Any]] = []
"""One function that returns a backend by name. ``calls.backend`` puts it here, since it imports this module."""


def takes_only_x_and_dim(op: Operation) -> bool:
    """Whether a call takes just a tensor ``x`` and a dim. Such calls have a fast path."""
    return op.by_rows and list(op.inputs) == ["x"] and not op.scalars and len(op.outputs) == 1


def signature_of(op: Operation) -> inspect.Signature:
    """Return an operation's signature: inputs, ``dim``, ``keepdim``.
    By keyword only: ``axis``, ``keepdims``, scalars, ``dtype``, ``batch_invariant``, ``variant``, ``out``."""
    placed = partial(inspect.Parameter, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    parameters = [placed(name) for name in op.inputs]
    parameters += [placed("dim", default=-1)] * op.by_rows + [placed("keepdim", default=False)] * op.reduces
    parameters += [named("axis", default=_DIM)] * op.by_rows + [named("keepdims", default=None)] * op.reduces
    parameters += [named(name, default=scalar.default) for name, scalar in op.scalars.items()]
    parameters += [named("dtype", default=None)] * op.converts
    how = named("batch_invariant", default=False), named("variant", default="auto"), named("out", default=None)
    return inspect.Signature([*parameters, *how])


def mark_constant(function: FunctionT) -> FunctionT:
    """Do what ``torch.compiler.assume_constant_result`` does, without the compiler's import, which takes a second."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def unscripted(function: FunctionT) -> FunctionT:
    """Make torch.jit.script raise an error for a function, which says what to call instead."""
    function.__script_unsupported = (  # type: ignore[attr-defined]
        f"kernelzoo's {function.__qualname__} can't be scripted; call torch.ops.kernelzoo there, which import "
        'kernelzoo.nn defines, as in torch.ops.kernelzoo.softmax(x, dim, "torch", "auto"), or use torch.compile'
    )
    return function


def _axis(dim: Any, axis: Any) -> Any:
    """Return ``axis``. Raises AxisError if the call passes ``dim`` too."""
    if type(dim) is not int or dim != -1:
        raise AxisError(f"axis is another name of dim; got both, dim={dim!r} and axis={axis!r}")
    return axis


def _merge_keepdim(keepdim: Any, keepdims: Any) -> Any:
    """Return the value of ``keepdim`` or ``keepdims``. Raises InputTypeError if both are passed and differ."""
    if keepdims is None:
        return False if keepdim is _NOT_PASSED else keepdim
    if not isinstance(keepdims, bool):
        raise InputTypeError(f"keepdims is a bool, got {keepdims!r}")
    if keepdim is not _NOT_PASSED and keepdim is not keepdims:
        raise InputTypeError(f"keepdims is another name of keepdim; got {keepdim=} and {keepdims=}; pass one of them")
    return keepdims


def _convert_input(op: Operation, x: Any, dtype: Any) -> Any:
    from kernelzoo.calls import arrays  # it imports torch

    if not op.converts:
        signature_of(op).bind(x, dtype=dtype)  # it raises the right error
    return x if dtype is None else arrays.convert_dtype(x, dtype)


def method_of(op: Operation) -> Callable[..., Any]:
    """Make the backend's method that calls an operation."""
    call_operation: Callable[..., Any]
    if takes_only_x_and_dim(op) and not op.reduces:

        def call_operation(
            self: Any,
            x: Any,
            dim: Dims = -1,
            *,
            axis: Any = _DIM,
            dtype: Any = _NOT_PASSED,
            batch_invariant: bool = False,
            variant: str = "auto",
            out: Any = None,
        ) -> Any:
            x = x if dtype is _NOT_PASSED else _convert_input(op, x, dtype)
            variant = f"{variant}{BATCH_INVARIANT}" if batch_invariant else variant
            return self._run(op, (x,), dim if axis is _DIM else _axis(dim, axis), False, _NO_SCALARS, variant, out)

    elif takes_only_x_and_dim(op) and not op.converts:

        def call_operation(
            self: Any,
            x: Any,
            dim: Dims = -1,
            keepdim: bool = _NOT_PASSED,
            *,
            axis: Any = _DIM,
            keepdims: bool | None = None,
            batch_invariant: bool = False,
            variant: str = "auto",
            out: Any = None,
        ) -> Any:
            variant = f"{variant}{BATCH_INVARIANT}" if batch_invariant else variant
            if keepdims is not None or keepdim is _NOT_PASSED:
                keepdim = keepdims is not None and _merge_keepdim(keepdim, keepdims)
            return self._run(op, (x,), dim if axis is _DIM else _axis(dim, axis), keepdim, _NO_SCALARS, variant, out)

    else:
        signature, names = signature_of(op), tuple(op.inputs)
        scalars = tuple((name, type(scalar.default)) for name, scalar in op.scalars.items())
        parameters = signature.parameters
        placed = tuple(p.name for p in parameters.values() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
        defaults = {p.name: p.default for p in parameters.values() if p.default is not _NEEDED}
        if op.reduces:
            defaults["keepdim"] = _NOT_PASSED
        known = dict.fromkeys(parameters)

        def call_operation(self: Any, *args: Any, **named: Any) -> Any:
            said = {**defaults, **dict(zip(placed, args, strict=False)), **named}
            wrong = len(args) > len(placed) or len(said) != len(known)
            for name in named:
                wrong = wrong or name not in known or name in placed[: len(args)]
            if wrong:
                signature.bind(*args, **named)  # it raises the right error, and is slower than a call
            dim, axis = said.get("dim", -1), said.get("axis", _DIM)
            inputs = [said[name] for name in names]
            if said.get("dtype") is not None:
                inputs[0] = _convert_input(op, inputs[0], said["dtype"])
            return self._run(
                op,
                tuple(inputs),
                dim if axis is _DIM else _axis(dim, axis),
                _merge_keepdim(said.get("keepdim", False), said.get("keepdims")),
                {
                    name: value if type(value := said[name]) is float is kind else convert_scalar(name, value, kind)
                    for name, kind in scalars
                },
                f"{said['variant']}{BATCH_INVARIANT}" if said["batch_invariant"] else said["variant"],
                said["out"],
            )

    return _set_signature(call_operation, op, method=True)


class LazyMethod:
    """A method whose first access imports its operation. ``__getattr__`` would slow down every attribute."""

    def __init__(self, op: str) -> None:
        self.op = op

    def __get__(self, backend: Any, owner: Any) -> Any:
        OPERATIONS[self.op]
        return getattr(owner if backend is None else backend, self.op)


def function_of(op: Operation, best: Callable[[str, Any], Any]) -> Callable[..., Any]:
    """Make the package's function for an operation, which calls the best backend."""
    name = op.name
    call_operation: Callable[..., Any]
    if takes_only_x_and_dim(op) and not op.reduces:

        def call_operation(x: Any, dim: Dims = -1, **named: Any) -> Any:
            return getattr(best(name, x), name)(x, dim, **named)

    else:
        first = next(iter(op.inputs))

        def call_operation(*args: Any, **named: Any) -> Any:
            return getattr(best(name, args[0] if args else named.get(first)), name)(*args, **named)

    _set_signature(call_operation, op, method=False)
    return call_operation if name in BUILT_IN else UserOperationFunction(call_operation, op)


class UserOperationFunction:
    """The public function of an operation from a user's module. Unpickling imports that module first."""

    def __init__(self, call: Callable[..., Any], op: Operation) -> None:
        self._call, self._declared_in = call, op.module
        self.__name__, self.__qualname__ = call.__name__, call.__qualname__
        self.__module__, self.__doc__ = call.__module__, call.__doc__
        self.__signature__ = inspect.signature(call)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._call(*args, **named)

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__name__}>"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return unpickled_function, (self._declared_in, self.__name__)


def unpickled_function(module: str, name: str) -> Any:
    """Import a user's module, and return the public function of its operation."""
    importlib.import_module(module)
    return getattr(importlib.import_module(_PACKAGE), name)


def pickle_args(name: str, variants: Mapping[tuple[str, str], Any]) -> tuple[Callable[..., Any], tuple[str, list[str]]]:
    """Return what to pickle of a backend: its name, and the user modules that declare or register its operations."""
    modules = {bind.__module__ for bind in variants.values()} | {OPERATIONS[op].module for op, _ in variants}
    return unpickled_backend, (name, sorted(module for module in modules if not module.startswith(f"{_PACKAGE}.")))


def unpickled_backend(name: str, modules: Sequence[str]) -> Any:
    """Import those of the modules that can be imported, and return the backend called ``name``."""
    for module in modules:
        with suppress(ImportError):
            importlib.import_module(module)
    return importlib.import_module(f"{_PACKAGE}.calls.backend").get(name)


_PACKAGE = __name__.partition(".")[0]


def _set_signature(function: Any, op: Operation, *, method: bool) -> Callable[..., Any]:
    own = signature_of(op)
    if method:
        self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        own = own.replace(parameters=[self, *own.parameters.values()])
    function.__name__, function.__doc__, function.__signature__ = op.name, op.doc, own
    # Pickle looks the function up by these names.
    function.__module__ = f"{_PACKAGE}.calls.backend" if method else _PACKAGE
    function.__qualname__ = f"Backend.{op.name}" if method else op.name
    unscripted(function)
    found: Callable[..., Any] = function
    return found
