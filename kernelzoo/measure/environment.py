"""The environment of a result: the device's name, and the versions of everything involved."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import platform
from pathlib import Path

from kernelzoo.lazy import torch

# Distributions that affect results, where installed.
_DISTRIBUTIONS = (
    *("kernelzoo", "torch", "triton", "helion", "cuda-tile", "nvidia-cuda-tileiras", "nvidia-cutlass-dsl"),
    *("cupy-cuda12x", "cupy-cuda13x", "numba", "numba-cuda", "cuda-core", "cuda-bindings", "apache-tvm-ffi"),
    *("nvidia-cuda-cccl", "cuda-cccl", "quack-kernels", "liger-kernel", "flag-gems", "tilelang"),
    *("numpy", "pytest-benchmark"),
)


@functools.cache
def device_name(device: str) -> str:
    """Return the name of the GPU or processor, such as ``NVIDIA H200``."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@functools.cache
def gpu_uuid(device: str) -> str | None:
    """Return the UUID of a GPU, such as ``GPU-0a1b...``; None for the host."""
    if not device.startswith("cuda"):
        return None
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"


@functools.cache
def versions(device: str) -> dict[str, str]:
    """Return versions by name: of Python, relevant installed distributions, CUDA or ROCm, and the driver."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if "torch" in found:
        found["torch"] = torch.__version__
        if torch.version.cuda:
            found["cuda"] = torch.version.cuda
        if torch.version.hip:
            found["rocm"] = torch.version.hip
        if device.startswith("cpu"):
            found["threads"] = str(torch.get_num_threads())
    driver = Path("/proc/driver/nvidia/version")
    if device.startswith("cuda") and driver.exists():
        words = driver.read_text(encoding="utf-8").split()
        found["driver"] = next((word for word in words if word[0].isdigit() and word.count(".") >= 1), "unknown")
    return found
