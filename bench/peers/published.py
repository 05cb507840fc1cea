"""Kernels that stand in a project's examples and in no package: they are read from a clone of it.

Set PEERS_SOURCES to a folder that holds a clone named helion, at the version that is installed.

Source: "Softmax", Helion's examples, https://helionlang.com/examples/softmax.html, tuned by its autotuner, for
HELION_AUTOTUNE_BUDGET_SECONDS a problem where that is set.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

from . import Allocating, rows


@kernelzoo.register("helionexamples", "softmax", "simple")
def helion_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Helion's example: torch's softmax on tiles of whole rows, tuned."""
    return helion_example("helionexamples/softmax/simple", "softmax", x, out)


@kernelzoo.register("helionexamples", "softmax", "two_pass")
def helion_softmax_two_pass(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Helion's example: rows in tiles, read twice, tuned."""
    return helion_example("helionexamples/softmax/two_pass", "softmax_two_pass", x, out)


def helion_example(id: str, name: str, x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A kernel of examples/softmax.py, tuned for the problem, with the output for what its host code allocates."""
    matrix, result = rows(id, x, out)
    require("helionexamples", "helion", "pip install helion")
    kernel = getattr(example(id, "helion/examples/softmax.py"), name)
    run = tuned(kernel, matrix.shape, matrix.dtype, matrix.device)
    names, stand_in = run.__globals__, Allocating(result)

    def launch() -> None:
        names["torch"] = stand_in
        try:
            run(matrix)
        finally:
            names["torch"] = torch

    return launch


@functools.cache
def tuned(kernel: Any, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Any:
    """What Helion's autotuner found the fastest, as a function of its generated module."""
    sample = (torch.randn(shape, dtype=dtype, device=device),)
    bound = kernel.bind(sample)
    return bound.compile_config(bound.autotune(sample))


def example(id: str, path: str) -> ModuleType:
    """A file of a clone as a module, run once. Raises UnsupportedProblemError where there is none."""
    file = Path(os.environ.get("PEERS_SOURCES", "")) / path
    name = f"kernelzoo_example_{path.replace('/', '_').removesuffix('.py')}"
    if name in sys.modules:
        return sys.modules[name]
    if "PEERS_SOURCES" not in os.environ or not file.is_file():
        raise UnsupportedProblemError(id, f"set PEERS_SOURCES to a folder that holds {path}, of a clone")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
