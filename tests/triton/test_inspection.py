"""Every Triton implementation inspected without a device, in a process of its own as a user has it."""

import contextlib
import importlib
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import triton
from asking import Answers, ask, assert_launch
from inspections import Inspection
from one_input import MIN, SOFTMAX

from kernelzoo import inspect
from kernelzoo.device import ARCHITECTURES, occupancy
from kernelzoo.inspect import Kernel
from kernelzoo.kernels.shared import cubin


class TestTriton(Inspection):
    backend = "triton"
    named = (("triton/min/atomic_eager", "bfloat16"),)
    refused = ()
    sized = ("sm_80", "sm_120", "gfx942")

    def assert_whole(self, kernel: Kernel, id: str) -> None:
        """Every field says something, and what can be told from another field agrees with it."""
        assert_launch(kernel, id)
        architecture = ARCHITECTURES[kernel.arch]
        assert kernel.source is not None and f"def {kernel.name}(" in kernel.source and "@triton.jit" in kernel.source
        assert kernel.sass is not None and kernel.sass_missing is None
        if architecture.is_nvidia:
            assert kernel.ptx is not None and f".visible .entry {kernel.name}(" in kernel.ptx
            assert f".target {kernel.arch}" in kernel.ptx and "EXIT" in kernel.sass
            assert list(kernel.stages) == ["ttir", "ttgir", "llir"] and "tt.func" in kernel.stages["ttir"]
        else:
            assert kernel.ptx is None and "s_endpgm" in kernel.sass
        assert kernel.cluster == (1, 1, 1)
        assert kernel.block == (kernel.constants["num_warps"] * architecture.warp_size, 1, 1)
        signature = kernel.source.partition("):")[0]
        assert set(re.findall(r"(\w+): tl\.constexpr", signature)) <= set(kernel.constants)

    def test_steps_that_torch_runs_are_told(self, on_h200: Answers) -> None:
        names = [kernel.name for kernel in on_h200["triton/min/atomic_eager", "bfloat16"]]
        assert names == ["aten.fill_.Scalar", "atomic_eager_kernel", "aten.copy_.default"]


@pytest.mark.parametrize("op", ["softmax", "softmax_backward", "min_backward"])
@pytest.mark.parametrize(
    ("shape", "dtype", "single", "rows"),
    [
        ((2, 176640), "bfloat16", 1, 1024),
        ((64, 50000), "bfloat16", 1, 64),
        ((4, 176640), "float32", 0, 1024),
        ((5, 176640), "float32", 1, 512),
        ((3, 13312), "bfloat16", 1, 64),  # fewer to a program, so that each SM has two
    ],
)
def test_threads_have_whole_rows_across_memory(op, shape, dtype, single, rows) -> None:
    form = "multi_row_tile" if op == "softmax" else "fused"
    (kernel,) = inspect.inspect(f"triton/{op}/{form}", shape, dtype, dim=0, arch="sm_90")
    assert (kernel.constants["SINGLE"], kernel.constants["ROWS"]) == (single, rows)


@pytest.mark.parametrize(
    ("variant", "shape", "dtype", "lanes"),
    [
        ("columns", (1243, 54087), "bfloat16", 256),
        ("columns", (3001, 20001), "bfloat16", 128),  # of 256, fewer programs than multiprocessors
        ("columns", (1472, 8939), "bfloat16", 64),
        ("columns", (6784, 14112), "float32", 64),
        ("split", (100003, 201), "float32", 64),
        ("split", (16384, 1002), "float32", 32),
    ],
)
def test_lines_are_as_wide_as_the_device_is_filled(variant, shape, dtype, lanes) -> None:
    (kernel,) = inspect.inspect(f"triton/min/{variant}", shape, dtype, dim=0, arch="sm_90")
    assert kernel.constants["LANES"] == lanes


def test_the_interpreters_switch_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = []
    for switch in ("0", "1"):  # each with an empty cache: what another tree left in the user's has its paths in it
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / switch))
        monkeypatch.setenv("TRITON_INTERPRET", switch)
        answers.append(ask("triton", "sm_90", "triton/softmax/online"))
    assert answers[0] and answers[0] == answers[1]


def test_two_phases_of_one_kernel_are_two_kernels() -> None:
    """A launch that leaves pairs and one that merges them differ in a constant."""
    shown = inspect.inspect("triton/softmax/split", (16, 262144), "float32", arch="gfx942")
    assert [kernel.launches for kernel in shown] == [1, 1]
    assert [kernel.constants["PHASE"] for kernel in shown] == [1, 2]


def test_without_a_disassembler_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin, "find_tools", lambda name: ())
    functions, missing = cubin.disassembly(b"")
    assert not functions and missing is not None and "pip install nvidia-cuda-nvdisasm" in missing
    monkeypatch.setattr(cubin, "find_tools", lambda name: (Path(shutil.which("false") or "false"),))
    functions, missing = cubin.disassembly(b"")
    assert not functions and missing is not None and "false fails: 1" in missing


def test_resources_are_those_that_cuobjdump_reads(tmp_path: Path) -> None:
    if triton.knobs.runtime.interpret:
        pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this test")
    from compiling import bound

    x = torch.empty((300, 4099), device="meta", dtype=torch.bfloat16)
    (tool, *_) = cubin.find_tools("cuobjdump")
    for arch in ("sm_80", "sm_90", "sm_100", "sm_120"):
        capability = ARCHITECTURES[arch].capability
        for op, form in ((SOFTMAX, "persistent"), (MIN, "rows"), (MIN, "split")):
            (made,) = bound(op, form, x, 1, arch)
            program = made.compiled
            path = tmp_path / "kernel.cubin"
            path.write_bytes(program.kernel)
            done = subprocess.run([tool, "--dump-resource-usage", path], capture_output=True, text=True, check=True)
            numbers = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", done.stdout)}
            reserved = 1024 if capability >= cubin.RESERVED_FROM and numbers["SHARED"] else 0
            assert cubin.resources(program.kernel, program.name, capability) == cubin.Resources(
                numbers["REG"], numbers["STACK"] + numbers["LOCAL"], numbers["SHARED"] - reserved
            )


OCCUPANCY = """
#include <climits>
#include <cstdio>
#include <initializer_list>
#include "cuda_occupancy.h"
int main() {
  int major, minor, threads, per_block, reserved;
  long shared;
  while (scanf("%d %d %d %ld %d %d", &major, &minor, &threads, &shared, &per_block, &reserved) == 6) {
    cudaOccDeviceProp device;
    device.computeMajor = major, device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024, device.maxThreadsPerMultiprocessor = threads;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32, device.numSms = 1;
    device.sharedMemPerBlock = 49152, device.sharedMemPerMultiprocessor = shared;
    device.sharedMemPerBlockOptin = per_block, device.reservedSharedMemPerBlock = reserved;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    for (int registers = 16; registers <= 255; registers += 7)
      for (int block = 32; block <= 1024; block += 96)
        for (int bytes : {0, 1, 1024, 4000, 16384, 33000, 50000, 65536, 99 * 1024, 100000, 163 * 1024, 227 * 1024}) {
          cudaOccFuncAttributes kernel;
          kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers, kernel.numBlockBarriers = 1;
          kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          kernel.maxDynamicSharedSizeBytes = bytes, kernel.sharedSizeBytes = 0;
          cudaOccResult result;
          if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, block, bytes))
            return 1;
          printf("%d %d %d %d\\n", registers, block, bytes, result.activeBlocksPerMultiprocessor);
        }
  }
}
"""


def test_the_occupancy_rule_is_nvidias(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ to compile NVIDIA's own rule with")
    spec = find_spec("triton")
    assert spec is not None and spec.origin is not None
    (tmp_path / "rule.cpp").write_text(OCCUPANCY, encoding="utf-8")
    headers = Path(spec.origin).parent / "backends/nvidia/include"
    rule = tmp_path / "rule"
    subprocess.run([compiler, "-w", "-O1", f"-I{headers}", tmp_path / "rule.cpp", "-o", rule], check=True)
    nvidia = [a for a in ARCHITECTURES.values() if a.is_nvidia]
    for a in nvidia:
        major, minor = divmod(a.capability, 10)
        limits = f"{major} {minor} {a.threads} {a.shared_bytes} {a.shared_per_block} {a.shared_reserved}"
        done = subprocess.run([rule], input=limits, capture_output=True, text=True, check=True)
        lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        assert len(lines) > 4000
        wrong = [(*case, blocks, found) for *case, blocks in lines if (found := occupancy(a, *case).blocks) != blocks]
        assert not wrong, (a.name, len(wrong), wrong[:5])


@pytest.mark.skipif(triton.knobs.runtime.interpret, reason="nothing is compiled under TRITON_INTERPRET")
def test_the_driver_that_was_active_is_active_again() -> None:
    """Even within another one's context, and after an error; where no device is, Triton looks for one again."""
    active, inspection = triton.runtime.driver, importlib.import_module("kernelzoo.kernels.triton.inspection")
    with inspection.target(ARCHITECTURES["sm_80"]):
        outer = active.active
        with contextlib.suppress(ZeroDivisionError), inspection.target(ARCHITECTURES["gfx942"]):
            assert active.active.get_current_target().arch == "gfx942"
            raise ZeroDivisionError
        assert active.active is outer and outer.get_current_target().arch == 80
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="active drivers"):
            print(active.active)
