"""The field's own definitions: JSON files of flashinfer-bench, which SOL-ExecBench uses too.

A *definition* says what an operation takes and gives, and has a reference as code. A *solution* is one implementation,
with its sources. A *workload* says sizes and scalars. Definitions and solutions hold code: whoever loads one runs it.
https://bench.flashinfer.ai/docs/flashinfer-trace/definition
"""

from __future__ import annotations

from pathlib import Path

from kernelzoo.definitions.exporting import export_definition
from kernelzoo.definitions.files import DefinitionError, read
from kernelzoo.definitions.loading import load_definition
from kernelzoo.definitions.solutions import load_solution

__all__ = ["DefinitionError", "export_definition", "load", "load_definition", "load_solution", "read"]


def load(path: str | Path) -> None:
    """Load a definition or a solution, whichever the file is. Raises DefinitionError."""
    kind, _ = read(path)
    if kind == "definition":
        load_definition(path)
    elif kind == "solution":
        load_solution(path)
    else:
        raise DefinitionError(f"{path} is a file of workloads, and registers nothing; name it with --workload")
