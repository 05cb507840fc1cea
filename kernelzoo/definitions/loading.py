"""Makes operations from definitions, with the reference and bounds from the definition's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernelzoo import registry
from kernelzoo.definitions.axes import Axes
from kernelzoo.definitions.drawing import input_distributions
from kernelzoo.definitions.files import DefinitionError, Json, identifier, read, safe_name
from kernelzoo.definitions.meant_sizes import small_valid_sizes, workload_sizes
from kernelzoo.definitions.reference import CHANGES, Reference, error_hook, errors_hook, rename_parameters, result_hook
from kernelzoo.definitions.tolerance import Tolerance, ToleratedResults, tolerance_of, uses_tolerance_of_problem_set
from kernelzoo.errors import RegistrationError, UndecidableError
from kernelzoo.launch import Launch, ResultCopyingLaunch
from kernelzoo.lazy import torch
from kernelzoo.operations import FLOATS, OPERATIONS, Arguments, Operation, Output, Scalar, operation
from kernelzoo.operations.expected import Bounds
from kernelzoo.operations.signature import zip_dict

REFERENCE = "reference"
"""The backend, and its only variant, that runs a definition's reference unchanged."""

EXPECTS = "_kernelzoo_expects"
"""The name, in a reference's code, of a function that returns the problem's own check for a call."""

_LARGEST = 1e15
"""The largest magnitude of an input, because most references square their inputs in float32."""


@dataclass(frozen=True)
class LoadedDefinition:
    """The data of a loaded definition that its operation does not contain."""

    names: tuple[str, ...]
    """Names of all inputs and scalars in the operation, in the argument order of the reference and of solutions."""
    data: Json
    workloads: tuple[Json, ...] = ()
    """The workloads in the file that belongs to the definition."""


loaded: dict[str, LoadedDefinition] = {}
"""Definitions by the name of the operation."""


def load_definition(path: str | Path) -> Operation:
    """Read a definition of flashinfer-bench or SOL-ExecBench, and declare its operation. **This runs its reference.**

    Axes become named axes. An expression becomes a derived size, and so does an axis that a constraint defines. An
    input without a shape becomes a scalar, with values from the workloads next to the file, else 1. So does an axis
    that no input has. ``custom_inputs_entrypoint`` draws the inputs if there is one. Integer inputs need a range: keys
    ``low`` and ``high``, a usual name such as ``kv_indptr``, or a workload that marks them as random.

    The right result is the reference in float64, even where its code converts to other dtypes. The allowed error has
    three parts. First: two roundings of the first input's dtype, plus float32 rounding errors that grow with the
    longest axis. The result may have this error, and so may each input. Six runs on perturbed inputs show its effect.
    Second: four times the reference's own error as written, in these runs. For one element in 1000, the worst error in
    its row or in nine elements of similar size counts. Third: the output's rounding. If the reference itself
    exceeds the bounds, the case is undecidable, and judges no kernel. Inputs are at most 1e15, because most references
    square them in float32. The reference itself is registered as ``reference/NAME/reference``.

    Raises DefinitionError for a file that is no definition, or one that can't be judged; the message says why.
    """
    kind, data = read(path)
    if kind != "definition":
        raise DefinitionError(f"{path} is a {kind}, and no definition")
    return declare_operation(data, path, workloads_beside(Path(path)))


def declare_operation(
    data: Json, path: str | Path, workloads: tuple[Json, ...], given: Mapping[str, Any] | None = None
) -> Operation:
    """Declare the operation of a definition. ``given``: names that its code uses. Raises DefinitionError."""
    name, where = identifier(data["name"]), str(path)
    tensors = {key: tensor for key, tensor in data["inputs"].items() if tensor["shape"] is not None}
    if not tensors:
        raise DefinitionError(f"{path}: it takes no tensor")
    if scalars := [key for key, tensor in data["outputs"].items() if tensor["shape"] is None]:
        raise DefinitionError(f"{path}: its output {', '.join(scalars)} is no tensor")
    if data.get("custom_inputs_entrypoint"):  # its function may ask for axes that only workloads state
        said = {axis: {"type": "var"} for one in workloads for axis in one["axes"]}
        data = {**data, "axes": {**said, **data["axes"]}}
    for key, tensor in {**data["inputs"], **data["outputs"]}.items():
        if tensor["dtype"].startswith("complex"):
            raise DefinitionError(f"{path}: {key} is {tensor['dtype']}, which kernelzoo does not judge")
    run, axes = Reference(data, where, given or {}), Axes(where, data)
    inputs = input_distributions(axes, run.space, workloads)
    order = tuple(map(safe_name, data["inputs"]))
    outputs = {
        safe_name(key): Output(axes.shape_text(key, one["shape"]), one["dtype"]) for key, one in data["outputs"].items()
    }
    first = next(iter(tensors.values()))["dtype"]
    floats = tuple(safe_name(key) for key, tensor in tensors.items() if tensor["dtype"] in FLOATS)
    dtypes = {safe_name(key): tensor["dtype"] for key, tensor in tensors.items()}
    errors = errors_hook(run, order, dtypes, [one.dtype for one in outputs.values()])
    body = {
        "__doc__": data.get("description") or f"{data['name']}, as {Path(path).name} defines it.",
        **inputs.inputs,
        **{safe_name(key): _to_scalar(key, axes, workloads) for key, x in data["inputs"].items() if x["shape"] is None},
        **outputs,
        "domain": dict.fromkeys(floats, lambda info, n: min(info.max, _LARGEST)),
        "reference": result_hook(run.exact_results, order),
        "written": result_hook(run.run_on_copies, order),
        "error": error_hook(errors, order),
        "errors": errors,
    }
    texts = [one.names for one in inputs.inputs.values()] + [one.names for one in outputs.values()]
    unbound = _unbound_axes(axes, inputs.inputs, outputs, every=bool(data.get("custom_inputs_entrypoint")))
    free = [name for name in dict.fromkeys(name for names in texts for name in names) if not name.isdigit()]
    free = [name for name in dict.fromkeys((*free, *unbound)) if name not in axes.derived]
    body["sizes"] = small_valid_sizes(axes, free, texts, workloads, inputs.least)
    body["workloads"] = workload_sizes(axes, free, texts, workloads)
    if not body["sizes"]:
        raise DefinitionError(f"{path}: no small sizes were found that its constraints allow")
    if stated := tolerance_of(workloads, {}):
        body["tolerance"] = str(stated)
    if expects := (given or {}).get(EXPECTS) or (
        partial(_tolerance_check, name, run) if uses_tolerance_of_problem_set() else None
    ):
        body["expects"] = rename_parameters(expects, ("args",))
    if axes.derived:
        body["derived"] = axes.derived
    if inputs.draws:
        body["draws"] = rename_parameters(inputs.draws, ("sizes", "generator"))
    if inputs.scalars:
        body["scalars"] = rename_parameters(inputs.scalars, ("sizes",))
    body |= {axis: Scalar(1) for axis in unbound if axis not in body}
    known = loaded.get(name)
    operation(dtypes=(first,), name=name)(type(name, (), body))
    loaded[name] = LoadedDefinition(order, data, workloads)
    if known is None:
        registry.register(REFERENCE, name, REFERENCE)(_bind_reference(name, run, order))
    return OPERATIONS[name]


def declare_self_drawing_operation(
    name: str,
    description: str,
    inputs: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    code: str,
    path: str | Path,
    given: Mapping[str, Any],
) -> Operation:
    """Declare the operation of code whose function ``_kernelzoo_draw`` draws the inputs ``x0``, ``x1`` and so on.

    Its sizes and dtypes are those of the tensors. ``given``: names that the code uses. Raises DefinitionError.
    """

    def spec(x: torch.Tensor) -> Json:
        return {"shape": list(x.shape), "dtype": str(x.dtype).removeprefix("torch.")}

    data = {
        "name": name,
        "description": description,
        "axes": {},
        "inputs": {f"x{number}": spec(x) for number, x in enumerate(inputs)},
        "outputs": {"out" if len(results) == 1 else f"out{number}": spec(x) for number, x in enumerate(results)},
        "reference": code,
        "custom_inputs_entrypoint": "_kernelzoo_draw",
    }
    try:
        return declare_operation(data, path, (), given)
    except RegistrationError as error:  # as for a dtype that kernelzoo does not know
        raise DefinitionError(f"{path}: {error}") from None


def _tolerance_check(name: str, run: Reference, args: Arguments) -> ToleratedResults:
    """Return a check by the problem set's own tolerance, or by SOL-ExecBench's default if no workload has one."""
    op = OPERATIONS[name]
    given, _ = arguments_of(name, args.inputs, zip_dict(op.scalars, args.scalars))
    results = [result.to(dtype) for result, dtype in zip(run.run_on_copies(given), op.out_dtypes(args), strict=True)]
    tolerance = tolerance_of(loaded[name].workloads, op.named_sizes_and_scalars(args)) or Tolerance()
    return ToleratedResults(tuple(Bounds(name, right, right) for right in results), tolerance=tolerance)


def workloads_beside(path: Path) -> tuple[Json, ...]:
    """Return a definition's workloads, from ``workload.jsonl`` in its folder or from flashinfer-bench's ``workloads``.

    Raises DefinitionError for a malformed file.
    """
    there = [path.with_name("workload.jsonl"), path.with_name("workloads.jsonl"), path.with_suffix(".jsonl")]
    for above in list(path.parents)[1:4]:
        if "definitions" in path.parts:
            below = path.relative_to(above)
            if below.parts[0] == "definitions":
                there.append(above.joinpath("workloads", *below.parts[1:]).with_suffix(".jsonl"))
    for file in there:
        if file.is_file():
            kind, found = read(file)
            if kind == "workloads":
                return tuple(found)
    return ()


def _unbound_axes(axes: Axes, inputs: Mapping[str, Any], outputs: Mapping[str, Any], *, every: bool) -> list[str]:
    """Return the free axes that no input has, which a call must state. ``every``: also axes that no tensor has."""
    from kernelzoo.operations.derived import variables

    bound = {name for one in inputs.values() for name in one.names}
    named = [name for one in (*inputs.values(), *outputs.values()) for name in one.names]
    named += [name for text in axes.derived.values() for name in variables(text)]
    named += [axes.axis_text(axis) for axis in axes.data["axes"]] if every else []
    free = [name for name in named if not name.isdigit() and name not in axes.derived]
    return [name for name in dict.fromkeys(free) if name not in bound]


def _to_scalar(key: str, axes: Axes, workloads: Sequence[Json]) -> Scalar:
    """Return a scalar input with its axis's value, else the workloads' values (the first is the default), else 1."""
    tensor, axis = axes.data["inputs"][key], axes.data["axes"].get(key, {})
    if axis.get("type") == "const":
        return Scalar(axis["value"])
    said = [one["inputs"].get(key, {}).get("value") for one in workloads]
    values = list(dict.fromkeys(value for value in said if value is not None))
    if values:
        return Scalar(values[0], also=tuple(values[1:3]))
    if tensor["dtype"] == "bool":
        return Scalar(True, also=(False,))
    if key.endswith("offset"):
        return Scalar(0)
    return Scalar(1.0, also=(0.375,)) if "float" in tensor["dtype"] else Scalar(1)


def _bind_reference(name: str, run: Reference, order: Sequence[str]) -> Callable[..., Launch]:
    def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        arguments, outs = arguments_of(name, tensors, scalars)

        def launch() -> tuple[Any, ...]:
            before = [getattr(x, "_version", 0) for x in arguments]
            results = run(arguments)
            for key, x, version in zip(order, arguments, before, strict=True):
                if getattr(x, "_version", 0) != version:
                    raise UndecidableError(f"{CHANGES} {key}")
            return results

        def copy_results(results: tuple[Any, ...]) -> None:
            for out, result in zip(outs, results, strict=True):
                out.copy_(result)

        return ResultCopyingLaunch(launch, copy_results)

    bind.__doc__ = "The reference of the definition, as it is written."
    return bind


def arguments_of(
    name: str, tensors: tuple[torch.Tensor, ...], scalars: Mapping[str, Any]
) -> tuple[list[Any], tuple[torch.Tensor, ...]]:
    """Return a call's arguments in the definition's own order, and the outputs."""
    op, order = OPERATIONS[name], loaded[name].names
    given = {**dict(zip(op.inputs, tensors, strict=False)), **scalars}
    return [given[key] for key in order], tensors[len(op.inputs) :]
