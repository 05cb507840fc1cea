"""The conformance suite: what every implementation must return, as pytest tests for this repo and for anyone's own.

A test file of a few lines runs all of it over every registered implementation, or over one's own::

    from kernelzoo.testing import Conformance

    class TestMine(Conformance):
        backends = ("mine",)

Each test goes the way a user's call goes, ``get(backend).op(x, variant=...)``, and checks the values against the
float64 reference, that the input is unchanged, that a poisoned ``out`` is written whole, and that a second run gives
the same bits. A variant that refuses a problem is skipped with its reason; one that refuses them all fails.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kernelzoo import conformance, ops, registry
from kernelzoo.conformance import Case, NoRoomError, cases, check, tensors
from kernelzoo.errors import BackendUnavailableError, DeviceError, UnsupportedProblemError

__all__ = ["Case", "Conformance", "cases", "check", "tensors"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelzoo", "what the conformance suite insists on")
    # Every project in the environment has this plugin loaded, so its options bear the package's name.
    group.addoption(
        "--kernelzoo-require",
        default="",
        metavar="BACKENDS",
        help="comma-separated backends whose absence is a failure, not a skip",
    )


class Conformance:
    """Subclass it in a test module, named ``Test...``; see the module's docstring."""

    backends: ClassVar[tuple[str, ...] | None] = None
    """Names of the backends to check; None: all that are registered."""
    core_only: ClassVar[tuple[str, ...]] = conformance.CORE_ONLY
    """Ids that take seconds to bind each problem, and are checked on the core cases alone."""

    @staticmethod
    def device(backend: str) -> str:
        """Where to put the inputs: the first kind of device that the backend takes here."""
        return registry.get(backend).devices[-1]

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
                if case.core or i.id not in cls.core_only
            ]
            metafunc.parametrize(("implementation", "case"), pairs)
        else:
            metafunc.parametrize("implementation", chosen, ids=lambda i: i.id)

    @pytest.fixture(autouse=True)
    def _runnable(self, request: pytest.FixtureRequest) -> None:
        """Skip what can't run here, with the reason, and what is too large for where it runs."""
        params: dict[str, Any] = request.node.callspec.params if hasattr(request.node, "callspec") else {}
        if "implementation" not in params:
            return
        backend = params["implementation"].backend
        try:
            limit = conformance.largest(params["implementation"])
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
        """A variant that skips everything is not checked at all: each must take one case, ``auto`` every one."""
        import torch

        device = self.device(implementation.backend)
        backend = registry.get(implementation.backend)
        refusals = []
        for shape in ((16, 4096), (64, 256), (4, 65536)):
            x = ops.sample(implementation.op, shape, "float32", generator=torch.Generator().manual_seed(0)).to(device)
            try:
                result = getattr(backend, implementation.op)(x, variant=implementation.variant)
            except BackendUnavailableError as refusal:
                pytest.skip(str(refusal))
            except UnsupportedProblemError as refusal:
                refusals.append(str(refusal))
                continue
            implementation.operation.assert_close(result, x)
        if len(refusals) == 3 or (refusals and implementation.variant == "auto"):
            pytest.fail("; ".join(refusals))

    def test_strided_out(self, implementation: registry.Implementation) -> None:
        """``out`` may be any view that holds each element once; what lies between its elements stays as it was."""
        import torch

        if implementation.id in self.core_only:
            pytest.skip("slow to bind; covered by the core cases")
        device = self.device(implementation.backend)
        method = getattr(registry.get(implementation.backend), implementation.op)
        x = ops.sample(implementation.op, (13, 6, 50), "float32", generator=torch.Generator().manual_seed(1)).to(device)
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

        backend = registry.get(implementation.backend)
        if "meta" in backend.devices:
            pytest.skip("this backend takes every device")
        with pytest.raises(DeviceError, match=implementation.backend):
            getattr(backend, implementation.op)(torch.empty(2, 3, device="meta"), variant=implementation.variant)
