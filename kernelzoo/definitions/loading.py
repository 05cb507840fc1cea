"""Makes operations from definitions, with the reference and bounds from the definition's code."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kernelzoo import registry
from kernelzoo.definitions.files import DefinitionError, Json, identifier, read
from kernelzoo.launch import Launch
from kernelzoo.operations import FLOATS, INTEGERS, OPERATIONS, Input, Operation, Output, Scalar, operation
from kernelzoo.operations.declared import ROW

if TYPE_CHECKING:
    import torch

REFERENCE = "reference"
"""The backend, and its only variant, that runs a definition's reference unchanged."""

_TRIES, _STEP = 4, 2.0**-12
"""How often inputs are changed at random to learn the effect of rounding, and by what share."""


_LARGEST = 1e15
"""The largest finite input: most references square their inputs in float32."""


@dataclass(frozen=True)
class Loaded:
    """The data of a definition beside its operation."""

    names: tuple[str, ...]
    """Inputs in the argument order of the reference and of solutions, with scalars."""
    data: Json
    """The definition itself."""


loaded: dict[str, Loaded] = {}
"""Definitions by the name of the operation."""


def load_definition(path: str | Path) -> Operation:
    """Read a definition of flashinfer-bench, and declare its operation. **This runs the file's reference.**

    Axes become named axes. Inputs without a shape become scalars, which are 1 unless a workload says more. The right
    result is the reference in float64, whatever dtypes its code converts to. The allowed error is two roundings of the
    first input's dtype, plus float32 arithmetic by the longest axis. It applies to the result and to each input. Random
    changes of the inputs show their effect. The output's rounding comes on top. Finite values are at most 1e15, since
    most references square them in float32. The reference itself is registered as ``reference/NAME/reference`` for
    comparison.

    Raises DefinitionError for a file that is no definition, or one whose dtypes or integer inputs can't be drawn.
    """
    kind, data = read(path)
    if kind != "definition":
        raise DefinitionError(f"{path} is a {kind}, and no definition")
    name = identifier(data["name"])
    run = _function(data["reference"], f"{path}")
    tensors = {key: tensor for key, tensor in data["inputs"].items() if tensor["shape"] is not None}
    for key, tensor in {**tensors, **data["outputs"]}.items():
        if tensor["dtype"] not in FLOATS + INTEGERS:
            raise DefinitionError(f"{path}: {key} is of {tensor['dtype']}, which kernelzoo does not take")
        if key in tensors and tensor["dtype"] not in FLOATS:
            raise DefinitionError(
                f"{path}: a definition does not say which integers {key!r} may hold, so none is drawn"
            )
    if not tensors:
        raise DefinitionError(f"{path}: it takes no tensor")
    order = tuple(data["inputs"])
    known = loaded.get(name)
    loaded[name] = Loaded(order, data)
    longest = max((axis["value"] for axis in data["axes"].values() if axis["type"] == "const"), default=1)
    first = next(iter(tensors.values()))["dtype"]
    body = {
        "__doc__": data.get("description") or f"{data['name']}, as {Path(path).name} defines it.",
        **{key: Input(_axes(data, tensor), dtype=tensor["dtype"]) for key, tensor in tensors.items()},
        **{key: _scalar(tensor) for key, tensor in data["inputs"].items() if tensor["shape"] is None},
        **{key: Output(_axes(data, tensor), dtype=tensor["dtype"]) for key, tensor in data["outputs"].items()},
        "domain": dict.fromkeys(tensors, lambda info, n: min(info.max, _LARGEST)),
        "reference": _named(_reference(run, order), order),
        "error": _named(_error(run, order, tuple(tensors), longest, first), (*order, "unit", "ref")),
    }
    operation(dtypes=(first,), name=name)(type(name, (), body))
    if known is None:
        registry.register(REFERENCE, name, REFERENCE)(_plainly(name, run))
    return OPERATIONS[name]


def _axes(data: Json, tensor: Json) -> str:
    """The axes of a tensor. A constant one is its size, and names differ from those of operations by rows."""
    said = (data["axes"][axis] for axis in tensor["shape"])
    return " ".join(
        str(kind["value"]) if kind["type"] == "const" else f"{axis}_" if axis in ROW else axis
        for axis, kind in zip(tensor["shape"], said, strict=True)
    )


def _scalar(tensor: Json) -> Scalar:
    return Scalar(1.0, also=(0.375,)) if "float" in tensor["dtype"] else Scalar(1)


def _function(code: str, name: str) -> Callable[..., Any]:
    """The function ``run`` of a reference. Raises DefinitionError for any error of the code."""
    file = f"<reference of {name}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "reference"}
    try:
        exec(compile(code, file, "exec"), space)
    except Exception as error:
        raise DefinitionError(f"{name}: the reference fails: {type(error).__name__}: {error}") from error
    found: Callable[..., Any] = space["run"]
    return found


def _named(function: Callable[..., Any], names: tuple[str, ...]) -> FunctionType:
    """Give a function parameter names, as functions of an operation's class have."""
    assert isinstance(function, FunctionType)
    function.names = names  # type: ignore[attr-defined]
    return function


def _reference(run: Callable[..., Any], order: tuple[str, ...]) -> Callable[..., Any]:
    def reference(**given: Any) -> Any:
        return _in_float64(run, [given[name] for name in order])

    return reference


def _in_float64(run: Callable[..., Any], arguments: list[Any]) -> Any:
    """The reference's results in float64. Its conversions to narrower floats convert to float64."""
    import torch

    from kernelzoo.torch_private import dispatch_mode

    narrow = {torch.float32, torch.float16, torch.bfloat16}

    class Widening(dispatch_mode()):  # type: ignore[misc]  # torch's own base class
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def wide(value: Any) -> Any:
                return torch.float64 if isinstance(value, torch.dtype) and value in narrow else value

            return func(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})

    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), Widening():
            found = run(*arguments)
    finally:
        torch.set_default_dtype(usual)
    results = tuple(found) if isinstance(found, list | tuple) else (found,)
    wide = tuple(result.double() if result.is_floating_point() else result for result in results)
    return wide if len(wide) > 1 else wide[0]


def _error(
    run: Callable[..., Any], order: tuple[str, ...], tensors: tuple[str, ...], longest: int, dtype: str
) -> Callable[..., Any]:
    """A function for the allowed error, learnt from the reference. ``dtype``: that of the first input."""

    def error(unit: float, ref: Any, **given: Any) -> Any:
        import torch

        several = ref if isinstance(ref, tuple) else (ref,)
        least = [torch.zeros_like(result, dtype=torch.float64) for result in several]
        generator = torch.Generator(several[0].device).manual_seed(0)
        for _ in range(_TRIES):
            changed = _in_float64(run, [_changed(name, given, tensors, generator) for name in order])
            for result, other, most in zip(
                several, changed if isinstance(changed, tuple) else (changed,), least, strict=True
            ):
                most.copy_(torch.maximum(most, (other - result).abs().nan_to_num_(0.0, 0.0, 0.0)))
        sizes = (size for name in tensors for size in given[name].shape)
        shares = (8 + math.sqrt(max(longest, *sizes))) * unit + torch.finfo(getattr(torch, dtype)).eps
        found = zip(several, least, strict=True)
        errors = tuple(most.mul_(shares / _STEP).add_(result.abs(), alpha=shares) for result, most in found)
        return errors if len(errors) > 1 else errors[0]

    return error


def _changed(name: str, given: Mapping[str, Any], tensors: tuple[str, ...], generator: torch.Generator) -> torch.Tensor:
    """An input with each element slightly changed."""
    import torch

    x: torch.Tensor = given[name]
    if name not in tensors:
        return x
    signs = torch.randint(0, 2, x.shape, generator=generator, device=x.device).mul_(2).sub_(1)
    return x * signs.double().mul_(_STEP).add_(1)


def _plainly(name: str, run: Callable[..., Any]) -> Callable[..., Launch]:
    def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        arguments, outs = arguments_of(name, tensors, scalars)

        def launch() -> None:
            import torch

            with torch.no_grad():
                found = run(*arguments)
            for out, result in zip(outs, found if isinstance(found, list | tuple) else (found,), strict=True):
                out.copy_(result)

        return launch

    bind.__doc__ = "The reference of the definition, as it is written."
    return bind


def arguments_of(
    name: str, tensors: tuple[torch.Tensor, ...], scalars: Mapping[str, Any]
) -> tuple[list[Any], tuple[torch.Tensor, ...]]:
    """A call's arguments in the definition's own order, and the outputs."""
    op, order = OPERATIONS[name], loaded[name].names
    given = {**dict(zip(op.inputs, tensors, strict=False)), **scalars}
    return [given[key] for key in order], tensors[len(op.inputs) :]
