"""The conformance suite as a pytest class; :mod:`kernelzoo.testing` is its public name."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kernelzoo import registry
from kernelzoo.backend import get
from kernelzoo.check import running
from kernelzoo.check.cases import Case, NoRoomError, cases
from kernelzoo.check.running import check
from kernelzoo.errors import BackendUnavailableError, DeviceError, UnsupportedProblemError


class Conformance:
    """Subclass it in a test module, named ``Test...``; see :mod:`kernelzoo.testing`."""

    backends: ClassVar[tuple[str, ...] | None] = None
    """Names of the backends to check; None: all that are registered."""
    core_only: ClassVar[tuple[str, ...]] = ()
    """Ids that take seconds to bind each problem. They are checked on the core cases alone, as are those that a
    backend's package names in ``SLOW_TO_BIND``."""

    @staticmethod
    def device(backend: str) -> str:
        """The device of the inputs: the last kind that the backend takes here, a GPU where there is one."""
        return get(backend).devices[-1]

    @classmethod
    def takes_core_only(cls, implementation: registry.Implementation) -> bool:
        """Whether only the core cases are for it."""
        return implementation.id in cls.core_only or running.slow_to_bind(implementation.id)

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        if "implementation" not in metafunc.fixturenames:
            return
        # A backend that is not known is an error here, and not a suite without tests.
        names = (None,) if cls.backends is None else cls.backends
        chosen = [i for name in names for i in registry.implementations(name)]
        if "case" in metafunc.fixturenames:
            pairs = [
                pytest.param(i, case, id=f"{i.id}-{case}")
                for i in chosen
                for case in cases(i.op)
                if case.core or not cls.takes_core_only(i)
            ]
            metafunc.parametrize(("implementation", "case"), pairs)
        else:
            metafunc.parametrize("implementation", chosen, ids=lambda i: i.id)

    @pytest.fixture(autouse=True)
    def _runnable(self, request: pytest.FixtureRequest) -> None:
        """Skip what can't run here, with the reason, and what is too large for the place where it runs."""
        params: dict[str, Any] = request.node.callspec.params if hasattr(request.node, "callspec") else {}
        if "implementation" not in params:
            return
        backend = params["implementation"].backend
        try:
            limit = running.largest(params["implementation"])
        except BackendUnavailableError as error:
            if backend in request.config.getoption("--kernelzoo-require", default="").split(","):
                pytest.fail(f"a required backend is missing: {error}", pytrace=False)
            pytest.skip(str(error))
        if "case" in params and params["case"].elements > limit:
            pytest.skip(f"{params['case'].elements} elements are too many for where {backend} runs here ({limit})")

    def test_conforms(self, implementation: registry.Implementation, case: Case) -> None:
        try:
            check(implementation, case, self.device(implementation.backend))
        except (UnsupportedProblemError, BackendUnavailableError, NoRoomError) as refusal:
            pytest.skip(str(refusal))

    def test_takes_a_case(self, implementation: registry.Implementation) -> None:
        """A variant that skips everything is not checked at all: each must take one case, ``auto`` every one.

        A form for columns may refuse every row along the last axis, and one for half precision all of float32.
        """
        import torch

        backend = get(implementation.backend)
        device, method = self.device(implementation.backend), getattr(backend, implementation.op)
        refusals = []
        for dim, dtype in ((-1, "float32"), (0, "float32"), (-1, "float16")):
            taken = 0
            for shape in ((16, 4096), (64, 256), (4, 65536), (100, 33)):
                generator = torch.Generator().manual_seed(0)
                x = implementation.operation.sample(shape, dtype, dim, generator=generator).to(device)
                try:
                    result = method(x, dim, variant=implementation.variant)
                except BackendUnavailableError as refusal:
                    pytest.skip(str(refusal))
                except UnsupportedProblemError as refusal:
                    refusals.append(str(refusal))
                    continue
                implementation.operation.assert_close(result, x, dim)
                taken += 1
            if taken and not (refusals and implementation.variant == "auto"):
                return
        if backend.emulator and implementation.variant != "auto":
            pytest.skip(f"{backend.emulator} can't run it: {refusals[0]}")
        pytest.fail("; ".join(refusals))

    def test_strided_out(self, implementation: registry.Implementation) -> None:
        """``out`` may be any view that holds each element once; what lies between its elements stays as it was."""
        import torch

        if self.takes_core_only(implementation):
            pytest.skip("slow to bind; covered by the core cases")
        device = self.device(implementation.backend)
        method = getattr(get(implementation.backend), implementation.op)
        generator = torch.Generator().manual_seed(1)
        x = implementation.operation.sample((13, 6, 50), "float32", generator=generator).to(device)
        shape = implementation.operation.out_shape((13, 6, 50), (2,), False)
        for name, strides in (("stepped", 2), ("transposed", 1)):
            frame = torch.full((*(s * strides for s in reversed(shape)),), -7.0, device=device)
            out = frame.permute(*reversed(range(frame.ndim)))[tuple(slice(None, None, strides) for _ in shape)]
            try:
                assert method(x, variant=implementation.variant, out=out) is out
            except UnsupportedProblemError as refusal:
                pytest.skip(str(refusal))
            implementation.operation.assert_close(out, x)
            assert int((frame == -7.0).sum()) == frame.numel() - out.numel(), name

    def test_wrong_device(self, implementation: registry.Implementation) -> None:
        import torch

        backend = get(implementation.backend)
        if "meta" in backend.devices:
            pytest.skip("this backend takes every device")
        with pytest.raises(DeviceError, match=implementation.backend):
            getattr(backend, implementation.op)(torch.empty(2, 3, device="meta"), variant=implementation.variant)
