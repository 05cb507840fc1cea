"""The options that several commands share, and what their values may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelzoo.cli import output
from kernelzoo.errors import KernelZooError, UnknownNameError
from kernelzoo.operations import OPERATIONS

if TYPE_CHECKING:
    from kernelzoo.measure import Problem


class OptionError(KernelZooError, ValueError):
    """An option's value, or a combination of options, means nothing."""


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, on standard output.")]
Ops = Annotated[
    list[str],
    typer.Option(
        "--op",
        metavar="OP",
        default_factory=list,
        help=f"Operations, comma-separated or repeated: {', '.join(OPERATIONS)}.",
    ),
]
Backends = Annotated[
    list[str],
    typer.Option("--backend", metavar="NAME", default_factory=list, help="Backends, comma-separated or repeated."),
]
Dtypes = Annotated[
    list[str],
    typer.Option("--dtype", metavar="DTYPE", default_factory=list, help="Dtypes, comma-separated or repeated."),
]
Shapes = Annotated[
    list[str],
    typer.Option("--shape", metavar="4096x1024", default_factory=list, help="A shape of your own; may be repeated."),
]
Dim = Annotated[int, typer.Option("--dim", help="The axis that is reduced.")]
Modules = Annotated[
    list[Path],
    typer.Option(
        "--module",
        metavar="FILE.py",
        default_factory=list,
        help="A file that registers kernels, run in the measuring process only; may be repeated.",
    ),
]
Device = Annotated[str, typer.Option("--device", help="cuda, cuda:1 or cpu; by default a GPU where there is one.")]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Samples of each implementation; six at least tell much.")]
Cache = Annotated[str, typer.Option("--cache", metavar="cold|hot", help="State of the cache that is timed.")]
CrossCheck = Annotated[
    bool, typer.Option("--cross-check/--no-cross-check", help="Time with the profiler's clock too, on a GPU.")
]
Waive = Annotated[
    list[str],
    typer.Option(
        "--waive",
        metavar="ID",
        default_factory=list,
        help="Ids, or globs of them, to time even if they are wrong on special values alone; their rows say so.",
    ),
]
Patience = Annotated[
    float, typer.Option("--patience", metavar="SECONDS", min=0.1, help="Silence of a kernel that counts as hung.")
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="S", min=0, help="Repeats a run; by default another each time.")
]
Jobs = Annotated[
    int, typer.Option("--jobs", metavar="J", min=0, help="Processes at once; by default one for each processor.")
]
RunRecord = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.json", help="A record of the run.")]


def words(values: Iterable[str]) -> tuple[str, ...]:
    """The words of an option that may be repeated and may hold commas."""
    return tuple(word for value in values for word in value.split(",") if word)


def shape(text: str) -> tuple[int, ...]:
    """``"4096x1024"`` as (4096, 1024). Raises OptionError."""
    sizes = text.lower().split("x")
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        raise OptionError(f"no shape {text!r}; write positive sizes with an x between them, such as 4096x1024")
    return tuple(map(int, sizes))


def check_cache(cache: str) -> str:
    """``cache`` itself. Raises UnknownNameError."""
    if cache not in ("cold", "hot"):
        raise UnknownNameError("state of the cache", cache, ("cold", "hot"))
    return cache


def check_modules(modules: Sequence[Path]) -> list[str]:
    """Their paths as text, after it was said on standard error that they will run, and which backends that other
    distributions announce. No other code of anyone's is ever run. Raises OptionError for a path that isn't there."""
    from kernelzoo import packages

    for module in modules:
        if not module.is_file():
            raise OptionError(f"no file {str(module)!r} for --module")
    console = output.console(errors=True)
    for name, package, distribution in packages.announced():
        console.print(f"runs {package} (entry point {name} of {distribution}), {_MAY}")
    for module in modules:
        console.print(f"runs {module} (--module), {_MAY}")
    return [str(module) for module in modules]


_MAY = "with all that this user may do"


def problems(
    ops: Sequence[str], shapes: Sequence[str], dtypes: Sequence[str], shape_set: str = "quick", dim: int = -1
) -> tuple[Problem, ...]:
    """The problems of some shapes or, without any, of a named set.

    Raises UnknownNameError for an operation, a dtype or a set that isn't known, OptionError for a shape or an axis.
    """
    from kernelzoo import measure

    named = measure.problems(shape_set, tuple(ops), tuple(dtypes))
    if not shapes:
        return named
    sizes = [shape(text) for text in words(shapes)]
    for size in sizes:
        if not -len(size) <= dim < len(size):
            raise OptionError(f"no axis {dim} in a shape of {len(size)}; allowed: {-len(size)} to {len(size) - 1}")
    return tuple(measure.Problem(op, size, dtype, dim) for op in ops for dtype in dtypes for size in sizes)


def select(
    known: Iterable[str],
    patterns: Sequence[str] = (),
    ops: Sequence[str] = (),
    backends: Sequence[str] = (),
    variants: Sequence[str] = (),
) -> tuple[str, ...]:
    """The ids that the patterns name, or all, of these operations, backends and variants, where any are given.

    Raises UnknownNameError for a name that no id has, OptionError for a pattern that names nothing or where nothing is
    left.
    """
    ids = sorted(known)
    for place, kind, names in ((0, "backend", backends), (1, "operation", ops), (2, "variant", variants)):
        there = {id.split("/")[place] for id in ids}
        for name in names:
            if name not in there:
                raise UnknownNameError(kind, name, there)
    chosen = tuple(
        id
        for id in (choose(ids, patterns, ops) if patterns else ids)
        for backend, op, variant in [id.split("/")]
        if (not backends or backend in backends) and (not ops or op in ops) and (not variants or variant in variants)
    )
    if not chosen:
        raise OptionError("these options together leave no implementation; kernelzoo list shows them all")
    return chosen


def choose(known: Iterable[str], patterns: Sequence[str], ops: Sequence[str] = ()) -> tuple[str, ...]:
    """The ids that the patterns name, each once, in the patterns' order.

    A pattern is an id or a glob of ids, such as ``triton/softmax/*``; where ``ops`` are given, ``backend/variant``
    too, or ``backend`` for its ``auto`` (all its variants, if it has none). Raises OptionError for one that names
    nothing.
    """
    ids, chosen = sorted(known), list[str]()
    for pattern in patterns:
        found = [id for wanted in _full(pattern, ids, ops) for id in ids if fnmatchcase(id, wanted)]
        if ops:
            found = [id for id in found if id.split("/")[1] in ops]
        if not found:
            raise OptionError(_unknown(pattern, ids, ops))
        chosen += [id for id in found if id not in chosen]
    return tuple(chosen)


def _full(pattern: str, ids: Sequence[str], ops: Sequence[str]) -> list[str]:
    """Patterns of whole ids that a shorthand stands for."""
    parts = pattern.split("/")
    if len(parts) == 3 or not ops:
        return [pattern]
    if len(parts) == 2:
        return [f"{parts[0]}/{op}/{parts[1]}" for op in ops]
    return [
        f"{pattern}/{op}/{'auto' if any(fnmatchcase(id, f'{pattern}/{op}/auto') for id in ids) else '*'}" for op in ops
    ]


def _unknown(pattern: str, ids: Sequence[str], ops: Sequence[str]) -> str:
    if not ops and pattern.count("/") < 2:
        return f"no implementation {pattern!r}; name the operation with --op, or write a whole id, backend/op/variant"
    wanted = f" of {' or '.join(ops)}" if ops else ""
    near = get_close_matches(pattern, [*ids, *{id.split("/")[0] for id in ids}], 3)
    return f"no implementation {pattern!r}{wanted}; " + (
        f"did you mean {', '.join(near)}?" if near else "kernelzoo list shows them all"
    )
