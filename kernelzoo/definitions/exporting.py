"""Exports operations as definitions of flashinfer-bench."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType

from kernelzoo.definitions.files import Json
from kernelzoo.definitions.loading import loaded
from kernelzoo.files import write_atomically
from kernelzoo.operations import OPERATIONS
from kernelzoo.operations.declared import SUMMED, WIDE
from kernelzoo.operations.hooks import parameters
from kernelzoo.operations.signature import wide_dtype_name


def export_definition(name: str, dtype: str = "float32", path: str | Path | None = None) -> Json:
    """Return an operation as a definition of flashinfer-bench, for one dtype of its first input.

    If ``path`` is given, the definition is also written there. An operation by rows has tensors with the axes (outer,
    n, inner). The reference is the source of the operation's reference, and of what it uses from its module. Otherwise
    it may only use math and torch. That code computes in float64. A definition that was loaded is returned unchanged.

    >>> from kernelzoo.definitions import export_definition
    >>> export_definition("min", "bfloat16")["axes"]
    {'outer': {'type': 'var'}, 'n': {'type': 'var'}, 'inner': {'type': 'var'}}

    Raises UnknownNameError for an unknown operation, OSError if the file can't be written.
    """
    from kernelzoo.registry import check_operation_name

    check_operation_name(name)
    found = _build_definition(name, dtype) if name not in loaded else loaded[name].data
    if path is not None:
        write_atomically(Path(path), (json.dumps(found, indent=2) + "\n").encode())
    return found


def _build_definition(name: str, dtype: str) -> Json:
    op = OPERATIONS[name]
    axes = dict.fromkeys(axis for names in op.axes for axis in names)
    count = len(op.inputs)
    dtypes = [op.dtype_of(key, dtype) for key in op.inputs]
    of = dict(zip(op.inputs, dtypes, strict=True))
    wide = {"": dtype, WIDE: wide_dtype_name(dtype), SUMMED: dtype if "float" in dtype else "int64"}
    outs = [wide.get(out.dtype) or of.get(out.dtype, out.dtype) for out in op.outputs.values()]
    return {
        "name": f"{name}_{dtype}",
        "description": " ".join(op.doc.split("\n\n")[0].split()),
        "op_type": name,
        "axes": {
            f"size_{axis}" if axis.isdigit() else axis: {"type": "const", "value": int(axis)}
            if axis.isdigit()
            else {"type": "var"}
            for axis in axes
        },
        "inputs": _tensor_specs(op.inputs, op.axes[:count], dtypes)
        | {key: {"shape": None, "dtype": _scalar_dtype(scalar.default)} for key, scalar in op.scalars.items()},
        "outputs": _tensor_specs(op.outputs, op.axes[count:], outs),
        "reference": _reference_code(name, outs),
    }


def _tensor_specs(keys: Iterable[str], axes: Iterable[tuple[str, ...]], dtypes: Iterable[str]) -> Json:
    shapes = ([f"size_{axis}" if axis.isdigit() else axis for axis in names] for names in axes)
    return {key: {"shape": shape, "dtype": dtype} for key, shape, dtype in zip(keys, shapes, dtypes, strict=True)}


def _scalar_dtype(value: object) -> str:
    return "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"


def _reference_code(name: str, outs: list[str]) -> str:
    """Return Python code with a function ``run``."""
    op = OPERATIONS[name]
    function, first = op.hooks["reference"], next(iter(op.inputs))
    source = "\n\n\n".join(_collect_sources(function, {}).values())
    wide = "    {0} = {0}.double() if {0}.is_floating_point() else {0}\n"
    n = f"    n = {first}.shape[1]\n" if "n" in parameters(function) else ""
    dtype = f"    dtype = {first}.dtype\n" if "dtype" in parameters(function) else ""
    given = ", ".join(f"{key}={key}" for key in parameters(function) if key != "unit")
    unit = ", unit=2.0**-24" if "unit" in parameters(function) else ""
    casts = ", ".join(f"results[{number}].to(torch.{kind})" for number, kind in enumerate(outs))
    return (
        "from __future__ import annotations\n\nimport math\n\n"
        "import torch\nfrom torch import Tensor, dtype as Dtype\n\n\n"
        f"{source}\n\n\n"
        f"def run({', '.join((*op.inputs, *op.scalars))}):\n{dtype}"
        f"{''.join(wide.format(key) for key in op.inputs) if op.rounds else ''}{n}"
        f"    results = reference({given}{unit})\n"
        "    results = results if isinstance(results, tuple) else (results,)\n"
        f"    return {casts}\n"
    )


def _collect_sources(function: FunctionType, found: dict[str, str]) -> dict[str, str]:
    """Return source code by name: that of a function, after what the function uses from its own module."""
    for name in function.__code__.co_names:
        used = function.__globals__.get(name)
        if isinstance(used, FunctionType) and name not in found:
            _collect_sources(used, found)
        elif isinstance(used, int | float | str | tuple):
            found[name] = f"{name} = {used!r}"
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    found[function.__name__] = "\n".join(line for line in lines if not line.startswith("@"))
    return found
