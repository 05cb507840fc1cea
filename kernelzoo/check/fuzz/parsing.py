"""Cases read back from JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from kernelzoo import operations
from kernelzoo.check.fuzz import case as fuzz_case
from kernelzoo.check.fuzz.case import Case, CaseError, CompanionInput, Layout, dense_strides, json_key
from kernelzoo.check.fuzz.faulty import possible_faults
from kernelzoo.errors import KernelZooError
from kernelzoo.operations.limits import broken_limit


def parse_case(text: str, op: str) -> Case:
    """Return the case that ``str(case)`` wrote. Raises CaseError."""
    try:
        case = _case_from_json(json.loads(text), operations.OPERATIONS[op])
        _check_case(case, op, text)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        if isinstance(error, KernelZooError):
            raise
        raise CaseError(f"no case {text!r}: {type(error).__name__}: {error}") from error
    return case


def _case_from_json(said: dict[str, Any], op: operations.Operation) -> Case:
    companions = list(op.inputs)[1:]
    # Some keys exist only for some operations.
    known = {"dtype", "shape", "dim", "strides", "offset", "keepdim", "out", "values", "seed", "specials"}
    known -= set() if op.by_rows else {"dim", "keepdim"}
    known |= {*map(json_key, companions)} | ({"scalars"} if op.scalars else set())
    known |= {"sizes"} if op.extra_axes else set()
    _check_keys("a case", said, known, {"negated", "fault"})
    shape, dim = tuple(map(int, said["shape"])), said.get("dim", -1)
    outs = said.get("out") or []
    return Case(
        operations.expand_dtype_name(said["dtype"]),
        shape,
        Layout(tuple(map(int, said.get("strides", dense_strides(shape)))), int(said.get("offset", 0))),
        (tuple(dim) if isinstance(dim, list) else dim) if op.by_rows else None,
        bool(said.get("keepdim", False)),
        tuple(_parse_layout(*out) for out in (outs if len(op.outputs) > 1 else [outs] if outs else [])),
        said.get("values", "normal"),
        int(said.get("seed", 0)),
        _parse_specials(said.get("specials", ())),
        bool(said.get("negated", False)),
        said.get("fault", ""),
        tuple(_parse_companion(name, said[json_key(name)]) for name in companions if said.get(json_key(name))),
        tuple((name, said["scalars"][name]) for name in op.scalars if name in said.get("scalars", {})),
        tuple((name, int(said["sizes"][name])) for name in op.extra_axes),
    )


def _parse_companion(name: str, said: dict[str, Any]) -> CompanionInput:
    _check_keys(name, said, {"dtype", "strides", "offset", "values", "specials", "negated"}, set())
    return CompanionInput(
        name,
        operations.expand_dtype_name(said.get("dtype", "")),
        _parse_layout(said["strides"], said.get("offset", 0)) if "strides" in said else None,
        said.get("values", ""),
        _parse_specials(said.get("specials", ())),
        bool(said.get("negated", False)),
    )


def _parse_layout(strides: Iterable[Any], offset: Any) -> Layout:
    return Layout(tuple(map(int, strides)), int(offset))


def _parse_specials(said: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    return tuple((str(name), int(place)) for name, place in said)


def _check_keys(subject: str, entries: dict[str, Any], listed_keys: set[str], unlisted_keys: set[str]) -> None:
    if strange := set(entries) - listed_keys - unlisted_keys:
        raise CaseError(f"{subject} has no {', '.join(sorted(strange))}; it has {', '.join(sorted(listed_keys))}")


def _check_name(name: str, of: str, kind: str, known: Sequence[str]) -> None:
    if name not in known:
        raise CaseError(f"{of} has no {kind} {name!r}; known: {', '.join(filter(None, known))}")


def _check_case(case: Case, op: str, text: str) -> None:
    """Raise CaseError unless the case can be a call of the operation ``op``."""
    operation = operations.OPERATIONS[op]
    first, *_ = operation.inputs
    _check_name(case.dtype, "a case", f"{op} dtype", operation.dtypes)
    _check_name(case.fault, "a case", "fault", ("", *possible_faults(op, case.dtype)))
    if not operation.by_rows:
        if len(case.shape) != len(operation.axes[0]):
            raise CaseError(f"{first} has the axes {' '.join(operation.axes[0])}; got {text}")
        if words := broken_limit(operation.limits, dict(zip(operation.free_axes, case.shaping_sizes(op), strict=True))):
            raise CaseError(f"{op} takes no such sizes: {words}")
    for companion, shape in case.each_input(op):
        dtype, wanted = operation.dtype_of(companion.name, case.dtype), operation.inputs[companion.name].dtype
        if companion.name != first and companion.dtype:
            _check_name(
                companion.dtype, f"{companion.name} of {op}", "dtype", wanted if isinstance(wanted, tuple) else (dtype,)
            )
            dtype = companion.dtype
        if companion.values:
            families = fuzz_case.families_of_input(op, companion.name, dtype)
            _check_name(companion.values, f"a case of {dtype}", "values", families)
        for name, _ in companion.specials:
            _check_name(name, f"a case of {dtype}", "special value", fuzz_case.specials(op, companion.name, dtype))
        layout = companion.layout or Layout(dense_strides(shape))
        if len(layout.strides) != len(shape) or min(*shape, *layout.strides, layout.offset, 0) < 0:
            raise CaseError(f"a case has as many strides as axes, and no negative number; got {text}")
    shapes = case.out_shapes(op)
    if case.outs and len(case.outs) != len(shapes):
        raise CaseError(f"out of {text} must have {len(shapes)} layouts")
    for out, shape in zip(case.outs, shapes, strict=False):
        if len(out.strides) != len(shape):
            raise CaseError(f"out of {text} must have {len(shape)} strides")
