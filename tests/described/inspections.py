"""The inspection of every language's implementations: :class:`Inspection`."""

import functools
from typing import ClassVar

import choices
import pytest
from asking import Answers, answers, ask, ask_some, assert_same_as_sibling

import kernelzoo
from kernelzoo import inspect
from kernelzoo.device import ARCHITECTURES
from kernelzoo.errors import InspectionError
from kernelzoo.inspect import Kernel, Request
from kernelzoo.kernels.shared import cubin


@functools.cache
def _shown(backend: str, named: tuple[tuple[str, str], ...], every: bool) -> Answers:
    found = ask_some(backend, "sm_90", *named, every=every)
    shown = {id for id, _ in found}
    columns = [  # of what takes columns alone
        Request(backend, i.op, i.variant, (512, 512), "float32", 0, "sm_90")
        for i in kernelzoo.implementations(backend)
        if i.id not in shown
    ]
    return found | answers(columns)


class Inspection:
    """Every implementation of a language inspected without a device, in a process of its own as a user has it."""

    backend: ClassVar[str]
    named: ClassVar[tuple[tuple[str, str], ...]] = ()
    """What other tests look at, by id and dtype."""
    refused: ClassVar[tuple[str, ...]] = ("sm_75", "gfx942")
    sized: ClassVar[tuple[str, ...]] = ("sm_80", "sm_120")
    filling: ClassVar[tuple[str, ...]] = ("softmax/persistent", "softmax/online")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        given, operations = metafunc.fixturenames, {i.op for i in kernelzoo.implementations(self.backend)}
        if "request_" in given:
            metafunc.parametrize(*choices.of(self.backend).args)
        for word, values in (("op", sorted(operations)), ("refused_arch", self.refused), ("sized_arch", self.sized)):
            if word in given:
                metafunc.parametrize(word, values)

    @pytest.fixture
    def on_h200(self, request: pytest.FixtureRequest) -> Answers:
        return _shown(self.backend, self.named, request.config.getoption("--all"))

    def assert_whole(self, kernel: Kernel, id: str) -> None:
        """Every field says something, and what can be told from another field agrees with it."""
        raise NotImplementedError

    def require_known(self, arch: str) -> None:
        """Skip on an architecture that the compiler installed here is too old for."""

    def test_auto_takes_what_won(self, request_: Request, form: str) -> None:
        choices.check(request_, form)

    def test_every_implementation_is_shown(self, on_h200: Answers) -> None:
        assert {id for id, _ in on_h200} == {i.id for i in kernelzoo.implementations(self.backend)}
        for (id, _), kernels in on_h200.items():
            assert any(kernel.language != "torch" for kernel in kernels)
            for kernel in kernels:
                if kernel.language == "torch":
                    assert kernel.name.startswith("aten.") and kernel.source is kernel.registers is None
                else:
                    self.assert_whole(kernel, id)

    def test_auto_shows_the_sibling_that_it_hands_on_to(self, op: str, on_h200: Answers) -> None:
        assert_same_as_sibling(on_h200, op, self.backend)

    @pytest.mark.sampled(2)
    def test_the_described_device_sizes_what_fills_it(self, sized_arch: str) -> None:
        self.require_known(sized_arch)
        found = ask(self.backend, sized_arch, *(f"{self.backend}/{id}" for id in self.filling))
        for (id, _), kernels in found.items():
            for kernel in kernels:
                self.assert_whole(kernel, id)
        (kernel,) = found[f"{self.backend}/softmax/persistent", "float32"]
        assert kernel.occupancy is not None and kernel.grid is not None
        processors = ARCHITECTURES[sized_arch].multiprocessors
        assert kernel.grid == (processors * kernel.occupancy.blocks, 1, 1) or self.backend == "triton"
        assert kernel.grid[0] % processors == 0

    def test_an_architecture_that_the_kernels_are_not_for_is_refused(self, refused_arch: str) -> None:
        with pytest.raises(InspectionError, match=f"not for {refused_arch}; allowed: sm_80, sm_86"):
            inspect.inspect(f"{self.backend}/softmax/online", (64, 64), "float32", arch=refused_arch)


def assert_disassembled(kernel: Kernel) -> None:
    """PTX of one kernel, and machine code where there is what reads it."""
    assert kernel.ptx is not None and f".target {kernel.arch}" in kernel.ptx and kernel.ptx.count(".entry") == 1
    if cubin.find_tools("nvdisasm"):
        assert kernel.sass is not None and "EXIT" in kernel.sass and kernel.sass_missing is None
    else:
        assert kernel.sass is None and kernel.sass_missing is not None
