"""Every CUDA C++ implementation inspected without a device, in a process of its own as a user has it."""

import re
from pathlib import Path

import pytest
from asking import Answers, assert_launch
from inspections import Inspection, assert_disassembled
from with_nvrtc import cupy  # which skips this module without a compiler

import kernelzoo.kernels.cupy as backend
from kernelzoo import inspect, inspecting
from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import InspectionError
from kernelzoo.inspect import Kernel, Request
from kernelzoo.kernels.cupy import compiler
from kernelzoo.kernels.shared import cubin, driver

FUSED = Path(backend.__file__).parent / "softmax/fused.cu"


def require_known(arch: str) -> None:
    """Skip on an architecture that the NVRTC installed here is too old for, as CUDA 12.4's is for Blackwell."""
    if ARCHITECTURES[arch].capability not in cupy.cuda.nvrtc.getSupportedArchs():
        pytest.skip(f"NVRTC {'.'.join(map(str, cupy.cuda.nvrtc.getVersion()))} knows no {arch}")


class TestCupy(Inspection):
    backend = "cupy"
    named = (("cupy/softmax/split", "float32"), ("cupy/softmax/split_ring", "bfloat16"))
    filling = ("softmax/persistent", "min/atomic_batched")

    def require_known(self, arch: str) -> None:
        require_known(arch)

    def assert_whole(self, kernel: Kernel, id: str) -> None:
        """Every field says something, and what can be told from another field agrees with it."""
        assert_launch(kernel, id)
        assert kernel.language == "CUDA C++"
        name, _, arguments = kernel.name.partition("<")
        assert kernel.source is not None and "__global__" in kernel.source and f" {name}(" in kernel.source
        assert kernel.source.endswith("\n}") and kernel.source.count("__global__") == 1
        values = [str(value).lower() if isinstance(value, bool) else str(value) for value in kernel.constants.values()]
        assert values == [value.strip() for value in arguments.rstrip(">").split(",")]
        assert_disassembled(kernel)

    def test_a_cluster_and_a_cooperative_grid_are_told(self, on_h200: Answers) -> None:
        (kernel,) = on_h200["cupy/softmax/split", "float32"]
        assert kernel.cluster == (kernel.constants["CLUSTER"], 1, 1) and not kernel.cooperative
        assert kernel.cluster[0] > 1
        (kernel,) = on_h200["cupy/softmax/split_ring", "bfloat16"]
        assert kernel.cluster == (1, 1, 1) and kernel.cooperative


SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) spills(const double* x, double* out, int n) {
  __shared__ double part[1000];
  double v[64];
  for (int i = 0; i < 64; ++i) v[i] = x[threadIdx.x + i * n];
  part[threadIdx.x % 1000] = v[3];
  __syncthreads();
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 64; ++j) v[i] = v[i] * v[j] + part[(i * j + threadIdx.x) % 1000];
  for (int i = 0; i < 64; ++i) out[threadIdx.x + i * n] = v[i];
}
"""


@pytest.mark.parametrize(
    ("shape", "dtype", "blocks"),
    [
        ((6784, 14107), "float32", 236),  # 15 words of 16: of 32, fewer blocks than multiprocessors
        ((1243, 54087), "bfloat16", 219),
        ((9001, 10003), "bfloat16", 179),
        ((6784, 14112), "float32", 441),  # whole words, of which none is lost
    ],
)
def test_minima_at_odd_widths_are_read_by_wide_lines(shape: tuple[int, int], dtype: str, blocks: int) -> None:
    (kernel,) = inspect.inspect("cupy/min/columns", shape, dtype, dim=0, arch="sm_90")
    assert kernel.grid == (blocks, 1, 1)


@pytest.mark.parametrize("arch", [arch for arch, a in ARCHITECTURES.items() if a.is_nvidia])
def test_resources_are_those_of_the_assemblers_log(arch: str) -> None:
    """The ELF file's numbers against what the assembler prints, of a kernel that spills and of one of ours."""
    require_known(arch)
    capability = ARCHITECTURES[arch].capability
    ours = ((compiler.full_source(FUSED), "fused<float, 4, 4>"),) if capability >= 80 else ()
    for code, name in ((SPILLING, "spills"), *ours):
        made = compiler.compile_code(code, (name,), capability)
        found = cubin.resources(made.cubin, made.symbols[name], capability)
        stack, registers, shared = (
            re.findall(pattern, made.log)
            for pattern in (r"(\d+) bytes stack frame", r"Used (\d+) registers", r"(\d+) bytes smem")
        )
        assert found == cubin.Resources(*(int(numbers[0]) for numbers in (registers, stack, shared)))
        assert (found.local_bytes > 0) == (name == "spills")


def test_code_that_does_not_compile_is_an_error() -> None:
    with pytest.raises(InspectionError, match=r"NVRTC fails for sm_90: .*undefined"):
        compiler.compile_code("__global__ void k() { nonsense(); }", ("k",), 90)


def test_torch_is_not_asked_for_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch built for CUDA asks the driver, which isn't there."""

    def no_driver(index: int) -> int:
        raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(driver, "current_stream", no_driver)
    (kernel,) = inspecting.compiled_kernels(Request("cupy", "min", "rows", (512, 1000), "float32", -1, "sm_90"))
    assert kernel.arch == "sm_90"
