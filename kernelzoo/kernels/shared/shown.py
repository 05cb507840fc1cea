"""What is to be said of a kernel whose compiler needs no device: its source, its constants, its machine code."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from kernelzoo.kernels.shared import cubin
from kernelzoo.launch import Compiled


def written(function: Callable[..., Any]) -> dict[str, Any]:
    """A kernel's source, its file, and where in that it begins, as ``Compiled`` names them."""
    lines, first = inspect.getsourcelines(function)
    return {"source": textwrap.dedent("".join(lines)), "file": inspect.getfile(function), "line": first}


def shown(
    language: str, program: Any, symbol: str, binary: bytes, capability: int, constants: dict[str, Any], ptx: str | None
) -> Compiled:
    """A program with a ``name`` and a ``function``, as it is compiled for NVIDIA's devices."""
    return Compiled(
        name=program.name,
        language=language,
        constants=constants,
        symbol=symbol,
        binary=binary,
        ptx=ptx,
        **written(program.function),
        **vars(cubin.resources(binary, symbol, capability)),
    )
