"""Every Numba CUDA implementation inspected without a device, in a process of its own as a user has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

for package in ("torch", "numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

import kernelzoo  # noqa: E402  (after the skips)
from kernelzoo import inspect, ops  # noqa: E402
from kernelzoo.errors import InspectionError, UnsupportedProblemError  # noqa: E402
from kernelzoo.inspect import ARCHITECTURES, Kernel, Request, occupancy  # noqa: E402
from kernelzoo.kernels import cubin  # noqa: E402

PROBLEMS = (((4096, 4096), "float32"), ((16, 262144), "bfloat16"), ((4096, 64), "float16"))
IMPLEMENTATIONS = kernelzoo.implementations("numba")
Answers = dict[tuple[str, str], tuple[Kernel, ...]]


def ask(arch: str, *ids: str) -> Answers:
    """Kernels by id and dtype, of all implementations unless some are named, less what a named variant refuses."""
    requests = [
        Request("numba", i.op, i.variant, shape, dtype, -1, arch)
        for i in IMPLEMENTATIONS
        for shape, dtype in PROBLEMS
        if not ids or i.id in ids
    ]
    found = {}
    for request, answer in zip(requests, inspect.ask(requests), strict=True):
        if isinstance(answer, UnsupportedProblemError):
            assert request.variant != "auto", answer
        elif isinstance(answer, kernelzoo.KernelZooError):
            raise answer
        else:
            found[request.id, request.dtype] = answer
    return found


@pytest.fixture(scope="module")
def on_h200() -> Answers:
    return ask("sm_90")


def test_every_implementation_is_shown(on_h200: Answers) -> None:
    assert {id for id, _ in on_h200} == {i.id for i in IMPLEMENTATIONS}
    for (id, _), kernels in on_h200.items():
        assert kernels
        for kernel in kernels:
            assert_whole(kernel, id)


def assert_whole(kernel: Kernel, id: str) -> None:
    """Every field says something, and what can be told from another field agrees with it."""
    architecture = ARCHITECTURES[kernel.arch]
    assert kernel.device == str(architecture) and kernel.language == "Numba CUDA"
    assert kernel.source is not None and kernel.source.startswith(f"def {kernel.name}(")
    assert kernel.source_file is not None and kernel.source_file.startswith("kernelzoo/kernels/numba/")
    file, _, line = kernel.source_file.partition(":")
    lines = (Path(kernelzoo.__file__).parents[1] / file).read_text(encoding="utf-8").splitlines()
    assert lines[int(line) - 1].strip() == kernel.source.splitlines()[0]
    assert all(name in kernel.source for name in kernel.constants)
    assert kernel.ptx is not None and f".target {kernel.arch}" in kernel.ptx and kernel.ptx.count(".entry") == 1
    if cubin.tools("nvdisasm"):
        assert kernel.sass is not None and "EXIT" in kernel.sass and kernel.sass_missing is None
    else:
        assert kernel.sass is None and kernel.sass_missing is not None
    assert kernel.registers is not None and kernel.shared_bytes is not None and kernel.local_bytes is not None
    assert kernel.grid is not None and kernel.block is not None and kernel.cluster is not None
    bound = re.search(r"\.maxntid (\d+)", kernel.ptx)
    assert bound is not None and kernel.block[0] <= int(bound[1])
    assert kernel.grid[0] % kernel.cluster[0] == 0
    assert kernel.occupancy == occupancy(architecture, kernel.registers, kernel.block[0], kernel.shared_bytes)
    assert kernel.occupancy.blocks >= 1
    assert kernel.implementation == id or (id.endswith("/auto") and not kernel.implementation.endswith("/auto"))


def test_auto_shows_the_sibling_that_it_hands_on_to(on_h200: Answers) -> None:
    for op in ops.OPERATIONS:
        for _, dtype in PROBLEMS:
            kernels = on_h200[f"numba/{op}/auto", dtype]
            (sibling,) = {kernel.implementation for kernel in kernels}
            assert kernels == on_h200[sibling, dtype]


def test_a_cluster_is_told(on_h200: Answers) -> None:
    (kernel,) = on_h200["numba/softmax/split", "bfloat16"]
    assert kernel.cluster is not None and kernel.cluster[0] > 1


def test_the_simulators_switch_changes_nothing(monkeypatch: pytest.MonkeyPatch, on_h200: Answers) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    again = ask("sm_90", "numba/softmax/fused")
    assert [k.registers for k in again["numba/softmax/fused", "float32"]] == [
        k.registers for k in on_h200["numba/softmax/fused", "float32"]
    ]


@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
def test_the_described_device_sizes_what_fills_it(arch: str) -> None:
    found = ask(arch, "numba/softmax/persistent", "numba/softmax/split")
    for (id, _), kernels in found.items():
        for kernel in kernels:
            assert_whole(kernel, id)
    (kernel,) = found["numba/softmax/persistent", "float32"]
    assert kernel.occupancy is not None and kernel.grid is not None
    assert kernel.grid == (ARCHITECTURES[arch].multiprocessors * kernel.occupancy.blocks, 1, 1)


def test_an_architecture_that_the_kernels_are_not_for_is_refused() -> None:
    with pytest.raises(InspectionError, match="not for gfx942; allowed: sm_75"):
        inspect.inspect("numba/min/rows", (64, 64), "float32", arch="gfx942")
    with pytest.raises(InspectionError, match=r"fails for sm_75: .*requires \.target sm_80"):  # the assembler's words
        inspect.inspect("numba/softmax/online", (64, 64), "bfloat16", arch="sm_75")
