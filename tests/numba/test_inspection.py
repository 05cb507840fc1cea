"""Every Numba CUDA implementation inspected without a device, in a process of its own as a user has it."""

import re

import pytest

for package in ("numba.cuda", "cuda.core", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from asking import Answers, ask, assert_launch  # noqa: E402
from inspections import Inspection, assert_disassembled  # noqa: E402

from kernelzoo.inspect import Kernel  # noqa: E402


class TestNumba(Inspection):
    backend = "numba"
    named = (("numba/softmax/split", "bfloat16"), ("numba/softmax/fused", "float32"))
    filling = ("softmax/persistent", "softmax/split")

    def assert_whole(self, kernel: Kernel, id: str) -> None:
        """Every field says something, and what can be told from another field agrees with it."""
        assert_launch(kernel, id)
        assert kernel.language == "Numba CUDA"
        assert kernel.source is not None and kernel.source.startswith(f"def {kernel.name}(")
        assert all(name in kernel.source for name in kernel.constants)
        assert_disassembled(kernel)
        assert kernel.ptx is not None
        bound = re.search(r"\.maxntid (\d+)", kernel.ptx)
        assert bound is not None and kernel.block is not None and kernel.block[0] <= int(bound[1])

    def test_a_cluster_is_told(self, on_h200: Answers) -> None:
        (kernel,) = on_h200["numba/softmax/split", "bfloat16"]
        assert kernel.cluster is not None and kernel.cluster[0] > 1

    def test_the_simulators_switch_changes_nothing(self, monkeypatch: pytest.MonkeyPatch, on_h200: Answers) -> None:
        monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
        again = ask("numba", "sm_90", "numba/softmax/fused")
        assert [k.registers for k in again["numba/softmax/fused", "float32"]] == [
            k.registers for k in on_h200["numba/softmax/fused", "float32"]
        ]
