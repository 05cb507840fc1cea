"""CUB, https://github.com/NVIDIA/cccl: C++, in every CUDA toolkit and in ``pip install nvidia-cuda-cccl``; needs nvcc.

Source: "cub::DeviceSegmentedReduce" and "cub::DeviceReduce", CUDA Core Compute Libraries,
https://nvidia.github.io/cccl/cub/api/structcub_1_1DeviceSegmentedReduce.html: ``Reduce``, ``Min`` and ``ArgMin`` with
one ``segment_size`` for all segments, since CCCL 3.2 (CUDA 13.2). Their older forms take offsets, and give a segment to
a block however long it is. ``cub::DeviceSegmentedScan`` is in CCCL since 3.3,
https://nvidia.github.io/cccl/cub/api/structcub_1_1DeviceSegmentedScan.html; ``cub::DeviceScan`` takes a single row.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.registry import Launch

from . import rows

FIXED_SIZE = 300200
"""The first CUB_VERSION with segments of one size."""
SEGMENTED_SCAN = 300300
"""The first one with a scan of segments."""
HEADERS = {"nvidia-cuda-cccl": "nvidia/cu13/include/cccl", "cuda-cccl": "cuda/cccl/headers/include"}
"""Distributions with the headers of CCCL, and where these lie there."""


@kernelzoo.register("cub", "min", "library")
def cub_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """CUB's reduction of segments of one size, or its whole one for a single row, with a minimum that keeps NaN."""
    return bound("library", x, out)


@kernelzoo.register("cub", "min", "plain")
def cub_plain_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """CUB's own minimum of segments of one size, or of a single row: it drops NaN."""
    return bound("plain", x, out)


@kernelzoo.register("cub", "sum", "library")
def cub_sum(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """CUB's sum of segments of one size, or of a single row, in float32."""
    return bound("library", x, out, "sum")


@kernelzoo.register("cub", "argmin", "library")
def cub_argmin(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """CUB's place of the minimum of segments of one size, or of a single row: it drops NaN."""
    return bound("library", x, out, "argmin")


@kernelzoo.register("cub", "cumsum", "library")
def cub_cumsum(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """CUB's running sums of segments, a segment on a block, or of a single row, in float32."""
    return bound("library", x, out, "cumsum")


def bound(variant: str, x: torch.Tensor, out: torch.Tensor, op: str = "min") -> Launch:
    """The launch of a function of CUB's. Raises UnsupportedProblemError for what it can't take."""
    id = f"cub/{op}/{variant}"
    matrix, result = rows(id, x, out)
    suffix = {torch.float32: "f32", torch.bfloat16: "bf16"}.get(x.dtype)
    if suffix is None:
        raise UnsupportedProblemError(id, "built for float32 and bfloat16")
    row_count, columns = matrix.shape
    source, name, since = ("cub_min", variant, FIXED_SIZE) if op == "min" else ("cub_rows", op, SEGMENTED_SCAN)
    if row_count > 1 and columns > 2**31 - 1:
        raise UnsupportedProblemError(id, "the size of a segment is an int")
    found = max(map(version, includes()), default=0)
    if found < since and (row_count > 1 or op != "min"):
        raise UnsupportedProblemError(id, f"CUB {found} has no segments of one size: pip install nvidia-cuda-cccl")
    function = getattr(built(source), f"{name}_{suffix}")
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


def includes() -> list[Path]:
    """Where CCCL's headers are, the newest first: $CCCL_INCLUDE, which comes before all, what is installed, and the
    toolkit's."""
    if named := os.environ.get("CCCL_INCLUDE"):
        return [Path(named)]
    found = []
    for distribution, folder in HEADERS.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(Path(str(importlib.metadata.distribution(distribution).locate_file(folder))))
    if compiler := shutil.which("nvcc"):
        found.append(Path(compiler).resolve().parents[1] / "include" / "cccl")
    return sorted(filter(version, found), key=version, reverse=True)


def version(folder: Path) -> int:
    """The CUB_VERSION of headers in a folder; 0 where there are none."""
    header = folder / "cub" / "version.cuh"
    told = re.search(r"define CUB_VERSION (\d+)", header.read_text(encoding="utf-8")) if header.exists() else None
    return int(told[1]) if told else 0


def command(architecture: str, to: Path, source: str = "cub_min") -> list[str]:
    """How a source beside this file is built, with the newest headers; nvcc's own come after those that are named."""
    file = Path(__file__).with_name(f"{source}.cu")
    options = ["-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", f"-arch={architecture}"]
    return ["nvcc", *options, *(f"-I{folder}" for folder in includes()[:1]), str(file), "-o", str(to)]


@functools.cache
def built(source: str) -> ctypes.CDLL:
    """The shared library of a source, built for this device; half a minute."""
    to = Path(tempfile.mkdtemp(prefix="kernelzoo-cub-")) / f"{source}.so"
    major, minor = torch.cuda.get_device_capability()
    subprocess.run(command(f"sm_{major}{minor}", to, source), check=True, capture_output=True)
    return ctypes.CDLL(str(to))
