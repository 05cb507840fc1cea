"""Runs the reference of a definition, as it is written and in float64."""

from __future__ import annotations

import ast
import linecache
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernelzoo.definitions.files import DefinitionError, Json
from kernelzoo.errors import KernelZooError, UndecidableError
from kernelzoo.lazy import torch
from kernelzoo.operations.arguments import FLOATS, NARROW
from kernelzoo.operations.expected import IntegerBounds, RareElementErrorBounds
from kernelzoo.operations.meaning import has_plain_floats

_TRIES, _STEP = 6, 2.0**-12
"""How many times inputs are perturbed to show the effect of rounding, and the least relative perturbation."""

_LEARNT = (1, 3, _TRIES)
"""The numbers of perturbed runs after which ``errors`` yields a bound. It also yields one before the first run."""

CHANGES = "its reference changes its input"
"""Start of the message for a reference that changes an input, so that a second run would differ."""

RANDOM = "its reference draws random numbers"
"""Start of the message for a reference whose results differ for the same inputs."""

ONE_OF_SEVERAL = "_kernelzoo_one_of_several"
"""A name that is defined in a reference's code if several results are right. It may then draw random numbers."""

PREPARE = "_kernelzoo_prepare"
"""The name of a function in a reference's code. It is called with a device, before the reference runs in float64."""

_WINDOW = 9
"""The number of elements of similar magnitude whose errors are pooled."""

_PIECE = 2**24
"""The most elements that are sorted by magnitude at once."""

_OWN, _SHARE = 4.0, 1e-3
"""The allowed multiple of the reference's own error, and the share of elements that may have the worst error of
their neighbours. With another order of additions, a right kernel sometimes exceeds four times its own element's."""

_NEAR_TIE = 0.2
"""The share of elements of a float8 output that may be a whole step off, since they are near a tie."""


class Reference:
    """The function ``run`` of a definition. Raises DefinitionError for any error of its code."""

    def __init__(self, data: Json, where: str, given: Mapping[str, Any]) -> None:
        self.space = _run_code(data["reference"], where, given)
        self._function: Callable[..., Any] = self.space["run"]
        self._outputs = tuple(data["outputs"])
        self._inputs = tuple(data["inputs"])
        self._dtypes = [one["dtype"] for one in data["inputs"].values()]
        self._parameter_indices = _parameter_indices(data, where)

    def exact_results(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results in float64. If that and the reference as written both fail, raise UndecidableError."""
        try:
            return self.run_in_float64([_clone(x) for x in arguments])
        except (KernelZooError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception:
            try:
                self([_to_own_dtype(x, dtype) for x, dtype in zip(arguments, self._dtypes, strict=True)])
            except Exception as own:
                words = f"{type(own).__name__}: {own}".rstrip(": ")
                raise UndecidableError(f"its reference fails on such inputs: {words}") from own
            raise

    def __call__(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results for inputs in the definition's order, in the order of its outputs."""
        with torch.no_grad():
            if self._parameter_indices is None:
                found = self._function(*arguments)
            else:
                found = self._function(**{name: arguments[place] for name, place in self._parameter_indices.items()})
        return order_results(found, self._outputs)

    def run_on_copies(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results for copies of the inputs. Raises UndecidableError if the reference changes a copy and
        returns it, or draws random numbers. It is run again if the global generators' states changed: other results
        then show random draws. A reference that seeds itself gives the same."""
        copies, before = [_clone(x) for x in arguments], _generator_states(arguments)
        found = self(copies)
        for name, x in zip(self._inputs, copies, strict=True):
            if any(_is_changed_input(x, result) for result in found):
                raise UndecidableError(f"{CHANGES} {name} and returns it")
        if ONE_OF_SEVERAL not in self.space and _generator_states(arguments) != before:
            first = [_copy_bytes(x) for x in found]
            again = self([_clone(x) for x in arguments])
            if len(again) != len(first) or not all(map(torch.equal, first, map(_copy_bytes, again))):
                raise UndecidableError(f"{RANDOM}, so no result is the right one")
        return found

    def run_in_float64(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results in float64. Where the code converts to narrower floats, it gets float64 instead."""
        from kernelzoo.torch_private import dispatch_mode_class

        narrow = {torch.float32, torch.float16, torch.bfloat16}

        class Widening(dispatch_mode_class()):  # type: ignore[misc]  # torch's own base class
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                def widen(value: Any) -> Any:
                    return torch.float64 if isinstance(value, torch.dtype) and value in narrow else value

                if func is torch.ops.aten.view.dtype and args[0].dtype != torch.float64:  # bytes, seen as floats
                    return _to_float64(func(*args))
                found = func(*map(widen, args), **{key: widen(value) for key, value in (kwargs or {}).items()})
                return found.double() if func is torch.ops.aten.lift_fresh.default and found.dtype in narrow else found

        if prepare := self.space.get(PREPARE):
            prepare(next(x.device for x in arguments if isinstance(x, torch.Tensor)))
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with Widening():
                found = self(arguments)
        finally:
            torch.set_default_dtype(usual)
        return tuple(x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in found)


def order_results(results: Any, outputs: Iterable[str]) -> tuple[Any, ...]:
    """Return a function's results in the order of the outputs. ``results`` is a tensor, several, or a dict by name.

    No method of a subclass is called, since it could do the work after the timing.
    """
    if isinstance(results, dict):
        plain = dict(dict.items(results))
        return tuple(plain[name] for name in outputs)
    several = next((kind for kind in (list, tuple) if isinstance(results, kind)), None)
    return (results,) if several is None else tuple(several.__iter__(results))


def result_hook(results: Callable[[Sequence[Any]], tuple[Any, ...]], order: tuple[str, ...]) -> Callable[..., Any]:
    """Return a hook for the operation that calls ``results`` with the inputs in this order."""
    return rename_parameters(lambda **given: _single_or_tuple(results([given[name] for name in order])), order)


def errors_hook(
    run: Reference, order: tuple[str, ...], dtypes: Mapping[str, str], outs: Sequence[str]
) -> Callable[..., Iterator[Any]]:
    """Return the hook ``errors``, which runs the reference on perturbed inputs. ``dtypes``: those of tensor inputs."""
    floats = [dtype for dtype in dtypes.values() if dtype in FLOATS]

    def errors(unit: float, tiny: float, ref: Any, **given: Any) -> Iterator[Any]:
        several = ref if isinstance(ref, tuple) else (ref,)
        whole = {
            place: IntegerBounds(x.clone(), x.clone()) for place, x in enumerate(several) if not x.is_floating_point()
        }
        step = max((_relative_perturbation(dtype) for dtype in floats), default=_STEP)
        longest = max((size for name in dtypes for size in given[name].shape), default=1)
        steps = [torch.finfo(getattr(torch, out)).eps if out in NARROW else 0.0 for out in outs]  # near a tie
        rounded = (8 + math.sqrt(longest)) * unit
        shares = rounded + (torch.finfo(getattr(torch, floats[0])).eps if floats else 0.0)

        yield _single_or_tuple(
            tuple(
                result.abs().double().mul_(shares).add_(tiny) if result.is_floating_point() else whole[place]
                for place, result in enumerate(several)
            )
        )
        kinds = [torch.float64 if out == "float64" else torch.float32 for out in outs]  # enough for an error
        moved, own = (
            [torch.zeros(x.shape, dtype=kind, device=x.device) for x, kind in zip(several, kinds, strict=True)]
            for _ in range(2)
        )
        generator = torch.Generator(several[0].device).manual_seed(0)

        def learn() -> None:
            """Run the reference on perturbed inputs, and raise ``moved`` and ``own`` to the errors seen."""
            near = {name: _perturb_input(x, dtypes.get(name, ""), generator) for name, x in given.items()}
            found = run.run_on_copies([near[name] for name in order])
            exact = run.run_in_float64([_to_float64(near.pop(name)) for name in order])
            for place, (result, other, said) in enumerate(zip(several, exact, found, strict=True)):
                if result.is_floating_point():
                    for piece in _pieces(moved[place], own[place], result, other, said):
                        _update_largest_errors(*piece, rounding=_rounding_error(outs[place]))

        def learn_whole() -> None:
            """Widen the bounds of integers to what they are if rounding errors are added to the inputs. An integer that
            rounds a float moves near a tie, and the place of a largest number if there are several."""
            known = {name: given[name] for name, dtype in dtypes.items() if dtype in FLOATS}
            integers = {place: seen for place, seen in whole.items() if seen.least.dtype != torch.bool}
            for number in range(_TRIES // 2 if integers and known else 0):
                drawing = generator if number else None
                errors = {name: _rounding_errors(x, rounded, drawing) for name, x in known.items()}
                for sign in (1, -1):  # of two opposite moves, one crosses a tie
                    near = {name: x + sign * errors[name] for name, x in known.items()}
                    exact = run.run_in_float64([_to_float64(near.get(name, given[name])) for name in order])
                    for place, seen in integers.items():
                        torch.minimum(seen.least, exact[place], out=seen.least)
                        torch.maximum(seen.most, exact[place], out=seen.most)

        def bound(worst: bool = False, near_tie: bool = False) -> Any:
            return _single_or_tuple(
                tuple(
                    _pool_errors(mine, result, worst)
                    .double()  # in which no bound overflows
                    .mul_(_OWN)
                    .add_(change, alpha=shares / step)
                    .add_(result.abs(), alpha=shares + more * near_tie)
                    .add_(tiny)
                    if result.is_floating_point()
                    else whole[place]
                    for place, (result, change, mine, more) in enumerate(zip(several, moved, own, steps, strict=True))
                )
            )

        learn_whole()
        for tried in range(1, _TRIES + 1):
            learn()
            if tried in _LEARNT:
                yield bound()
        if any(steps):
            yield RareElementErrorBounds(bound(near_tie=True), _NEAR_TIE)
        yield RareElementErrorBounds(bound(worst=True, near_tie=True), _SHARE)

    return rename_parameters(errors, (*order, "unit", "tiny", "ref"))


def error_hook(errors: Callable[..., Iterator[Any]], order: tuple[str, ...]) -> Callable[..., Any]:
    """Return the hook ``error``: the last bound of ``errors`` that holds for all elements."""

    def error(**given: Any) -> Any:
        *_, last, _ = errors(**given)
        return last.errors if isinstance(last, RareElementErrorBounds) else last

    return rename_parameters(error, (*order, "unit", "tiny", "ref"))


def _smooth_errors(own: torch.Tensor, order: torch.Tensor, worst: bool) -> torch.Tensor:
    """Return the mean (if ``worst``, the maximum) error of each element and its neighbours in the given order."""
    some, places = own[order].view(1, 1, -1), (_WINDOW, 1, _WINDOW // 2)
    if worst:
        around = torch.nn.functional.max_pool1d(some, *places)
    else:
        around = torch.nn.functional.avg_pool1d(some, *places, count_include_pad=False)
    return torch.empty_like(own).index_copy_(0, order, around.flatten())


def _pool_errors(own: torch.Tensor, result: torch.Tensor, worst: bool) -> torch.Tensor:
    """Raise each error to the mean error of elements of similar magnitude. If ``worst``, raise it to the maximum of
    these and of the row. Six runs may by chance show no error in an element, as near the kink of a ReLU."""
    if own.numel() < _WINDOW:
        return own.clone()
    found = torch.empty(own.shape, dtype=own.dtype, device=own.device)
    for into, some, beside in _pieces(found, own, result):
        into.copy_(_smooth_errors(some, beside.abs().argsort(), worst))
    if worst and own.size(-1) >= _WINDOW:
        torch.maximum(found, own.amax(-1, keepdim=True), out=found)
    return torch.maximum(own, found, out=found)


def _perturb_input(x: Any, dtype: str, generator: torch.Generator) -> Any:
    """Return an input in its own dtype. Floats are perturbed relatively by 2^-12, or by the dtype's eps if larger."""
    if dtype not in FLOATS:
        return _to_own_dtype(x, dtype) if dtype else x
    step = _relative_perturbation(dtype)
    signs = torch.randint(0, 2, x.shape, generator=generator, device=x.device, dtype=torch.float64)
    return signs.mul_(2 * step).add_(1 - step).mul_(x).to(getattr(torch, dtype))


def _rounding_errors(x: torch.Tensor, largest: float, generator: torch.Generator | None) -> torch.Tensor:
    """Return random errors relative to the elements of ``x``; without a generator, errors that grow with the place.

    With these, and with their opposites, equal elements are sorted by place, upwards or downwards."""
    if generator is None:
        drawn = torch.linspace(0, largest, x.numel(), dtype=x.dtype, device=x.device).view(x.shape)
    else:
        drawn = torch.empty_like(x).uniform_(-largest, largest, generator=generator)
    return drawn.mul_(x.abs()).nan_to_num_(0.0, 0.0, 0.0)


def _to_own_dtype(x: Any, dtype: str) -> Any:
    """Return an input, converted from float64 to its declared dtype."""
    return x.to(getattr(torch, dtype)) if isinstance(x, torch.Tensor) and x.dtype == torch.float64 else _clone(x)


def _relative_perturbation(dtype: str) -> float:
    return max(_STEP, torch.finfo(getattr(torch, dtype)).eps)


def _to_float64(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) and has_plain_floats(x) else _clone(x)


def _clone(x: Any) -> Any:
    """Return a copy that a reference may change."""
    return x.clone() if isinstance(x, torch.Tensor) else x


def _generator_states(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the states of the global generators that a reference may draw from."""
    devices = {x.device for x in arguments if isinstance(x, torch.Tensor) and x.is_cuda}
    states = [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]
    own = sys.modules["numpy"].random.get_state(legacy=False) if "numpy" in sys.modules else {}
    known = [*own.get("state", {}).values(), own.get("has_gauss")]
    return random.getstate(), [x.tolist() if hasattr(x, "tolist") else x for x in (*states, *known)]


def _copy_bytes(x: torch.Tensor) -> torch.Tensor:
    """Return a copy of a result's bytes, for which NaN equals NaN."""
    return x.contiguous().flatten().view(torch.uint8).clone()


def _is_changed_input(x: Any, result: Any) -> bool:
    """Whether a result lies in the memory of an input that was written to."""
    both = isinstance(x, torch.Tensor) and isinstance(result, torch.Tensor) and bool(x._version)
    return both and x.untyped_storage().data_ptr() == result.untyped_storage().data_ptr()


def _pieces(*tensors: torch.Tensor) -> Iterator[Any]:
    """Yield the elements of tensors of one shape, in pieces, to save memory."""
    count = -(-tensors[0].numel() // _PIECE) or 1
    return zip(*(x.flatten().chunk(count) for x in tensors), strict=True)


def _update_largest_errors(
    moved: torch.Tensor,
    own: torch.Tensor,
    result: torch.Tensor,
    exact: torch.Tensor,
    found: torch.Tensor,
    *,
    rounding: float,
) -> None:
    """Raise ``moved`` to how far the exact result moved from ``result``, and ``own`` to the error of the one found."""
    off = found.to(torch.float64, copy=True).sub_(exact).abs_().sub_(exact.abs(), alpha=rounding)
    for largest, errors in ((moved, (exact - result).abs_()), (own, off)):
        torch.maximum(largest, errors.to(largest.dtype).nan_to_num_(0.0, 0.0, 0.0), out=largest)


def _rounding_error(dtype: str) -> float:
    """Return the relative error of rounding to an output's dtype, which the bounds allow separately."""
    return torch.finfo(getattr(torch, dtype)).eps / 2 if dtype in FLOATS[:2] else 0.0


def rename_parameters(function: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Return the function with parameters of these names, as an operation's hooks have."""

    def call(**given: Any) -> Any:
        return function(**given)

    call.names = names  # type: ignore[attr-defined]
    return call


def _run_code(code: str, where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Run a reference's code with the names ``given``, and return its namespace."""
    file = f"<reference of {where}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "reference", **given}
    try:
        exec(compile(code, file, "exec"), space)
    except Exception as error:
        raise DefinitionError(f"{where}: the reference fails: {type(error).__name__}: {error}") from error
    return space


def _parameter_indices(data: Json, where: str) -> dict[str, int] | None:
    """Return the index of each parameter among the inputs; None if arguments can be passed in the inputs' order."""
    code = ast.parse(data["reference"])
    run = next(node for node in code.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    names = [word.arg for word in (*run.args.posonlyargs, *run.args.args, *run.args.kwonlyargs)]
    inputs = list(data["inputs"])
    if len(names) == len(inputs) and names != inputs and not {*names} <= {*inputs}:
        return None  # called by position, so other names mean the same
    if names == inputs or run.args.vararg:
        return None
    optional = names[len(names) - len(run.args.defaults) - len(run.args.kw_defaults) :]
    if strange := [name for name in names if name not in inputs and name not in optional]:
        raise DefinitionError(f"{where}: the reference takes {', '.join(strange)}, which is no input")
    return {name: inputs.index(name) for name in names if name in inputs}


def _single_or_tuple(results: tuple[Any, ...]) -> Any:
    return results if len(results) > 1 else results[0]
