"""The check of one case: it is run through an implementation as a user's call, and the result is checked."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from kernelzoo.calls.backend import get
from kernelzoo.check.bits import bits, poison_like
from kernelzoo.check.case import Case, Inputs
from kernelzoo.check.dependence_probe import probe_all_elements
from kernelzoo.errors import BackendUnavailableError, ContractError, KernelZooError, NoRoomError, UndecidableError
from kernelzoo.launch import Launch
from kernelzoo.layout import unravel_index
from kernelzoo.lazy import torch
from kernelzoo.operations import OPERATIONS, Arguments, Expected, Operation
from kernelzoo.operations.memory import overlap, overlaps_itself
from kernelzoo.packages import backend_packages, importing
from kernelzoo.registry import Implementation


def slow_to_bind(id: str) -> bool:
    """Whether an implementation takes seconds to bind a problem, as its backend's package says."""
    backend, _, variant = id.split("/")
    package = backend_packages().get(backend)
    with suppress(BackendUnavailableError), importing(backend):
        return package is not None and variant in getattr(importlib.import_module(package), "SLOW_TO_BIND", ())
    return False


def max_elements(implementation: Implementation) -> int:
    """Return the largest number of elements to try in an input: small in an emulator, large on a GPU."""
    backend = get(implementation.backend)
    if backend.devices[-1] == "cuda":
        return 2**27
    return (max_compiled_elements(backend.name) or 2**14) if backend.emulator else 2**23


def max_compiled_elements(backend: str) -> int:
    """Return the most elements that an emulator should run, as the backend's package says; 0 if it does not say."""
    package = backend_packages().get(backend)
    return getattr(importlib.import_module(package), "compiled_elements", 0) if package is not None else 0


def check(implementation: Implementation, case: Case, device: str) -> None:
    """Run one case through one implementation as a user's call would. Raises ContractError if a result is wrong.

    Raises UnsupportedProblemError if the variant refuses the problem, and NoRoomError if memory is too small for it.
    Raises OperationError if a function of the operation fails, and UndecidableError if its bounds can't decide.
    """
    check_on_inputs(implementation, case, case.inputs(device))


def check_on_inputs(implementation: Implementation, case: Case, inputs: Inputs) -> None:
    """Run one case on its inputs, as :func:`check` does."""
    before = [bits(x).clone() for x in inputs]
    operation = implementation.operation
    args = operation.arguments(inputs, case.dim, case.keepdim, dict(case.scalars))
    call = partial(outputs, implementation, case)
    try:
        first = call(inputs)
    except (KernelZooError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception:
        operation.expect(args)  # raises OperationError if the operation itself fails
        raise
    try:
        _check_inputs(operation, inputs, before)
    except ContractError:
        for x, were in zip(inputs, before, strict=True):
            bits(x).copy_(were)
        _why_undecidable(case, args, operation.expect(args))  # raises UndecidableError if the reference changes it too
        raise
    expected = _check_result(implementation, case, args, first)
    repeats = "written" not in operation.hooks  # another author's definition lets kernels add in any order
    for out in first:
        if not out.is_contiguous():
            raise ContractError(f"the result must be contiguous, has strides {out.stride()}", "wrong kind of result")
        if out.numel() and any(overlap(out, x) for x in inputs):
            raise ContractError("the result shares memory with the input", "wrong kind of result")
    if not any(out.numel() for out in first):
        return
    # Launch twice over poisoned outputs. A fixed poison would hide an unwritten element whose right result it equals.
    # So the poison of every element differs in its bits from the first result.
    outs = tuple(case.place(out) if case.place else torch.empty_like(out) for out in first)
    launch = implementation.launch_checked(args, outs)
    right = [bits(out) for out in first]
    if case.place:  # another layout of out may change the order of writes, and so the rounding
        _poison_outputs(outs, first)
        _run_launch(launch)
        expected.check(outs)
        right = [bits(out).clone() for out in outs]
    for time in ("first", "second"):
        poison = _poison_outputs(outs, first, repeats)
        _run_launch(launch)
        for out, want, fill in zip(outs, right, poison, strict=True):
            if not torch.equal(bits(out), want):
                unwritten = (bits(out) != want) & (bits(out) == bits(fill))
                if bool(unwritten.any()):
                    raise _unwritten_error(unwritten, out.shape, f"launched for the {time} time: ")
                if repeats:
                    raise ContractError(f"{time} launch: the same input gave other bits", "not repeatable")
                expected.check(outs)
    # A repeated call may take a faster path on a GPU. Other memory must give the same bits.
    if args.x.is_cuda and not _same_bits(again := call(case.inputs(str(args.x.device))), first):
        if repeats:
            raise ContractError("the same values elsewhere in memory gave other bits", "not repeatable")
        expected.check(again)
    probe_all_elements(operation, args, launch, outs)
    _check_inputs(operation, inputs, before)
    _check_in_place(implementation, case, inputs, first)
    if implementation.batch_invariant:
        _check_last_row_alone(implementation, case, inputs, first)


def _check_result(implementation: Implementation, case: Case, args: Arguments, first: Inputs) -> Expected:
    """Check a result; returns its bounds. Raises ContractError, UndecidableError, or NoRoomError for lack of memory."""
    try:
        expected = implementation.operation.expect(args)
        if words := _why_undecidable(case, args, expected):
            if expected.doubt is not None:
                expected.check(first)
            words = f"its reference, computed in the dtypes of kernels, is wrong: {words}"
            raise UndecidableError(f"{case.op} {case}: {words}")
        expected.check(first)
    except ContractError as error:
        raise _find_cause(error, implementation, args, first) from None
    except torch.OutOfMemoryError as error:  # no kernel is to blame for the memory of the bounds
        raise NoRoomError(f"no room for the bounds: {error}") from error
    return expected


_decided: WeakKeyDictionary[Operation, dict[tuple[str, str], str]] = WeakKeyDictionary()
"""What ``_why_undecidable`` returned, by operation, and by the name and device of a case."""


def _why_undecidable(case: Case, args: Arguments, expected: Expected) -> str:
    """Say why the bounds can't decide a case; "" if they can. Computed once for all implementations."""
    operation = OPERATIONS[case.op]
    known, key = _decided.setdefault(operation, {}), (case.name, str(args.x.device))
    if key not in known:
        known[key] = operation.undecidable(args, expected)
    return known[key]


def outputs(implementation: Implementation, case: Case, inputs: Inputs, out: object = None) -> tuple[torch.Tensor, ...]:
    """Call as a user does; returns the outputs as a tuple."""
    found = call_case(implementation, case, inputs, {} if out is None else {"out": out})
    return found if isinstance(found, tuple) else (found,)


def call_case(implementation: Implementation, case: Any, inputs: Sequence[Any], changed: Mapping[str, Any]) -> Any:
    """Make the call of a case; returns the result. Arguments in ``changed`` replace those of the case."""
    operation = implementation.operation
    named: dict[str, Any] = {"variant": implementation.variant, **dict(case.scalars)}
    named |= {"dim": case.dim} if operation.by_rows else {}
    named |= {"keepdim": case.keepdim} if operation.reduces else {}
    named |= {name: value for name, value in changed.items() if name not in operation.inputs}
    given = [changed.get(name, x) for name, x in zip(operation.inputs, inputs, strict=True)]
    return getattr(get(implementation.backend), operation.name)(*given, **named)


def _same_bits(a: Inputs, b: Inputs) -> bool:
    return all(torch.equal(bits(x), bits(y)) for x, y in zip(a, b, strict=True))


def _check_last_row_alone(implementation: Implementation, case: Case, inputs: Inputs, first: Inputs) -> None:
    """Check that a matrix's last row gives the same bits without the other rows, if ``dim`` is the last axis."""
    if inputs[0].ndim != 2 or not inputs[0].numel() or case.dim not in (-1, 1):
        return
    axes = implementation.operation.axes
    alone, want = (
        tuple(x[-1:] if "outer" in names else x for x, names in zip(tensors, kinds, strict=True))
        for tensors, kinds in ((inputs, axes[: len(inputs)]), (first, axes[len(inputs) :]))
    )
    if not _same_bits(outputs(implementation, case, alone), want):
        raise ContractError("a row alone has other bits than among others", "not repeatable")


def _poison_outputs(outs: Inputs, first: Inputs, repeatable: bool = True) -> Inputs:
    """Fill outputs with bits unlike ``first``; returns the fill. Floats get NaN if results are not ``repeatable``."""
    bitwise = [repeatable or not x.is_floating_point() or x.itemsize == 1 for x in first]
    found = tuple(poison_like(x) if b else torch.full_like(x, torch.nan) for x, b in zip(first, bitwise, strict=True))
    for out, poison in zip(outs, found, strict=True):
        out.copy_(poison)
    return found


def _check_in_place(implementation: Implementation, case: Case, inputs: Inputs, first: Inputs) -> None:
    """Check that a call with an input as ``out`` gives the same bits, if the operation allows that."""
    names = list(implementation.operation.inputs)
    if case.place or len(first) > 1 or not implementation.operation.outputs:
        return
    (declared,) = implementation.operation.outputs.values()
    if not declared.inplace or overlaps_itself(inputs[names.index(declared.inplace)]):
        return
    place = names.index(declared.inplace)
    copied = tuple(x.clone() for x in inputs)
    result = outputs(implementation, case, copied, out=copied[place])
    if result[0] is not copied[place] or not _same_bits(result, first):
        raise ContractError(f"with {declared.inplace} as out, the same input gave other bits", "not repeatable")


def _check_inputs(operation: Operation, inputs: Inputs, before: list[torch.Tensor]) -> None:
    for name, x, were in zip(operation.inputs, inputs, before, strict=True):
        if not torch.equal(bits(x), were):
            whose = "the input" if len(inputs) == 1 else f"the input {name}"
            raise ContractError(f"{whose} was changed", "changes its input")


def _run_launch(launch: Launch) -> None:
    result: object = launch()  # type: ignore[func-returns-value]  # which is what is checked here
    if result is not None:
        raise ContractError(
            f"a launch writes into out and returns None; this one returned {type(result)}", "wrong kind of result"
        )


def _find_cause(error: ContractError, implementation: Implementation, args: Arguments, result: Inputs) -> ContractError:
    """Return the error's cause: unwritten elements, or a launch that returns a value and not None; else the error."""
    if error.place is None:
        return error
    outs = tuple(torch.empty_like(out) for out in result)
    kept = [torch.ones(out.shape, dtype=torch.bool, device=out.device) for out in result]
    try:
        launch = implementation.launch_checked(args, outs)
        for fills in (
            tuple(torch.zeros_like(out) for out in result),
            tuple(poison_like(torch.zeros_like(out)) for out in result),
        ):
            for out, fill in zip(outs, fills, strict=True):
                out.copy_(fill)
            _run_launch(launch)
            for number, (out, fill) in enumerate(zip(outs, fills, strict=True)):
                kept[number] &= (bits(out) == bits(fill)).view(out.shape)
    except ContractError as cause:
        return cause
    except Exception:  # it ran before, so this error is not the cause
        return error
    for unwritten, out in zip(kept, result, strict=True):
        if bool(unwritten.any()):
            return _unwritten_error(unwritten, out.shape, "")
    return error


def _unwritten_error(kept: torch.Tensor, shape: torch.Size, words: str) -> ContractError:
    """Return the error for unwritten elements. ``kept``: whether each element still has its old value."""
    place = unravel_index(int(kept.flatten().view(torch.uint8).argmax()), shape)
    return ContractError(
        f"{words}{int(kept.sum())} of {kept.numel()} elements of out were not written; first at {place}",
        "leaves out unwritten",
        place=place,
    )
