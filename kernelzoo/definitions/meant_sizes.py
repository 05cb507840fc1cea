"""Sizes for a definition: those of its workloads, and smaller ones with the properties that all workloads share."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from kernelzoo.definitions.axes import Axes, constraints
from kernelzoo.definitions.files import Json, safe_name
from kernelzoo.operations.derived import variables

_STARTS = (
    (3, 2, 5, 4, 7),
    (1, 1, 2, 3, 1),
    (2, 4, 8, 16, 2),
    (17, 9, 33, 5, 6),
    (7, 1090, 3, 2, 5),
    (261, 130, 2, 3, 1),
)
"""Sizes to begin with if no workload states any. With blocks of 64 to 1024, the last two have a tail."""

_PART = 0.77
"""Workloads often have powers of two. One more size is this part of the largest, so that blocks have a tail."""

_MOST = 2**16
"""The most elements of a small case's largest tensor, if the definition's constants allow so few."""

_PLAIN = (
    ast.Compare | ast.BinOp | ast.UnaryOp | ast.Name | ast.Constant | ast.Load | ast.cmpop | ast.operator | ast.unaryop
)
"""The syntax nodes of a constraint that has only sizes."""


def small_valid_sizes(
    axes: Axes, free: Sequence[str], texts: Sequence[Sequence[str]], workloads: Sequence[Json], least: Mapping[str, int]
) -> list[dict[str, int]]:
    """Return a few small sizes of the free axes, smallest first. ``texts``: each tensor's axes. ``least``: minima."""
    found = list[dict[str, int]]()
    known = _stated_sizes(axes, free, texts, workloads)
    starts = (dict(zip(free, cycle(start), strict=False)) for start in _STARTS)
    for sizes in _scale_down(free, texts, known, axes) if known else starts:
        fitting = _fit_constraints({axis: max(size, least.get(axis, 0)) for axis, size in sizes.items()}, axes)
        if fitting is not None and fitting not in found:
            found.append(fitting)
    return sorted(found, key=lambda sizes: _max_elements(sizes, texts, axes))


def workload_sizes(
    axes: Axes, free: Sequence[str], texts: Sequence[Sequence[str]], workloads: Sequence[Json]
) -> list[dict[str, int]]:
    """Return the sizes of the smallest, the middle and the largest workload that states every free axis."""
    order = sorted(_stated_sizes(axes, free, texts, workloads), key=lambda sizes: _max_elements(sizes, texts, axes))
    found = [order[place] for place in (0, len(order) // 2, -1)] if order else []
    return [sizes for number, sizes in enumerate(found) if sizes not in found[:number]]


def _stated_sizes(
    axes: Axes, free: Sequence[str], texts: Sequence[Sequence[str]], workloads: Sequence[Json]
) -> list[dict[str, int]]:
    """Return the free axes' sizes in each workload that states all. Only an axis that no tensor has may be 0."""
    said = [{safe_name(axis): size for axis, size in one["axes"].items()} for one in workloads]
    used = {name for names in (*texts, *map(variables, axes.derived.values())) for name in names}
    least = {axis: int(axis in used) for axis in free}
    return [{axis: one[axis] for axis in free} for one in said if all(one.get(a, -1) >= n for a, n in least.items())]


def _scale_down(
    free: Sequence[str], texts: Sequence[Sequence[str]], known: Sequence[Mapping[str, int]], axes: Axes
) -> Iterator[dict[str, int]]:
    """Yield scaled-down workload sizes. Each stays a multiple of gcd(its axis's sizes, 128). Gaps of 0 and 1 remain."""
    steps = {axis: _least_scaled_size([one[axis] for one in known]) for axis in free}
    divisors = {axis: math.gcd(math.gcd(*(one[axis] for one in known)), 128) for axis in free}
    fixed = {axis for axis in free if len({one[axis] for one in known}) == 1 and len(known) > 2}
    order = sorted(known, key=lambda one: _max_elements(one, texts, axes))
    tried = [(one, 1.0, _MOST) for one in order[:2] + order[len(order) // 2 :][:1]]
    varying = [axis for axis in free if len(free) == 1 or len({one[axis] for one in known}) > 1]
    if len(varying) == 1:  # of several, one may depend on another
        tried.append((order[-1], _PART, 4 * _MOST))
    for one, part, most in tried:
        for share in (1.0, 0.5, 0.25, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-10, 2.0**-12):
            smaller = {axis: one[axis] * share * (part if axis in varying else 1) for axis in free}
            sizes = {axis: max(steps[axis], int(n) // divisors[axis] * divisors[axis]) for axis, n in smaller.items()}
            sizes |= {axis: one[axis] for axis in fixed if one[axis] <= 64}
            for place, axis in enumerate(free):
                for other in free[:place]:
                    gaps = {each[axis] - each[other] for each in known}
                    if gaps in ({-1}, {0}, {1}):
                        sizes[axis] = sizes[other] + gaps.pop()
                        break
            if _max_elements(sizes, texts, axes) <= most or share == 2.0**-12:
                yield sizes
                break


def _least_scaled_size(stated: Sequence[int]) -> int:
    """Return how small an axis may get: gcd(stated sizes, 128), or the smallest size if larger and up to 4."""
    return max(math.gcd(math.gcd(*stated), 128), min(stated) if min(stated) <= 4 else 1)


def _max_elements(sizes: Mapping[str, int], texts: Sequence[Sequence[str]], axes: Axes) -> int:
    """Return the number of elements of the largest tensor."""
    from kernelzoo.operations.derived import completed_sizes

    found = completed_sizes(axes.derived, sizes)
    return max((math.prod(int(a) if a.isdigit() else found.get(a, 1) for a in names) for names in texts), default=0)


def _fit_constraints(sizes: dict[str, int], axes: Axes) -> dict[str, int] | None:
    """Return the sizes, enlarged until the constraints of the definition hold; None if they don't in a few steps."""
    tests = [node for node in constraints(axes.data) if isinstance(node, ast.Compare)]
    sizes = dict(sizes)
    for _ in range(40):
        try:
            values = axes.definition_sizes(sizes)
        except ValueError:
            return None
        wrong = next((node for node in tests if _constraint_holds(node, values) is False), None)
        if wrong is None:
            return sizes
        closer = _closer_sizes(wrong, sizes)
        if closer == sizes:
            return None
        sizes = closer
    return None


def _constraint_holds(node: ast.Compare, values: Mapping[str, int]) -> bool | None:
    """Whether a constraint that has only sizes holds; None for any other constraint."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if not names <= {*values} or not all(isinstance(each, _PLAIN) for each in ast.walk(node)):
        return None
    try:
        return bool(eval(compile(ast.Expression(node), "<constraint>", "eval"), {"__builtins__": {}}, dict(values)))
    except (ArithmeticError, TypeError):
        return None


def _closer_sizes(node: ast.Compare, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes closer to a constraint: rounded up to a multiple, set to the value, or with one size doubled."""
    found, right = dict(sizes), node.comparators[0]
    match node.left, node.ops[0], right:
        case ast.BinOp(left=ast.Name(id=name), op=ast.Mod(), right=ast.Constant(value=int(step))), ast.Eq(), _:
            axis = safe_name(name)
            found |= {axis: -(-sizes[axis] // step) * step} if axis in sizes else {}
            return found
        case ast.Name(id=name), ast.Eq(), ast.Constant(value=int(value)) if safe_name(name) in sizes:
            return found | {safe_name(name): value}
    side: ast.AST = right if isinstance(node.ops[0], ast.Lt | ast.LtE) else node.left
    for each in ast.walk(side):
        if isinstance(each, ast.Name) and safe_name(each.id) in found:
            found[safe_name(each.id)] *= 2
            break
    return found
