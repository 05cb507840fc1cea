"""cuda.compute, https://github.com/NVIDIA/cccl, ``pip install cuda-cccl``: CUB from Python.

Source: "cuda.compute", CUDA Core Compute Libraries, https://nvidia.github.io/cccl/python/compute.html: objects that
``make_segmented_reduce`` and ``make_reduce_into`` build once, ``max_segment_size`` for the best kernel, and iterators
for the offsets. Its reduction of segments of one size is CUB's alone. ``make_inclusive_scan`` takes one row, and its
argmin, an example there, returns pairs. Version 1.2 writes four bytes into an output of bfloat16, so only float32 is
measured.
"""

from __future__ import annotations

from typing import Any

import torch

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.launch import void
from kernelzoo.registry import Launch, require

from . import rows

REMEDY = "pip install cuda-cccl"


class Stream:
    """torch's current stream, as the protocol that cuda.compute asks for."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, torch.cuda.current_stream().cuda_stream


def keeps_nan(a: Any, b: Any) -> Any:
    """The smaller one, NaN if either is NaN."""
    return a if (a < b or a != a) else b


@kernelzoo.register("cudacompute", "min", "library")
def compute_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """cuda.compute's segmented reduction, or its whole one for a single row, with a minimum that keeps NaN."""
    return bound("library", x, out)


@kernelzoo.register("cudacompute", "min", "plain")
def compute_plain_min(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """cuda.compute's segmented reduction, or its whole one for a single row, with its own minimum: it drops NaN."""
    return bound("plain", x, out)


@kernelzoo.register("cudacompute", "sum", "library")
def compute_sum(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """cuda.compute's segmented reduction, or its whole one for a single row, in float32."""
    return bound("library", x, out, "sum")


@kernelzoo.register("cudacompute", "cumsum", "library")
def compute_cumsum(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """cuda.compute's inclusive scan of a single row, in float32."""
    return bound("library", x, out, "cumsum")


def bound(variant: str, x: torch.Tensor, out: torch.Tensor, op: str = "min") -> Launch:
    """A launch of the object that is built for the problem."""
    id = f"cudacompute/{op}/{variant}"
    matrix, result = rows(id, x, out)
    (count, columns), stream = matrix.shape, Stream()
    if x.dtype != torch.float32:
        raise UnsupportedProblemError(id, "float32 is measured here: into bfloat16 it writes four bytes")
    if op == "cumsum" and count > 1:
        raise UnsupportedProblemError(id, "it takes a single row")
    numpy = require("cudacompute", "numpy", "pip install numpy")
    compute = require("cudacompute", "cuda.compute", REMEDY)
    least = keeps_nan if variant == "library" else compute.OpKind.MINIMUM
    operator = least if op == "min" else compute.OpKind.PLUS
    initial = numpy.array(numpy.inf if op == "min" else 0, dtype=numpy.float32)
    how: dict[str, Any] = {"d_in": matrix.view(-1), "d_out": result.view(-1), "op": operator}
    how["init_value" if op == "cumsum" else "h_init"] = initial
    if count == 1:
        call = (compute.make_inclusive_scan if op == "cumsum" else compute.make_reduce_into)(**how)
        how["num_items"] = columns
    else:
        counting = compute.CountingIterator(numpy.int64(0))
        for name, step in (("start_offsets_in", 0), ("end_offsets_in", 1)):
            how[name] = compute.TransformIterator(counting, offset_of(columns, step))
        call = compute.make_segmented_reduce(**how)
        how |= {"num_segments": count, "max_segment_size": columns}
    needed = call(temp_storage=None, stream=stream, **how)
    workspace = torch.empty(max(needed, 1), dtype=torch.uint8, device=x.device)
    return lambda: void(call(temp_storage=workspace, stream=stream, **how))


def offset_of(columns: int, step: int) -> Any:
    """Where a row begins, or ends, as a function of its number that is compiled for the device."""

    def offset(row: Any) -> Any:
        return (row + step) * columns

    return offset
