"""Reads and writes the JSON files of flashinfer-bench, which SOL-ExecBench uses too; reads KernelBench's files.

A *definition* describes an operation, with a reference as code. A *solution* is one implementation, with its sources. A
*workload* has sizes and scalars. Definitions and solutions hold code: loading one runs it.
https://bench.flashinfer.ai/docs/flashinfer-trace/definition
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from kernelzoo.definitions.exporting import export_definition
from kernelzoo.definitions.files import DefinitionError, read
from kernelzoo.definitions.gpumode import defines_kernel, is_task_folder, load_custom_kernel, load_task_folder
from kernelzoo.definitions.kernelbench import is_problem, is_submission, load_problem, load_submission
from kernelzoo.definitions.loading import load_definition, loaded
from kernelzoo.definitions.solutions import load_solution
from kernelzoo.errors import KernelZooError, RegistrationError
from kernelzoo.operations import OPERATIONS
from kernelzoo.packages import load_module
from kernelzoo.registry import implementations

__all__ = [
    "DefinitionError",
    "export_definition",
    "is_problem",
    "is_task_folder",
    "load_custom_kernel",
    "load_definition",
    "load_file",
    "load_file_locating_errors",
    "load_problem",
    "load_solution",
    "load_submission",
    "load_task_folder",
    "read",
]


def load_file(path: str | Path) -> None:
    """Load a user's file: Python that registers kernels, or a file of flashinfer-bench, KernelBench or gpu-mode.

    This runs the file's code. Raises DefinitionError, and whatever a Python file raises.
    """
    if is_task_folder(path):
        load_task_folder(path)
    elif Path(path).suffix == ".json":
        kind, _ = read(path)
        if kind == "workloads":
            raise DefinitionError(f"{path} is a file of workloads, and registers nothing; name it with --workload")
        load = load_definition if kind == "definition" else load_solution
        load(path)
    elif defines_kernel(path):
        load_custom_kernel(path)
    elif is_problem(path):
        load_problem(path)
    elif is_submission(path):
        load_submission(path)
    else:
        modules, count = {*sys.modules}, len(implementations()) + len(OPERATIONS)
        module = load_module(str(path))
        if loaded and module.__name__ not in modules and len(implementations()) + len(OPERATIONS) == count:
            raise DefinitionError(f"{path} registers no kernel; a submission defines ModelNew or custom_kernel")


def load_file_locating_errors(path: str) -> None:
    """Load a user's file. An error other than KernelZooError becomes a RegistrationError that names the file's line."""
    try:
        load_file(path)
    except KernelZooError:
        raise
    except BaseException as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = "" if line is None else f", line {line}"
        raise RegistrationError(f"{path}{where}: {type(error).__name__}: {error}") from error
