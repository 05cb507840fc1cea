"""The conformance suite as a pytest class; :mod:`kernelzoo.testing` is its public name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import pytest

from kernelzoo import registry
from kernelzoo.calls.backend import get
from kernelzoo.check import running
from kernelzoo.check.case import Case, NoRoomError, sampler_of
from kernelzoo.check.cases import cases
from kernelzoo.check.running import check, outputs
from kernelzoo.check.staying import forbid_exit_zero
from kernelzoo.errors import (
    BackendUnavailableError,
    DeviceError,
    OutputError,
    UndecidableError,
    UnsupportedProblemError,
)
from kernelzoo.lazy import torch
from kernelzoo.operations import Operation


class Conformance:
    """The conformance suite. Subclass it in a test module as ``Test...``; see :mod:`kernelzoo.testing`."""

    backends: ClassVar[tuple[str, ...] | None] = None
    """Names of the backends to check; None for all registered ones."""
    core_only: ClassVar[tuple[str, ...]] = ()
    """Ids of implementations that take seconds to bind each problem. They run only the core cases.
    So do the variants in ``SLOW_TO_BIND`` of a backend's package."""

    @staticmethod
    def device(backend: str) -> str:
        """Return the device of the inputs: the GPU if the backend can use one on this machine, else the CPU."""
        return get(backend).devices[-1]

    @classmethod
    def takes_core_only(cls, implementation: registry.Implementation) -> bool:
        """Whether an implementation runs the core cases only."""
        return implementation.id in cls.core_only or running.slow_to_bind(implementation.id)

    @classmethod
    def takes(cls, implementation: registry.Implementation, case: Case) -> bool:
        """Whether an implementation runs a case. Override this to run only some cases."""
        return True

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        if "implementation" not in metafunc.fixturenames:
            return
        # An unknown backend is an error here, not a suite without tests.
        names = (None,) if cls.backends is None else cls.backends
        chosen = [i for name in names for i in registry.implementations(name)]
        if "case" in metafunc.fixturenames:
            pairs = [
                pytest.param(i, case, id=f"{i.id}-{case}")
                for i in chosen
                for core_only in [cls.takes_core_only(i)]
                for case in cases(i.op)
                if (case.core or not core_only) and cls.takes(i, case)
            ]
            metafunc.parametrize(("implementation", "case"), pairs)
        else:
            metafunc.parametrize("implementation", chosen, ids=lambda i: i.id)

    @pytest.fixture(autouse=True)
    def _forbid_exit_zero(self) -> Iterator[None]:
        with forbid_exit_zero():
            yield

    @pytest.fixture(autouse=True)
    def _skip_unrunnable(self, request: pytest.FixtureRequest) -> None:
        """Skip implementations that can't run here, with the reason, and cases too large for this machine."""
        params: dict[str, Any] = request.node.callspec.params if hasattr(request.node, "callspec") else {}
        if "implementation" not in params:
            return
        backend = params["implementation"].backend
        try:
            limit = running.max_elements(params["implementation"])
        except BackendUnavailableError as error:
            if backend in request.config.getoption("--kernelzoo-require", default="").split(","):
                pytest.fail(f"a required backend is missing: {error}", pytrace=False)
            pytest.skip(str(error))
        if "case" in params and params["case"].elements > limit:
            pytest.skip(f"{params['case'].elements} elements exceed the limit of {backend} here, {limit}")

    def test_conforms(self, implementation: registry.Implementation, case: Case) -> None:
        try:
            check(implementation, case, self.device(implementation.backend))
        except (UnsupportedProblemError, BackendUnavailableError, NoRoomError, UndecidableError) as refusal:
            pytest.skip(str(refusal))

    def test_takes_a_case(self, implementation: registry.Implementation) -> None:
        """Check that a variant takes some case, and ``auto`` every case. In an emulator one is enough, for speed."""
        backend = get(implementation.backend)
        device = self.device(implementation.backend)
        one_is_enough = backend.emulator and implementation.variant != "auto"
        refusals = []
        for tried in _example_cases(implementation.operation):
            taken = 0
            for case in tried:
                inputs = case.inputs(device)
                try:
                    found = outputs(implementation, case, inputs)
                except BackendUnavailableError as refusal:
                    pytest.skip(str(refusal))
                except UnsupportedProblemError as refusal:
                    refusals.append(str(refusal))
                    continue
                implementation.operation.assert_close(found, inputs, case.dim)
                taken += 1
                if one_is_enough:
                    return
            if taken and not (refusals and implementation.variant == "auto"):
                return
        if backend.emulator and implementation.variant != "auto":
            pytest.skip(f"{backend.emulator} can't run it: {refusals[0]}")
        pytest.fail("; ".join(refusals))

    def test_strided_out(self, implementation: registry.Implementation) -> None:
        """Check that ``out`` may be any view with distinct elements. The memory between them must not change."""
        if self.takes_core_only(implementation):
            pytest.skip("slow to bind; covered by the core cases")
        device, operation = self.device(implementation.backend), implementation.operation
        case = _example_case(operation, (13, 6, 50), -1, _preferred_dtype(operation))
        inputs = case.inputs(device)
        args = operation.arguments(inputs, case.dim)
        for name, strides in (("stepped", 2), ("transposed", 1)):
            frames, outs = [], []
            for shape, dtype in zip(operation.out_shapes(args), operation.out_dtypes(args), strict=True):
                frame = torch.full((*(s * strides for s in reversed(shape)),), 7, dtype=dtype, device=device)
                turned = frame.permute(tuple(reversed(range(frame.ndim))))
                out = turned[tuple(slice(None, None, strides) for _ in shape)]
                frames.append(frame)
                outs.append(out)
            given = outs[0] if len(outs) == 1 else tuple(outs)
            try:
                found = outputs(implementation, case, inputs, given)
            except UnsupportedProblemError as refusal:
                pytest.skip(str(refusal))
            assert all(one is out for one, out in zip(found, outs, strict=True))
            operation.assert_close(tuple(outs), inputs, case.dim)
            for frame, out in zip(frames, outs, strict=True):
                out.fill_(7)
                assert bool((frame == torch.full_like(frame, 7)).all()), name

    def test_wrong_device(self, implementation: registry.Implementation) -> None:
        """Check that inputs on another device raise DeviceError, and inputs on meta with a real ``out`` OutputError."""
        backend, operation = get(implementation.backend), implementation.operation
        device = self.device(implementation.backend)
        inputs = _example_case(operation, (2, 3), -1, _preferred_dtype(operation)).inputs(device)
        call = partial(getattr(backend, implementation.op), variant=implementation.variant)
        others = {"cpu", *(["cuda"] if torch.cuda.is_available() else [])} - {*backend.devices}
        for other in others:
            with pytest.raises(DeviceError, match=implementation.backend):
                call(*(x.to(other) for x in inputs))
        outs = operation.allocate(operation.arguments(inputs))
        with pytest.raises(OutputError, match="meta"):
            call(*(x.to("meta") for x in inputs), out=outs[0] if len(outs) == 1 else outs)


def _preferred_dtype(operation: Operation) -> str:
    """Return the dtype that most variants take."""
    return "float32" if "float32" in operation.dtypes else operation.dtypes[0]


def _example_cases(operation: Operation) -> Iterator[list[Case]]:
    """Yield lists of cases: along the last axis, along the first, and in another dtype."""
    main = _preferred_dtype(operation)
    other = "float16" if "float16" in operation.dtypes else operation.dtypes[-1]
    shapes = ((100, 33), (64, 256), (16, 4096), (4, 65536)) if operation.by_rows else ((16, 64), (100, 33), (128, 256))
    for dim, dtype in dict.fromkeys(
        ((-1, main), (0, main), (-1, other)) if operation.by_rows else ((-1, main), (-1, other))
    ):
        yield [_example_case(operation, shape, dim, dtype) for shape in shapes]


def _example_case(operation: Operation, shape: tuple[int, ...], dim: int, dtype: str) -> Case:
    """Return a plain case. Named axes take the sizes in ``shape`` in turn."""
    if operation.by_rows:
        return Case(operation.name, dtype, sampler_of(shape, dim), dim)
    sizes = operation.clamp_sizes(dict(zip(operation.free_axes, itertools.cycle(shape), strict=False)))
    return Case(operation.name, dtype, sampler_of(operation.first_input_shape(sizes), dim, sizes), dim)
