"""``kernelzoo inspect``: the compiled code of a kernel, with or without a GPU."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelzoo import inspect as engine
from kernelzoo import packages, registry
from kernelzoo.cli import options, output, sizes
from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import BackendUnavailableError, InspectionError
from kernelzoo.inspect import Kernel
from kernelzoo.measure import Problem
from kernelzoo.report.reading import load
from kernelzoo.report.results import ResultsError

Shape = Annotated[str | None, options.option("--shape", "SHAPE", "The shape it is bound to; by default 4096x4096.")]
Arch = Annotated[str, options.option("--arch", "ARCH", "The architecture it is compiled for, such as sm_80 or sm_100.")]
Profile = Annotated[str, options.option("--profile", "TOOL", "Run one launch on a GPU here under ncu, nsys or proton.")]

STAGES = ("", "ttir", "ttgir", "llir")


def inspect(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="backend/op/variant, as kernelzoo list shows it.", autocompletion=options.complete_ids
        ),
    ],
    shape: Shape = None,
    *,
    axes: options.Axes,
    dtype: Annotated[
        str | None,
        options.option(
            "--dtype",
            "DTYPE",
            "The dtype it is bound to, such as bf16; by default float32.",
            callback=lambda value: options.full_dtype(value) if value else None,
            autocompletion=options.complete_dtypes,
        ),
    ] = None,
    dim: options.Dim = -1,
    arch: Arch = "sm_90",
    module: options.Modules,
    source: Annotated[bool, options.flag("--source", "Print the source; alone, it needs no language.")] = False,
    ir: Annotated[
        str, options.option("--ir", "STAGE", "Print what Triton's compiler makes on the way: ttir, ttgir or llir.")
    ] = "",
    ptx: Annotated[bool, options.flag("--ptx", "Print the PTX.")] = False,
    sass: Annotated[bool, options.flag("--sass", "Print the machine code.")] = False,
    results: Annotated[
        Path | None,
        options.option("--results", "FILE.json", "Compute the limit from the ceilings in this results file."),
    ] = None,
    profile: Profile = "",
    json: options.Json = False,
) -> int:
    """Show the kernels that one call launches: registers, shared memory, grid, occupancy; source, IR, PTX, SASS.

    It also shows the shortest possible time: the bytes to move / the data sheet's bandwidth, or that of --results.
    Nothing runs, and no GPU is needed, because a device of the architecture is simulated. --source alone prints the
    implementation's source files, and needs no language installed. With --module, your kernels' launches are traced on
    tensors without data. Only --profile runs anything: warm launches on this machine's GPU, the last in the profiler.

    Exit status: 0; 2 for an unknown name, a problem that the variant refuses, or a missing language or compiler.
    """
    modules = options.check_modules(module) if module else []
    ours = engine.find_registered_ids(modules) if modules else {}
    (known,) = options.match_ids([*(i.id for i in registry.implementations()), *ours], [id])[:1]

    def inspect_problem(problem: Problem) -> tuple[Kernel, ...]:
        where = problem.shape, problem.dtype, problem.dim, arch
        return engine.inspect(known, *where, modules=modules, sizes=dict(problem.sizes))

    def make_problem() -> Problem:
        shapes = [shape] if shape else sizes.default_shapes([known.split("/")[1]], bool(axes))
        problems = sizes.problems(
            [known.split("/")[1]], shapes, [dtype] if dtype else [], dim=dim, sizes=axes, usual=("float32",)
        )
        if len(problems) > 1:
            raise options.OptionError(f"inspect shows one problem, and these are {len(problems)}")
        return problems[0]

    if ir not in STAGES:
        raise options.OptionError(f"--ir takes {', '.join(STAGES[1:])}, not {ir!r}")
    if profile:
        from kernelzoo.cli.profiling import profile_launch

        if ir or ptx or sass or source or results:
            raise options.OptionError("--profile goes without --source, --ir, --ptx, --sass and --results")
        printed = profile_launch(profile, known, make_problem(), modules)
        output.print_json({"id": known, "output": printed}) if json else print(printed, end="")
        return 0
    if source and not (ir or ptx or sass):
        _show_files(known, ours.get(known), lambda: inspect_problem(make_problem()), json)
        return 0
    problem = make_problem()
    kernels = inspect_problem(problem)
    limit = _shortest_possible_time(problem, kernels[0].arch, results)
    asked = [name for name, wanted in (("source", source), (ir, ir), ("ptx", ptx), ("sass", sass)) if wanted]
    if json:
        output.print_json({"id": known, "limit": limit, "kernels": [asdict(kernel) for kernel in kernels]})
    elif asked:
        for kernel in kernels:
            for name in asked:
                _print_code(kernel, name)
    else:
        console = output.console()
        for kernel in kernels:
            console.print(f"{kernel.name} ({kernel.language})", style="bold")
            table = output.make_table("", "")
            for name, value in _kernel_facts(kernel).items():
                table.add_row(name, value)
            output.show(console, table)
        if limit is not None:
            told = f"limit of the problem: {limit['us']:.2f} µs, {limit['bytes'] / 1e6:.1f} MB {limit['by']}"
            output.print_note(console, told)
    return 0


def _show_files(id: str, module: str | None, inspected: Callable[[], tuple[Kernel, ...]], json: bool) -> None:
    """Print an implementation's source files. If it only chooses other implementations, print the chosen ones' files
    instead. If its choice is unknown, because the language is not installed, print its own files."""
    forms, note = [id], ""
    if module is None and registry.implementation(id).chooses:
        try:
            forms = list(dict.fromkeys(kernel.implementation for kernel in inspected()))
        except (BackendUnavailableError, InspectionError) as error:
            note = f"{id} chooses among other forms; which one can't be told here: {error}"
    found = [path for form in forms for path in packages.files(form)]
    found = [Path(module)] if module else found
    sources = {str(path): path.read_text(encoding="utf-8") for path in found}
    if json:
        output.print_json({"id": id, "note": note, "files": [{"path": p, "source": sources[p]} for p in sources]})
        return
    aside = output.console(errors=True)
    if note:
        aside.print(output.shorten_reason(note))
    for path, code in sources.items():
        aside.print(f"{path}:", style="bold")
        print_text(code, "python" if path.endswith(".py") else "cuda")


def _shortest_possible_time(problem: Problem, arch: str, results: Path | None) -> dict[str, Any] | None:
    """Return the shortest possible time of a problem, its bytes, and the source of the bandwidth.

    Returns None for a CPU without ``results``. Raises ResultsError if ``results`` lack the operation's bandwidth."""
    op, moved = problem.op, problem.bytes
    if results is not None:
        rows = [row for group in load([results]).groups for row in group.rows if row.op == op and row.ceiling_gb_per_s]
        if not rows:
            raise ResultsError(f"{results} holds no ceiling for {op}: it has no result of a GPU")
        ceiling, floor = rows[-1].ceiling_gb_per_s or 0.0, rows[-1].floor_us or 0.0
        by = f"at the {ceiling:.0f} GB/s measured on {rows[-1].device}, after {floor:.2f} µs for a launch"
        return {"us": floor + moved / ceiling / 1e3, "bytes": moved, "by": by}
    if arch not in ARCHITECTURES:
        return None
    a = ARCHITECTURES[arch]
    by = f"at the {a.bandwidth / 1e9:.0f} GB/s of the {a.name}'s data sheet"
    return {"us": moved / a.bandwidth * 1e6, "bytes": moved, "by": by}


def _kernel_facts(kernel: Kernel) -> dict[str, str]:
    spilled = "" if not kernel.local_bytes else f", {kernel.local_bytes} bytes of local memory"
    facts: dict[str, Any] = {
        "implementation": kernel.implementation,
        "assumed": f"{kernel.arch}: {kernel.device}",
        "source": kernel.source_file,
        "registers per thread": None if kernel.registers is None else f"{kernel.registers}{spilled}",
        "shared memory per block": None if kernel.shared_bytes is None else f"{kernel.shared_bytes} bytes",
        "grid": _dimensions_text(kernel.grid),
        "block": _dimensions_text(kernel.block),
        "cluster": None if kernel.cluster in (None, (1, 1, 1)) else _dimensions_text(kernel.cluster),
        "cooperative": "yes: all blocks at once" if kernel.cooperative else None,
        "launches": None if kernel.launches == 1 else kernel.launches,
        "occupancy": None
        if kernel.occupancy is None
        else f"{kernel.occupancy.fraction:.0%}, {kernel.occupancy.blocks} blocks per multiprocessor, "
        f"limited by {', '.join(kernel.occupancy.limited_by)}",
        "constants": ", ".join(f"{name}={value}" for name, value in kernel.constants.items()) or None,
        "machine code": kernel.sass_missing,
    }
    return {name: str(value) for name, value in facts.items() if value is not None}


def _dimensions_text(sizes: tuple[int, ...] | None) -> str | None:
    return None if sizes is None else " x ".join(map(str, sizes))


def _print_code(kernel: Kernel, what: str) -> None:
    code = kernel.stages.get(what) if what in STAGES else getattr(kernel, what)
    if code is None:
        missing = (kernel.sass_missing if what == "sass" else None) or f"{kernel.language} has none here"
        output.console(errors=True).print(f"no {what} of {kernel.name}: {missing}")
    else:
        source = "python" if (kernel.source_file or "").partition(":")[0].endswith(".py") else "cuda"
        print_text(code, {"source": source, "ptx": "ptx", "llir": "llvm"}.get(what, "text"))  # as Pygments names them


def print_text(code: str, lexer: str) -> None:
    """Print code as it is, highlighted on a terminal."""
    console = output.console()
    if console.is_terminal:
        from rich.syntax import Syntax

        console.print(Syntax("", lexer).highlight(code), end="")  # not wrapped: the terminal breaks long lines
    else:
        print(code)
