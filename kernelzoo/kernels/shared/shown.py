"""The facts of a compiled kernel, for inspection: its source, constants, machine code and resources."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from kernelzoo.kernels.shared import cubin
from kernelzoo.launch import Compiled


def describe_source(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a kernel's source, its file and its first line, keyed by the fields of ``Compiled``."""
    lines, first = inspect.getsourcelines(function)
    return {"source": textwrap.dedent("".join(lines)), "file": inspect.getfile(function), "line": first}


def describe_code(
    language: str, program: Any, symbol: str, binary: bytes, capability: int, constants: dict[str, Any], ptx: str | None
) -> Compiled:
    """Return a kernel for NVIDIA as ``Compiled``. ``program`` has a ``name`` and a Python ``function``."""
    return Compiled(
        name=program.name,
        language=language,
        constants=constants,
        symbol=symbol,
        binary=binary,
        ptx=ptx,
        **describe_source(program.function),
        **vars(cubin.resources(binary, symbol, capability)),
    )
