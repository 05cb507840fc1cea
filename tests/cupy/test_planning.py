"""Launches of the CUDA C++ kernels held to what a device has, for every knob and for devices made up."""

import re

import with_nvrtc  # noqa: F401  (which skips this module without a compiler)
from knobs import ARCHES
from planning import Planning

from kernelzoo.device import Device
from kernelzoo.launch import LaunchStep


class TestCupy(Planning):
    backend = "cupy"
    compiled = (("sm_87", "float32"), ("sm_120", "float32"))
    knob_architectures = ARCHES[1:]

    def within(self, step: LaunchStep, device: Device, dtype: str, noted: None) -> None:
        assert 1 <= step.cluster <= device.cluster_blocks, step
        one_a_piece = re.match("split_grid|split_ring", step.kernel)  # blocks on each multiprocessor
        most = device.multiprocessors * (1 if one_a_piece else 2)
        assert not step.cooperative or step.grid[0] <= most, step
