"""Other people's kernels, to be measured beside ours: ``kernelzoo bench --module bench/peers/peers.py ...``.

They are taken as their projects publish them and called by their own launchers, on the rows of a matrix as they want
them. What a launcher would allocate is given it instead (the output is ours), so that nobody pays for a copy.
They go through the same gate as everything else: one that breaks the contract is reported as wrong, and not timed.

    quack     https://github.com/Dao-AILab/quack, pip install quack-kernels (CuTe DSL)
    liger     https://github.com/linkedin/Liger-Kernel, pip install liger-kernel (Triton)
    flaggems  https://github.com/flagos-ai/FlagGems, pip install flag_gems (Triton)
    cub       https://github.com/NVIDIA/cccl, in every CUDA toolkit (C++); needs nvcc
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import os
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch, require

if found := importlib.util.find_spec("flag_gems"):  # which sets it too, where a kernel may not change the environment
    os.environ["FLAGGEMS_SOURCE_DIR"] = str(Path(found.origin or "").parent.resolve())


def rows(id: str, x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A canonical problem as a contiguous matrix and its result; UnsupportedProblemError if it is none."""
    if x.size(2) != 1 or not x.is_contiguous() or not out.is_contiguous() or not x.is_cuda:
        raise UnsupportedProblemError(id, "it takes the rows of a contiguous matrix on a GPU")
    return x.squeeze(2), out.squeeze(-1)


class Allocating:
    """A stand-in for torch in a launcher's module: its first new tensor of the output's shape and dtype is ``out``."""

    def __init__(self, out: torch.Tensor) -> None:
        self._out = out

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty_like(self, like: torch.Tensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        assert like.shape == self._out.shape and (dtype or like.dtype) == self._out.dtype
        return self._out

    def empty(self, shape: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        if dtype == self._out.dtype and math.prod(shape) == self._out.numel():
            return self._out.view(tuple(shape))
        return torch.empty(shape, dtype=dtype, device=device)


def allocating(module: ModuleType, out: torch.Tensor, call: Launch) -> Launch:
    """Run a launcher of that module with ``out`` for what it allocates."""
    stand_in = Allocating(out)

    def launch() -> None:
        module.torch = stand_in  # type: ignore[attr-defined]
        try:
            call()
        finally:
            module.torch = torch  # type: ignore[attr-defined]

    return launch


@kernelzoo.register("quack", "softmax", "library")
def quack_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Quack's softmax: a row on a cluster of blocks, compiled for each row length."""
    matrix, result = rows("quack/softmax/library", x, out)
    if x.dtype == torch.float64:
        raise UnsupportedProblemError("quack/softmax/library", "it takes no float64")
    if matrix.size(1) * x.element_size() % 16:
        raise UnsupportedProblemError("quack/softmax/library", "it takes rows of whole vectors of 16 bytes")
    module = require("quack", "quack.softmax", "pip install quack-kernels")
    return lambda: module._softmax_fwd(matrix, result)


@kernelzoo.register("liger", "softmax", "library")
def liger_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Liger Kernel's softmax: a row on a block."""
    matrix, result = rows("liger/softmax/library", x, out)
    if matrix.size(1) > 65536:
        raise UnsupportedProblemError("liger/softmax/library", "it takes rows of up to 65536")
    require("liger", "liger_kernel.ops", "pip install liger-kernel")
    module = require("liger", "liger_kernel.ops.softmax", "pip install liger-kernel")
    return allocating(module, result, lambda: module._softmax_forward(matrix))


@kernelzoo.register("flaggems", "softmax", "library")
def flaggems_softmax(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' softmax: a row on a block, in one tile or online."""
    matrix, result = rows("flaggems/softmax/library", x, out)
    require("flaggems", "flag_gems", "pip install flag_gems")
    module = require("flaggems", "flag_gems.ops.softmax", "pip install flag_gems")
    return allocating(module, result, lambda: module.softmax(matrix, 1))


@kernelzoo.register("quack", "softmax_backward", "library")
def quack_softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Quack's backward of softmax: a row on a cluster of blocks, compiled for each row length."""
    id = "quack/softmax_backward/library"
    (slopes, result), (weights, _) = rows(id, grad, out), rows(id, y, out)
    if grad.dtype == torch.float64:
        raise UnsupportedProblemError(id, "it takes no float64")
    if slopes.size(1) * grad.element_size() % 16:
        raise UnsupportedProblemError(id, "it takes rows of whole vectors of 16 bytes")
    module = require("quack", "quack.softmax", "pip install quack-kernels")
    return lambda: module._softmax_backward(slopes, weights, result)


@kernelzoo.register("liger", "softmax_backward", "library")
def liger_softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Liger Kernel's backward of softmax: a row on a block."""
    id = "liger/softmax_backward/library"
    (slopes, result), (weights, _) = rows(id, grad, out), rows(id, y, out)
    if slopes.size(1) > 65536:
        raise UnsupportedProblemError(id, "it takes rows of up to 65536")
    require("liger", "liger_kernel.ops", "pip install liger-kernel")
    module = require("liger", "liger_kernel.ops.softmax", "pip install liger-kernel")
    block, warps = module.calculate_settings(slopes.size(1))
    return allocating(module, result, lambda: module._softmax_backward(slopes, weights, block, warps, False))


@kernelzoo.register("flaggems", "softmax_backward", "library")
def flaggems_softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' backward of softmax: a row on a block, in one tile or online."""
    id = "flaggems/softmax_backward/library"
    (slopes, result), (weights, _) = rows(id, grad, out), rows(id, y, out)
    require("flaggems", "flag_gems", "pip install flag_gems")
    module = require("flaggems", "flag_gems.ops.softmax", "pip install flag_gems")
    return allocating(module, result, lambda: module.softmax_backward(slopes, weights, 1, grad.dtype))


@kernelzoo.register("flaggems", "min", "library")
def flaggems_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """FlagGems' minimum with its indices, which it has no way to leave out."""
    matrix, result = rows("flaggems/min/library", x, out)
    require("flaggems", "flag_gems", "pip install flag_gems")
    module = require("flaggems", "flag_gems.ops.min", "pip install flag_gems")
    return allocating(module, result, lambda: module.min_dim(matrix, 1))


@kernelzoo.register("cub", "min", "library")
def cub_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """CUB's segmented reduction, or its whole one for a single row, with a minimum that keeps NaN."""
    id = "cub/min/library"
    matrix, result = rows(id, x, out)
    suffix = {torch.float32: "f32", torch.bfloat16: "bf16"}.get(x.dtype)
    if suffix is None:
        raise UnsupportedProblemError(id, "built for float32 and bfloat16")
    function = getattr(cub(), f"min_{suffix}")
    row_count, columns = matrix.shape
    needed = ctypes.c_size_t()

    def reduce(workspace: int | None) -> int:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        addresses = (ctypes.c_void_p(matrix.data_ptr()), ctypes.c_void_p(result.data_ptr()))
        sizes = (ctypes.c_longlong(row_count), ctypes.c_longlong(columns))
        status: int = function(ctypes.c_void_p(workspace), ctypes.byref(needed), *addresses, *sizes, stream)
        return status

    if reduce(None):
        raise RuntimeError(f"{id}: CUB refused {tuple(matrix.shape)}")
    workspace = torch.empty(max(needed.value, 1), dtype=torch.uint8, device=x.device)

    def launch() -> None:
        if status := reduce(workspace.data_ptr()):
            raise RuntimeError(f"{id}: CUDA error {status}")

    return launch


@functools.cache
def cub() -> ctypes.CDLL:
    """The shared library of cub_min.cu, built for this device; half a minute."""
    source = Path(__file__).with_name("cub_min.cu")
    built = Path(tempfile.mkdtemp(prefix="kernelzoo-cub-")) / "cub_min.so"
    major, minor = torch.cuda.get_device_capability()
    command = ["nvcc", "-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", f"-arch=sm_{major}{minor}"]
    subprocess.run([*command, str(source), "-o", str(built)], check=True, capture_output=True)
    return ctypes.CDLL(str(built))
