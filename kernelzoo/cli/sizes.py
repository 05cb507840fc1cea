"""The problems that the options for shapes, axes, workloads and dtypes name."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelzoo import measure, operations, registry
from kernelzoo.cli import output
from kernelzoo.cli.options import OptionError, parse_axes, parse_shape, split_shapes
from kernelzoo.definitions.files import read, safe_name
from kernelzoo.measure import Problem
from kernelzoo.operations import OPERATIONS
from kernelzoo.operations.arguments import ELEMENTS
from kernelzoo.operations.limits import broken_limit

SHAPE = "4096x4096"


def default_shapes(ops: Iterable[str], sizes_given: bool) -> list[str]:
    """Return [the default shape]; [] if other options give sizes or an operation doesn't work by rows."""
    return [] if sizes_given or not all(OPERATIONS[op].by_rows for op in ops) else [SHAPE]


def problems(
    ops: Sequence[str],
    shapes: Sequence[str],
    dtypes: Sequence[str],
    shape_set: str = "quick",
    dim: int = -1,
    sizes: Sequence[str] = (),
    usual: Sequence[str] = ("float32", "bfloat16"),
    workloads: Sequence[Path] = (),
    seed: int = 0,
) -> tuple[Problem, ...]:
    """Return the problems of the given shapes, axes and workloads. If none are given, use the set ``shape_set``.

    By default the dtypes are those of ``usual`` that an operation supports, or else its first dtype. ``seed``: for a
    random set. Raises UnknownNameError for an unknown operation, dtype or set, OptionError for a wrong shape or axis.
    """
    found: list[Problem] = []
    for op in ops:
        registry.check_operation_name(op)
        operation = OPERATIONS[op]
        plain = [dtype for dtype in usual if dtype in operation.dtypes] or operation.dtypes[:1]
        kinds = tuple(map(operations.expand_dtype_name, dtypes)) or tuple(plain)
        if not operation.by_rows and not operation.free_axes and not sizes and not workloads:
            found += [_sized_problem(op, dtype, {}) for dtype in kinds]
            continue
        if sizes or workloads or not operation.by_rows:
            if shapes or not (sizes or workloads):
                fitting = operation.clamp_sizes(dict.fromkeys(operation.free_axes, 1024))
                example = ",".join(f"{axis}={size}" for axis, size in fitting.items())
                raise OptionError(f"{op} takes --axes{' in place of --shape' if shapes else ''}, such as {example}")
            for dtype in kinds:
                measure.problems("quick", (op,), (dtype,))  # raises for unknown names
            found += [_sized_problem(op, dtype, parse_axes(text)) for dtype in kinds for text in sizes]
            stated = [one for path in workloads for one in read(path)[1]]
            found += [from_workload(op, dtype, one) for dtype in kinds for one in stated]
            if names := inputs_from_files(stated):
                output.print_note(output.console(errors=True), f"{FROM_FILES}: {', '.join(names)}")
            continue
        named = measure.problems(shape_set, (op,), kinds, seed)
        if not shapes:
            found += named
            continue
        for size in parse_shapes(dim, shapes):
            found += [measure.Problem(op, size, dtype, dim) for dtype in kinds]
    return tuple(found)


def parse_shapes(dim: int, shapes: Sequence[str]) -> list[tuple[int, ...]]:
    """Parse shapes. Raises OptionError if one of them lacks the axis ``dim`` or is too large for any memory."""
    sizes = [parse_shape(text) for text in split_shapes(shapes)]
    for size in sizes:
        _check_problem_size("x".join(map(str, size)), size)
        if not -len(size) <= dim < len(size):
            raise OptionError(f"no axis {dim} in a shape of {len(size)}; allowed: {-len(size)} to {len(size) - 1}")
    return sizes


def _check_problem_size(text: str, sizes: Iterable[int]) -> None:
    """Raise OptionError for a problem that is too large for any memory."""
    if (elements := math.prod(sizes)) > ELEMENTS:
        raise OptionError(f"{text} has {elements:.3g} elements, more than memory has addresses for; take a smaller one")


FROM_FILES = "inputs that workloads read from files (safetensors) are drawn at random here"


def inputs_from_files(workloads: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of inputs that workloads read from files."""
    return sorted({name for one in workloads for name, x in one["inputs"].items() if x["type"] == "safetensors"})


def from_workload(op: str, dtype: str, workload: Mapping[str, Any]) -> Problem:
    """Return a workload as a problem. Inputs that the workload reads from files become random. Raises OptionError."""
    operation = OPERATIONS[op]
    for name, one in workload["inputs"].items():
        if one["type"] == "scalar" and not isinstance(one.get("value"), int | float):
            raise OptionError(f"the workload gives the scalar {name} the value {one.get('value')!r}, must be a number")
    scalars = {safe_name(name): one["value"] for name, one in workload["inputs"].items() if one["type"] == "scalar"}
    if strange := {*scalars} - {*operation.scalars}:
        raise OptionError(f"no scalar {', '.join(sorted(strange))}; {op} has {', '.join(operation.scalars) or 'none'}")
    named = {safe_name(name): size for name, size in workload["axes"].items()}
    free, unbound = ({a: named[a] for a in axes if a in named} for axes in (operation.free_axes, operation.scalars))
    if not operation.by_rows and (lacking := [axis for axis in operation.free_axes if axis not in free]):
        raise OptionError(f"the workload states no size of {', '.join(lacking)}")
    if not all(free.values()):
        raise OptionError("the workload has a size of 0, so that there is nothing to time")
    made = _sized_problem(op, dtype, free, unbound)
    return replace(made, scalars=tuple({**dict(made.scalars), **scalars}.items()))


def _sized_problem(op: str, dtype: str, axes: Mapping[str, int], values: Mapping[str, int] | None = None) -> Problem:
    """Return the problem with the sizes ``axes`` and the scalars ``values``. If the operation works by rows, only the
    axis ``n`` is required. Raises OptionError."""
    operation, wanted = OPERATIONS[op], OPERATIONS[op].free_axes
    _check_problem_size(",".join(f"{axis}={size}" for axis, size in axes.items()), axes.values())
    left = [axis for axis in wanted if axis not in axes and not (operation.by_rows and axis != "n")]
    strange = [axis for axis in axes if axis not in wanted]
    if left or strange:
        said = f"--axes lacks {', '.join(left)}" if left else f"no axis {', '.join(strange)}"
        raise OptionError(f"{said}; {op} has the axes {', '.join(wanted)}")
    if operation.by_rows:
        names = [axis for axis in wanted if axis in axes]
        return measure.Problem(op, tuple(axes[axis] for axis in names), dtype, names.index("n") - len(names))
    if words := broken_limit(operation.limits, axes):
        raise OptionError(f"{op} takes no such sizes: {words}")
    sizes = tuple((axis, axes[axis]) for axis in operation.extra_axes)
    scalars = tuple(operation.scalars_for({**(values or {}), **axes}).items())
    return measure.Problem(op, operation.first_input_shape(axes), dtype, sizes=sizes, scalars=scalars)
