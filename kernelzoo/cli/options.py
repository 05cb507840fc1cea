"""The options that several commands share, and checks of their values."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelzoo import operations, packages, registry
from kernelzoo.cli import output
from kernelzoo.definitions import is_task_folder
from kernelzoo.definitions.files import read
from kernelzoo.definitions.tolerance import VARIABLE
from kernelzoo.errors import KernelZooError, UnknownNameError, closest_names
from kernelzoo.operations import CALLED, FLOATS, INTEGERS, OPERATIONS
from kernelzoo.report.former_ids import current_id


class OptionError(KernelZooError, ValueError):
    """An option's value, or a combination of options, can't be used."""


def split_words(values: Iterable[str]) -> tuple[str, ...]:
    """Split the values of a repeatable option at commas."""
    return tuple(word for value in values for word in value.split(",") if word)


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise UnknownNameError for a name that is not in ``known``."""
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)


# These callbacks run while the command line is parsed, before anything heavy is imported or started. If --module is
# given, names are checked only after the module has run, because it may add backends and operations.


def _check_ops(context: typer.Context, value: list[str]) -> list[str]:
    for name in () if context.params.get("module") else split_words(value):
        registry.check_operation_name(name)
    return value


def _check_backends(context: typer.Context, value: list[str]) -> list[str]:
    check_names("backend", () if context.params.get("module") else split_words(value), registry.backends())
    return value


def _full_dtypes(value: list[str]) -> list[str]:
    return [full_dtype(name) for name in split_words(value)]


def full_dtype(name: str) -> str:
    """Return the full name of a dtype, such as float16 for fp16. Raises UnknownNameError."""
    full, dtypes = operations.expand_dtype_name(name), (*FLOATS, *INTEGERS)
    if full not in dtypes:
        raise UnknownNameError("dtype", name, dtypes)
    return full


def _check_device(value: str) -> str:
    if not re.fullmatch(r"(cpu|cuda(:\d+)?)?", value):
        raise OptionError(f"no device {value!r}; allowed: cpu, cuda, cuda:1 and so on")
    return value


def _check_shapes(value: list[str]) -> list[str]:
    for text in value:
        sizes = text.split(",")
        if len(sizes) > 1 and all(size.strip().isdigit() for size in sizes):
            meant = "x".join(size.strip() for size in sizes)
            raise OptionError(
                f"--shape {text} names {len(sizes)} shapes of one axis each; did you mean --shape {meant}? "
                "If not, repeat --shape"
            )
        for one in split_words([text]):
            parse_shape(one)
    return value


def _check_workloads(value: list[Path]) -> list[Path]:
    for path in value:
        if (kind := read(path)[0]) != "workloads":
            raise OptionError(f"{path} is a {kind}; name it with --{kind}")
    return value


def option(flags: str, metavar: str, help: str, **settings: Any) -> Any:
    return typer.Option(*flags.split(), metavar=metavar, help=help, **settings)


def flag(flags: str, help: str) -> Any:
    return typer.Option(*flags.split(), help=help)


def repeated(flags: str, metavar: str, help: str, **settings: Any) -> Any:
    """Return an option that may be repeated. Its default is an empty list."""
    return option(flags, metavar, help, default_factory=list, show_default=False, **settings)


# Functions that complete values in a shell, without heavy imports.


def known_ids() -> list[str]:
    """Return the id of every implementation, whether or not it can run on this machine."""
    return [implementation.id for implementation in registry.implementations()]


def complete_ids(incomplete: str) -> list[str]:
    return [id for id in known_ids() if id.startswith(incomplete)]


def _completer(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a completer for the last name of a comma-separated list."""

    def complete(incomplete: str) -> list[str]:
        before, comma, word = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in known() if name.startswith(word)]

    return complete


complete_ops = _completer(lambda: OPERATIONS)
complete_dtypes = _completer(lambda: (*FLOATS, *INTEGERS))
_complete_backends = _completer(registry.backends)
_complete_variants = _completer(lambda: sorted({id.split("/")[2] for id in known_ids()}))

_SOME = "comma-separated or repeated"
_OPS_HELP = f"Operations, {_SOME}: {', '.join(CALLED)}."
_DTYPES_HELP = f"Dtypes, {_SOME}; short names such as fp16 and bf16 work too."

Json = Annotated[bool, flag("--json", "Print one JSON document, and nothing else, on standard output.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids, or globs in quotes: 'triton/softmax/*'.", autocompletion=complete_ids),
]
Ops = Annotated[list[str], repeated("--op", "OP", _OPS_HELP, callback=_check_ops, autocompletion=complete_ops)]
Backends = Annotated[
    list[str],
    repeated("--backend", "NAME", f"Backends, {_SOME}.", callback=_check_backends, autocompletion=_complete_backends),
]
Variants = Annotated[list[str], repeated("--variant", "NAME", f"Variants, {_SOME}.", autocompletion=_complete_variants)]
Dtypes = Annotated[
    list[str], repeated("--dtype", "DTYPE", _DTYPES_HELP, callback=_full_dtypes, autocompletion=complete_dtypes)
]
Shapes = Annotated[
    list[str], repeated("--shape", "4096x1024", "A shape of your own; may be repeated.", callback=_check_shapes)
]
Dim = Annotated[int, option("--dim", "AXIS", "The axis that is reduced.")]
Axes = Annotated[
    list[str],
    repeated(
        "--axes",
        "M=4096,N=781",
        "A size for each axis, in place of --shape; may be repeated.",
        callback=lambda value: [text for text in value if parse_axes(text) is not None],
    ),
]
Workloads = Annotated[
    list[Path],
    repeated(
        "--workload",
        "FILE.jsonl",
        "flashinfer-bench's workloads: sizes and scalars, in place of --axes.",
        callback=_check_workloads,
    ),
]
Modules = Annotated[
    list[Path],
    repeated(
        "--module --definition --solution --reference --submission",
        "FILE",
        "A file that registers kernels, flashinfer-bench's JSON as --definition and --solution, or KernelBench's files "
        "as --reference and --submission. It runs in a separate process.",
        is_eager=True,
    ),
]
Device = Annotated[
    str, option("--device", "DEVICE", "cuda, cuda:1 or cpu; by default a GPU, if any.", callback=_check_device)
]
Gpus = Annotated[str, option("--gpus", "all|0,1", "Spread the work over several GPUs, with a process to each.")]
Rounds = Annotated[int, option("--rounds", "N", "Samples of each; take six or more.", min=1)]
Cache = Annotated[str, option("--cache", "cold|hot", "Whether the data is in the cache when it is timed.")]
Clock = Annotated[str, option("--clock", "device|call", "Time launches, or whole calls beside torch's own.")]
Energy = Annotated[bool, flag("--energy", "Measure the energy of a launch too, on a GPU: half a second a row.")]
CrossCheck = Annotated[bool, flag("--cross-check/--no-cross-check", "Time with the profiler's clock too, on a GPU.")]
Waive = Annotated[
    list[str],
    repeated(
        "--waive",
        "ID",
        "Ids or globs to time although they are wrong on special values (NaN, infinities); their rows say so.",
    ),
]
Patience = Annotated[
    float, option("--patience", "SECONDS", "A kernel without a sign of life for this long counts as hung.", min=0.1)
]
Seed = Annotated[
    int | None, option("--seed", "S", "Seed of the random values. Without it, each run takes a new one.", min=0)
]
Jobs = Annotated[
    int, option("--jobs", "J", "Processes at once; by default one for each core.", min=0, show_default=False)
]
RunRecord = Annotated[Path | None, option("-o --output", "FILE.json", "Write a record of the run.")]


TheirTolerance = Annotated[
    bool, flag("--their-tolerance", "Judge by the tolerances of a definition's workloads, as its own set does.")
]


def use_definition_tolerances(enabled: bool) -> None:
    """Set whether the judging processes use the tolerances that come with definitions."""
    os.environ[VARIABLE] = str(int(enabled))


def op_of(id: str) -> str:
    return id.split("/")[1]


def parse_shape(text: str) -> tuple[int, ...]:
    """Parse ``"4096x1024"`` into (4096, 1024). Raises OptionError."""
    sizes = text.lower().split("x")
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        # Sizes with other separators, perhaps in brackets.
        digits = [size for size in re.split(r"[\s,;×x*()\[\]]+", text.lower()) if size]
        like = len(digits) > 1 and all(size.isascii() and size.isdigit() and int(size) for size in digits)
        meant = f"did you mean --shape {'x'.join(digits)}? " if like else ""
        raise OptionError(f"no shape {text!r}; {meant}write positive sizes with an x between them, such as 4096x1024")
    return tuple(map(int, sizes))


def split_shapes(texts: Sequence[str]) -> list[str]:
    """Split texts with comma-separated shapes into one text per shape. Raises OptionError."""
    return list(split_words(_check_shapes(list(texts))))


def parse_axes(text: str) -> dict[str, int]:
    """Parse ``"M=4096,N=781"`` into {"M": 4096, "N": 781}. Raises OptionError."""
    found = dict[str, int]()
    for word in split_words([text]):
        name, _, size = map(str.strip, word.partition("="))
        if name in found or not (name.isidentifier() and size.isdigit() and int(size)):
            raise OptionError(f"no axes {text!r}; write each axis once with its size, such as M=4096,N=781")
        found[name] = int(size)
    return found


def check_modules(modules: Sequence[Path]) -> list[str]:
    """Print which third-party code will run. Returns the modules' paths. Raises OptionError for a missing path."""
    for module in modules:
        if not (module.is_file() or is_task_folder(module)):
            raise OptionError(f"no file {str(module)!r} for --module, or an option that names a file of kernels")
    console = output.console(errors=True)
    for name, package, distribution in packages.entry_point_backends():
        console.print(f"runs {package} (entry point {name} of {distribution}), with all that this user may do")
    for module in modules:
        console.print(f"runs {module}, with all that this user may do")
    return [str(module) for module in modules]


def format_command(command: str, id: str, modules: Sequence[Path], device: str, *words: str) -> str:
    """Return the command line that repeats one case."""
    named = [word for module in modules for word in ("--module", str(module))]
    return shlex.join(["kernelzoo", command, id, *named, *(["--device", device] if device else []), *words])


def select_ids(
    known: Iterable[str],
    patterns: Sequence[str] = (),
    ops: Sequence[str] = (),
    backends: Sequence[str] = (),
    variants: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the ids that match the patterns, operations, backends and variants. An empty filter matches all.

    If a backend has only one variant of an operation, ``auto`` matches that variant too. Raises UnknownNameError for
    an unknown name, or OptionError if no id matches.
    """
    ids = sorted(known)
    count = Counter(id.rpartition("/")[0] for id in ids)
    if any(variant.endswith(registry.BATCH_INVARIANT) for variant in variants):
        ids += [id + registry.BATCH_INVARIANT for id in ids]
    for place, kind, names in ((0, "backend", backends), (1, "operation", ops), (2, "variant", variants)):
        check_names(kind, names, {id.split("/")[place] for id in ids})

    def named(id: str) -> bool:
        backend, op, variant = id.split("/")
        fits = not variants or variant in variants or ("auto" in variants and count[f"{backend}/{op}"] == 1)
        return fits and (not backends or backend in backends) and (not ops or op in ops)

    chosen = tuple(filter(named, match_ids(ids, patterns, ops) if patterns else ids))
    if not chosen:
        raise OptionError("these options together leave no implementation; kernelzoo list shows them all")
    return chosen


def select_ids_before_modules(modules: Sequence[object], *filters: Sequence[str]) -> tuple[str, ...]:
    """Run :func:`select_ids` on the ids known before modules run. Return () if there are modules, which may add ids."""
    return () if modules else select_ids(known_ids(), *filters)


def match_ids(known: Iterable[str], patterns: Sequence[str], ops: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the ids that match the patterns, without duplicates, in the patterns' order.

    A pattern is an id or a glob of ids, such as ``triton/softmax/*``. It may end in ``+batch_invariant``, for row
    results that don't depend on other rows. If ``ops`` are given, it may be ``backend/variant`` or ``backend``. A
    backend stands for its variant ``auto``, or else all its variants. Raises OptionError if a pattern has no match."""
    ids, chosen = sorted(known), list[str]()
    for pattern in patterns:
        plain = pattern.removesuffix(registry.BATCH_INVARIANT)
        found = [id for wanted in _expand_to_id_patterns(plain, ids, ops) for id in ids if fnmatchcase(id, wanted)]
        if ops:
            found = [id for id in found if id.split("/")[1] in ops]
        if not found:
            raise OptionError(_no_match_message(pattern, ids, ops))
        chosen += [named for id in found if (named := id + pattern[len(plain) :]) not in chosen]
    return tuple(chosen)


def _expand_to_id_patterns(pattern: str, ids: Sequence[str], ops: Sequence[str]) -> list[str]:
    """Expand a shorthand such as ``backend/variant`` into patterns of whole ids."""
    parts = pattern.split("/")
    if len(parts) == 3 or not ops:
        return [pattern]
    if len(parts) == 2:
        return [f"{parts[0]}/{op}/{parts[1]}" for op in ops]
    return [
        f"{pattern}/{op}/{'auto' if any(fnmatchcase(id, f'{pattern}/{op}/auto') for id in ids) else '*'}" for op in ops
    ]


def _no_match_message(pattern: str, ids: Sequence[str], ops: Sequence[str]) -> str:
    """Return the error message for a pattern without a match."""
    if pattern.count("/") == 2 and (now := current_id(pattern)) in ids and (not ops or now.split("/")[1] in ops):
        return f"no implementation {pattern!r} any more; {now} does its work"
    shorthands, meant = dict[str, str](), dict[str, str]()
    for backend, op, variant in (id.split("/") for id in ids):
        if not ops or op in ops:
            shorthands |= {backend: f"'{backend}/*'", f"{backend}/{variant}": f"'{backend}/*/{variant}'"}
            meant |= {f"{backend}/{op}/{variant}": "", op: f"'*/{op}/*'", variant: f"'*/*/{variant}'"}
            meant[f"{backend}/{op}"] = f"'{backend}/{op}/*'"
    meant |= dict.fromkeys(shorthands, "") if ops else shorthands
    near = next(iter([pattern] if pattern in meant else closest_names(pattern, list(meant), 1)), "")
    return (
        f"no implementation {pattern!r}{' of ' if ops else ''}{' or '.join(ops)}; "
        + (f"did you mean {meant[near] or near}?" if near else "kernelzoo list shows them all")
        + (f" With --op, {pattern!r} is enough" if not ops and pattern in shorthands else "")
    )


def why_missing(
    patterns: Sequence[str], backends: Sequence[str], unavailable: Mapping[str, str], chosen: Sequence[str]
) -> list[str]:
    """Return the reasons why named ids and backends can't run on this machine, without duplicates.

    ``unavailable`` maps the ids of ``chosen`` that can't run to the reason. A reason is returned if its id is one of
    ``patterns``. It is also returned if none of its backend's ids can run, and the user named the backend: in
    ``backends``, or as the first part of a pattern."""
    named = {*backends, *(pattern.split("/")[0] for pattern in patterns)}
    absent = {id.split("/")[0] for id in chosen} - {id.split("/")[0] for id in chosen if id not in unavailable}
    return list(
        dict.fromkeys(
            reason for id, reason in unavailable.items() if id in patterns or id.split("/")[0] in named & absent
        )
    )
