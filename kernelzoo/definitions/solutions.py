"""Makes implementations from solutions: writes the sources to a folder, and wraps the entry point in a launch."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernelzoo import children, registry
from kernelzoo.definitions.files import DefinitionError, Json, identifier, read
from kernelzoo.definitions.loading import arguments_of, loaded
from kernelzoo.definitions.reference import order_results
from kernelzoo.errors import ContractError
from kernelzoo.files import write_atomically
from kernelzoo.launch import Launch, ResultCopyingLaunch, void
from kernelzoo.lazy import torch
from kernelzoo.operations.expected import why_unlike
from kernelzoo.packages import backend_packages, load_module

_COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".cuh")
"""Suffixes of files with a compiled entry point. Any other file is a Python module that has it as a function."""

_FLAGS = {"cflags": [], "cuda_cflags": ["-O3", "--use_fast_math"], "ld_flags": ["-lcuda"]}
"""SOL-ExecBench's own compiler flags, for C++ that states no others."""

_KIND = "wrong kind of result"


def load_solution(path: str | Path) -> registry.Implementation:
    """Read a solution of flashinfer-bench, and register it for its definition, which must be loaded already.

    **This runs its code**, and compiles CUDA C++. Its id is ``AUTHOR/DEFINITION/NAME``. In destination-passing style it
    writes into the outputs. Otherwise it must return results of the right shape, dtype and device, which are copied
    into the outputs. The copy is not timed.

    Raises DefinitionError for a file that is no solution, an unknown definition, or a solution that can't be built.
    """
    kind, data = read(path)
    if kind != "solution":
        raise DefinitionError(f"{path} is a {kind}, and no solution")
    op = identifier(data["definition"])
    if op not in loaded:
        raise DefinitionError(f"{path} is a solution of {data['definition']!r}; load its definition first")
    folder = children.make_scratch_folder()
    for source in data["sources"]:
        file = folder / source["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, source["content"].encode())
    try:
        function = _build_entry_point(data, folder)
    except DefinitionError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if "error:" in line]  # of a compiler's hundreds
        words = (" | ".join(lines[:3]) or str(error)).replace(f"{folder}/", "")
        raise DefinitionError(f"{path} can't be built: {type(error).__name__}: {words}") from error
    bind = _bind_output_writing_solution(op, function)
    if not _takes_outputs(data, op, function):
        bind = bind_returning(op, lambda arguments, outs: partial(function, *arguments))
    doc = data.get("description") or f"{data['name']}, by {data['author']}."
    return add_solution(data["author"], op, data["name"], bind, doc)


def add_solution(author: str, op: str, name: str, bind: Callable[..., Launch], doc: str) -> registry.Implementation:
    """Register a bind function under its author's name, with the prefix ``by_`` if a backend has that name."""
    backend, variant = identifier(author), identifier(name)
    backend = f"by_{backend}" if backend in backend_packages() else backend
    bind.__doc__ = doc
    registry.register(backend, op, variant)(bind)
    return registry.implementation(f"{backend}/{op}/{variant}")


def _build_entry_point(data: Json, folder: Path) -> Any:
    """Return the entry point, compiled if necessary."""
    spec = data["spec"]
    entry, _, symbol = spec["entry_point"].partition("::")
    if not entry.endswith(_COMPILED):
        module = _load_module(folder, entry)
        if not hasattr(module, symbol):
            raise AttributeError(f"{entry} has no function {symbol!r}")
        return getattr(module, symbol)
    files = [str(folder / source["path"]) for source in data["sources"]]
    cpp_files = [file for file in files if file.endswith((".cpp", ".cc", ".cxx", ".c"))]
    cuda_files = [file for file in files if file.endswith(".cu")]
    name = identifier(data["name"])
    if (spec.get("binding") or ("tvm-ffi" if "language" in spec else "torch")) == "torch":
        from torch.utils.cpp_extension import load

        stated = {key: value for key, value in (spec.get("compile_options") or {}).items() if value}
        said = {} if "language" in spec else {**_FLAGS, **stated}
        flags = {f"extra_{key.replace('ld_flags', 'ldflags')}": value for key, value in said.items()}
        return getattr(load(name, cpp_files + cuda_files, extra_include_paths=[str(folder)], **flags), symbol)
    try:
        cpp = importlib.import_module("tvm_ffi.cpp")
    except ImportError:
        raise DefinitionError(
            f"{data['name']} is bound by TVM FFI, and the package is not installed; pip install apache-tvm-ffi"
        ) from None
    places = {"extra_include_paths": [str(folder)], "build_directory": str(folder)}
    return getattr(cpp.load(name, cpp_files=cpp_files, cuda_files=cuda_files, **places), symbol)


def _load_module(folder: Path, entry: str) -> Any:
    """Load a module of the folder, which may import other files there."""
    sys.path.insert(0, str(folder))
    try:
        return load_module(folder / entry)
    finally:
        sys.path.remove(str(folder))


def _takes_outputs(data: Json, op: str, function: Callable[..., Any]) -> bool:
    """Whether the function takes the outputs as its last arguments. If the file doesn't say, its parameters decide."""
    said = data["spec"].get("destination_passing_style")
    if said is not None:
        return bool(said)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # Compiled: pybind11 writes names and types into the first line of its documentation.
        said = re.search(r"\((.*)\) -> (.+)", function.__doc__ or "")
        return said is None or said[2].strip() == "None" or said[1].count(": ") > len(loaded[op].names)
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        words = "does not say whether it writes outputs: add destination_passing_style to its spec"
        raise DefinitionError(f"{data['name']} takes any number of arguments, and {words}")
    required = sum(one.default is one.empty for one in parameters)
    return not required <= len(loaded[op].names) <= len(parameters)


def check_returned(op: str, returned: Any, outs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """Check a function's results against the definition, and return them.

    Raises ContractError for a wrong number, shape, dtype or device, or for something that is no plain tensor.
    """
    names = list(loaded[op].data["outputs"])
    try:
        results = order_results(returned, names)
    except KeyError as error:
        raise ContractError(f"it returned a dict without {error}", _KIND) from None
    if len(results) != len(outs):
        raise ContractError(f"it returned {len(results)} results, must return {len(outs)}: {', '.join(names)}", _KIND)
    for name, result, out in zip(names, results, outs, strict=True):
        what = type(result).__name__ if type(result) not in (torch.Tensor, torch.nn.Parameter) else ""
        if what or result.layout != torch.strided:  # a subclass could do its work when it is copied
            raise ContractError(f"it returned {what or result.layout} as {name}, must return a plain tensor", _KIND)
        if words := why_unlike(result, out.shape, out.dtype, out.device):
            raise ContractError(f"the {name} that it returned {words}", _KIND)
    return results


def _bind_output_writing_solution(op: str, function: Callable[..., Any]) -> Callable[..., Launch]:
    """Return a bind function for a solution that writes into the outputs."""

    def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        arguments, outs = arguments_of(op, tensors, scalars)
        return lambda: void(function(*arguments, *outs))

    return bind


def bind_returning(
    op: str, make_call: Callable[[list[Any], tuple[torch.Tensor, ...]], Callable[[], Any]]
) -> Callable[..., Launch]:
    """Return a bind function for a solution that returns results. ``make_call(arguments, outputs)`` returns a call."""

    def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        arguments, outs = arguments_of(op, tensors, scalars)

        def copy_results(found: Any) -> None:
            for out, result in zip(outs, check_returned(op, found, outs), strict=True):
                if result.data_ptr() != out.data_ptr():
                    out.copy_(result)

        return ResultCopyingLaunch(make_call(arguments, outs), copy_results)

    return bind
