"""Launches of Numba's kernels held to what a device has, for every knob and for devices made up."""

# ruff: noqa: E402 - what is missing is asked first

from typing import Any

import pytest

for package in ("numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

import matrix
import torch
from planning import Planning

from kernelzoo import registry
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.kernels.numba import launch
from kernelzoo.kernels.numba.min import choose, columns
from kernelzoo.kernels.numba.tiling import make_row_view
from kernelzoo.launch import LaunchStep


class TestNumba(Planning):
    backend = "numba"
    compiled = (("sm_120", "float32"),)
    more = (matrix.Laid("numba", "softmax", "split", (64, 131072), "float32", -1, "sm_120"),)

    @staticmethod
    def static_shared(step: LaunchStep) -> int:
        """Softmax's clusters have room for the pairs of 32 warps of 16 blocks, in float64 at the most."""
        return (16 * 32 * 2 if step.kernel.startswith("cluster_kernel") else 256) * 8

    def noting(self, monkeypatch: pytest.MonkeyPatch, device: Device) -> list[Any]:
        """The most threads that each kernel is compiled for, as it is called."""
        registry.import_kernels("numba", "kernelzoo.kernels.numba")
        most_threads: list[Any] = []
        call = launch.RecordedKernel.bind

        def noted(self: launch.RecordedKernel, *arguments: int, **asked: Any) -> Any:
            bind = call(self, *arguments, **asked)
            return lambda *tensors: (most_threads.append(self.source.threads), bind(*tensors))[1]

        monkeypatch.setattr(launch.RecordedKernel, "bind", noted)
        monkeypatch.setattr(  # as many as the device holds, if registers leave room for them
            *(launch.RecordedKernel, "count_resident_blocks"),
            lambda self, threads: device.multiprocessors * max(1, device.threads // threads),
        )
        return most_threads

    def within(self, step: LaunchStep, device: Device, dtype: str, noted: int) -> None:
        largest = 1 if device.capability < 90 else 16 if device.arch in matrix.LARGE_CLUSTERS else 8
        assert step.threads <= noted <= 1024 and 1 <= step.cluster <= largest, step
        assert not step.cooperative or step.grid[0] <= device.multiprocessors * (device.threads // noted), step

    @pytest.mark.parametrize(("shape", "type"), [((1100, 19), "float32"), ((20011, 33), "bfloat16")])
    def test_leave_is_asked_for_where_a_kernel_declares_shared_memory_itself(self, shape: Any, type: str) -> None:
        """Below 48 kB of dynamic shared memory, too: unasked, what the kernel declares counts."""
        _, wrong, _ = matrix.examined([matrix.Laid("numba", "softmax", "auto", shape, type, 0, "sm_90")])
        assert not wrong


@pytest.mark.parametrize(
    ("shape", "dtype", "lanes", "threads", "form"),
    [
        ((8192, 8192), "bfloat16", 8, 512, "columns"),  # a strip for each SM
        ((8192, 8192), "float32", 8, 256, "columns"),  # two
        ((4096, 4096), "bfloat16", 8, 512, "columns"),
        ((2048, 2048), "bfloat16", 4, 512, "columns"),
        ((65536, 256), "float32", 4, 512, "split_arrival"),
        ((100, 65537), "bfloat16", 32, 256, "columns"),
    ],
    ids=str,
)
def test_minima_of_columns_fill_the_device(shape: Any, dtype: str, lanes: int, threads: int, form: str) -> None:
    x = torch.empty((1, *shape), dtype=getattr(torch, dtype), device="meta")
    v = make_row_view(ARCHITECTURES["sm_90"], x, out=torch.empty_like(x[:, 0]))
    cut = columns.choose_strips(v, v.device.multiprocessors)
    assert cut is not None and (cut[1].lanes, cut[1].threads) == (lanes, threads)
    assert choose.auto.__wrapped__(v, choose.Knobs()) == form
