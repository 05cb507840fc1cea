"""How tensors reach Warp, and how a kernel is launched on torch's stream."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

from kernelzoo import UnsupportedProblemError
from kernelzoo.launch import Launch

wp.config.log_level = 30  # warnings
wp.config.enable_backward = False
wp.init()

THREADS = 256
"""Threads of a block, on a GPU."""

DTYPES = {
    torch.float16: wp.float16,
    torch.bfloat16: wp.bfloat16,
    torch.float32: wp.float32,
    torch.float64: wp.float64,
    torch.int8: wp.int8,
    torch.int16: wp.int16,
    torch.int32: wp.int32,
    torch.int64: wp.int64,
    torch.uint8: wp.uint8,
    torch.bool: wp.uint8,
}


def wide(dtype: torch.dtype) -> Any:
    """Zero in the type that a float dtype is computed in."""
    return wp.float64(0.0) if dtype == torch.float64 else wp.float32(0.0)


def array(id: str, x: torch.Tensor) -> Any:
    """A tensor as an array of Warp, in the same memory. Raises UnsupportedProblemError."""
    strides = [step * x.element_size() for step in x.stride()]
    if max([*strides, *x.shape], default=0) >= 2**31:
        raise UnsupportedProblemError(id, "a size, or a stride in bytes, does not fit into 32 bits, as Warp has it")
    return wp.array(
        ptr=x.data_ptr() or None,
        dtype=DTYPES[x.dtype],
        shape=tuple(x.shape),
        strides=tuple(strides),
        device=wp.device_from_torch(x.device),
        copy=False,
    )


def bound(id: str, kernel: Any, tensors: Sequence[torch.Tensor], scalars: Sequence[Any], out: torch.Tensor) -> Launch:
    """A launch with a block for each row of the first tensor, of axes ``(outer, n, inner)``."""
    x = tensors[0]
    outer, _, inner = x.shape
    if not out.numel():
        return lambda: None
    device = wp.device_from_torch(x.device)
    command = wp.launch_tiled(
        kernel,
        dim=(outer, inner),
        inputs=[*(array(id, tensor) for tensor in tensors), *scalars],
        device=device,
        block_dim=THREADS if device.is_cuda else 1,
        record_cmd=True,
    )
    if not device.is_cuda:
        return functools.partial(_run, command, tensors)
    return functools.partial(_run_on_stream, command, tensors)


def _run(command: Any, tensors: Sequence[torch.Tensor]) -> None:  # which stay alive as long as the launch
    command.launch()


def _run_on_stream(command: Any, tensors: Sequence[torch.Tensor]) -> None:
    command.launch(stream=_stream(torch.cuda.current_stream(tensors[0].device).cuda_stream, tensors[0].device))


@functools.cache
def _stream(handle: int, device: torch.device) -> Any:
    return wp.Stream(wp.device_from_torch(device), cuda_stream=handle)
