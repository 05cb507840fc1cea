"""The reference of a definition: as it is written, and in float64."""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kernelzoo.definitions.files import DefinitionError, Json

if TYPE_CHECKING:
    import torch

_TRIES, _STEP = 4, 2.0**-12
"""How often inputs are changed at random to learn the effect of rounding, and by what share."""


class Reference:
    """The function ``run`` of a definition. Raises DefinitionError for any error of its code."""

    def __init__(self, data: Json, where: str) -> None:
        self.space = _run(data["reference"], where)
        self._function: Callable[..., Any] = self.space["run"]
        self._outputs = tuple(data["outputs"])
        self._keywords = _keywords(data, where)

    def __call__(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The results for inputs in the definition's order, in the order of its outputs."""
        import torch

        with torch.no_grad():
            if self._keywords is None:
                found = self._function(*arguments)
            else:
                found = self._function(**{name: arguments[place] for name, place in self._keywords.items()})
        return in_order(found, self._outputs)

    def wide(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The results in float64. Conversions to narrower floats convert to float64."""
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
            with Widening():
                found = self(arguments)
        finally:
            torch.set_default_dtype(usual)
        return tuple(result.double() if result.is_floating_point() else result for result in found)


def in_order(found: Any, outputs: Iterable[str]) -> tuple[Any, ...]:
    """What a function returned, in the order of the outputs: a tensor, a list or tuple of them, or a dict by name."""
    if isinstance(found, Mapping):
        return tuple(found[name] for name in outputs)
    return tuple(found) if isinstance(found, list | tuple) else (found,)


def reference_of(run: Reference, order: tuple[str, ...]) -> Callable[..., Any]:
    """The hook ``reference`` of the operation."""

    def reference(**given: Any) -> Any:
        return _one(run.wide([given[name] for name in order]))

    return named(reference, order)


def error_of(
    run: Reference, order: tuple[str, ...], tensors: tuple[str, ...], longest: int, dtype: str
) -> Callable[..., Any]:
    """The hook ``error``, learnt from the reference. ``dtype``: that of the first input."""

    def error(unit: float, ref: Any, **given: Any) -> Any:
        import torch

        several = ref if isinstance(ref, tuple) else (ref,)
        least = [torch.zeros_like(result, dtype=torch.float64) for result in several]
        generator = torch.Generator(several[0].device).manual_seed(0)
        for _ in range(_TRIES):
            changed = run.wide([_changed(name, given, tensors, generator) for name in order])
            for result, other, most in zip(several, changed, least, strict=True):
                if result.is_floating_point():
                    most.copy_(torch.maximum(most, (other - result).abs().nan_to_num_(0.0, 0.0, 0.0)))
        sizes = (size for name in tensors for size in given[name].shape)
        shares = (8 + math.sqrt(max((longest, *sizes)))) * unit + torch.finfo(getattr(torch, dtype)).eps
        found = zip(several, least, strict=True)
        errors = [most.mul_(shares / _STEP).add_(result.abs(), alpha=shares) for result, most in found]
        return _one(tuple(errors))

    return named(error, (*order, "unit", "ref"))


def named(function: Callable[..., Any], names: tuple[str, ...]) -> FunctionType:
    """Give a function parameter names, as functions of an operation's class have."""
    assert isinstance(function, FunctionType)
    function.names = names  # type: ignore[attr-defined]
    return function


def _run(code: str, where: str) -> dict[str, Any]:
    """The names that a reference defines."""
    file = f"<reference of {where}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "reference"}
    try:
        exec(compile(code, file, "exec"), space)
    except Exception as error:
        raise DefinitionError(f"{where}: the reference fails: {type(error).__name__}: {error}") from error
    return space


def _keywords(data: Json, where: str) -> dict[str, int] | None:
    """The place of each parameter among the inputs, where they are some of them; None where they are all in order."""
    code = ast.parse(data["reference"])
    run = next(node for node in code.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    names = [word.arg for word in (*run.args.posonlyargs, *run.args.args, *run.args.kwonlyargs)]
    inputs = list(data["inputs"])
    if len(names) == len(inputs) and names != inputs and not {*names} <= {*inputs}:
        return None  # called by place, so other names mean the same
    if names == inputs or run.args.vararg:
        return None
    optional = names[len(names) - len(run.args.defaults) - len(run.args.kw_defaults) :]
    if strange := [name for name in names if name not in inputs and name not in optional]:
        raise DefinitionError(f"{where}: the reference takes {', '.join(strange)}, which is no input")
    return {name: inputs.index(name) for name in names if name in inputs}


def _changed(name: str, given: Mapping[str, Any], tensors: tuple[str, ...], generator: torch.Generator) -> Any:
    """An input with each element slightly changed, if it holds floats."""
    import torch

    x: torch.Tensor = given[name]
    if name not in tensors or x.dtype != torch.float64:
        return x
    signs = torch.randint(0, 2, x.shape, generator=generator, device=x.device).mul_(2).sub_(1)
    return x * signs.double().mul_(_STEP).add_(1)


def _one(results: tuple[Any, ...]) -> Any:
    return results if len(results) > 1 else results[0]
