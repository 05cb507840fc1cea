"""Every Numba CUDA implementation inspected without a device, in a process of its own as a user has it."""

import re

import pytest

for package in ("torch", "numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

import choices  # noqa: E402
from asking import Answers, ask, ask_some, assert_launch, assert_same_as_sibling  # noqa: E402

import kernelzoo  # noqa: E402  (after the skips)
from kernelzoo import inspect  # noqa: E402
from kernelzoo.device import ARCHITECTURES  # noqa: E402
from kernelzoo.errors import InspectionError  # noqa: E402
from kernelzoo.inspect import Kernel  # noqa: E402
from kernelzoo.kernels.shared import cubin  # noqa: E402

IMPLEMENTATIONS = kernelzoo.implementations("numba")


@choices.of("numba")
def test_auto_takes_what_won(request_: inspect.Request, form: str) -> None:
    choices.check(request_, form)


@pytest.fixture(scope="module")
def on_h200(request: pytest.FixtureRequest) -> Answers:
    named = (("numba/softmax/split", "bfloat16"), ("numba/softmax/fused", "float32"))
    return ask_some("numba", "sm_90", *named, every=request.config.getoption("--all"))


def test_every_implementation_is_shown(on_h200: Answers) -> None:
    # Forms for columns refuse what is asked here.
    refused = {i.id for i in IMPLEMENTATIONS} - {id for id, _ in on_h200}
    assert refused <= {i.id for i in IMPLEMENTATIONS if "columns" in i.variant}
    for (id, _), kernels in on_h200.items():
        assert kernels
        for kernel in kernels:
            assert_whole(kernel, id)


def assert_whole(kernel: Kernel, id: str) -> None:
    """Every field says something, and what can be told from another field agrees with it."""
    assert_launch(kernel, id)
    assert kernel.language == "Numba CUDA"
    assert kernel.source is not None and kernel.source.startswith(f"def {kernel.name}(")
    assert all(name in kernel.source for name in kernel.constants)
    assert kernel.ptx is not None and f".target {kernel.arch}" in kernel.ptx and kernel.ptx.count(".entry") == 1
    if cubin.tools("nvdisasm"):
        assert kernel.sass is not None and "EXIT" in kernel.sass and kernel.sass_missing is None
    else:
        assert kernel.sass is None and kernel.sass_missing is not None
    bound = re.search(r"\.maxntid (\d+)", kernel.ptx)
    assert bound is not None and kernel.block is not None and kernel.block[0] <= int(bound[1])


@pytest.mark.parametrize("op", sorted({i.op for i in IMPLEMENTATIONS}))
def test_auto_shows_the_sibling_that_it_hands_on_to(op: str, on_h200: Answers) -> None:
    assert_same_as_sibling(on_h200, op, "numba")


def test_a_cluster_is_told(on_h200: Answers) -> None:
    (kernel,) = on_h200["numba/softmax/split", "bfloat16"]
    assert kernel.cluster is not None and kernel.cluster[0] > 1


def test_the_simulators_switch_changes_nothing(monkeypatch: pytest.MonkeyPatch, on_h200: Answers) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    again = ask("numba", "sm_90", "numba/softmax/fused")
    assert [k.registers for k in again["numba/softmax/fused", "float32"]] == [
        k.registers for k in on_h200["numba/softmax/fused", "float32"]
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
def test_the_described_device_sizes_what_fills_it(arch: str) -> None:
    found = ask("numba", arch, "numba/softmax/persistent", "numba/softmax/split")
    for (id, _), kernels in found.items():
        for kernel in kernels:
            assert_whole(kernel, id)
    (kernel,) = found["numba/softmax/persistent", "float32"]
    assert kernel.occupancy is not None and kernel.grid is not None
    assert kernel.grid == (ARCHITECTURES[arch].multiprocessors * kernel.occupancy.blocks, 1, 1)


@pytest.mark.parametrize("arch", ["sm_75", "gfx942"])
def test_an_architecture_that_the_kernels_are_not_for_is_refused(arch: str) -> None:
    with pytest.raises(InspectionError, match=f"not for {arch}; allowed: sm_80, sm_86"):
        inspect.inspect("numba/min/rows", (64, 64), "float32", arch=arch)
