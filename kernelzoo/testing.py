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

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pytest

from kernelzoo import ops, registry
from kernelzoo.errors import BackendUnavailableError, DeviceError, UnsupportedProblemError

if TYPE_CHECKING:
    import torch
    from hypothesis.strategies import SearchStrategy

Make: TypeAlias = "Callable[[str, torch.Generator], torch.Tensor]"


@dataclass(frozen=True)
class Case:
    """One problem: how to make the input (on a device, from a seeded generator), and the arguments of the call."""

    op: str
    name: str
    make: Make
    dim: ops.Dims = -1
    keepdim: bool = False
    core: bool = False
    """Part of the small set that slow-to-bind implementations are checked on."""
    elements: int = 0
    """Elements of the input, for suites that must leave out the large ones."""

    def input(self, device: str) -> torch.Tensor:
        import torch

        return self.make(device, torch.Generator().manual_seed(zlib.crc32(self.name.encode())))

    def __str__(self) -> str:
        return self.name


def cases(op: str) -> tuple[Case, ...]:
    """All the cases of one operation, smallest first."""
    found = [*_shapes(op), *_layouts(op), *_special(op)]
    if op == "min":
        found += _reductions()
    return tuple(sorted(found, key=lambda case: case.elements))


# One element either side of the powers of two and of every block size in use, odd and prime lengths, one column.
_WIDTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 781)
_LONG = (1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 5003, 8191, 8192, 8193)
_LONGER = (12672, 16383, 16384, 16385, 32767, 32768, 32769, 50257, 65535, 65536, 65537, 131072, 151936, 262144, 1048577)
_MANY = ((37, 129), (133, 65), (265, 33), (1823, 781), (4097, 3), (65537, 2), (1048576, 64), (16, 262144), (5, 3000017))


def _shapes(op: str) -> Iterator[Case]:
    dtypes = ops.OPERATIONS[op].dtypes
    shapes = [(3, n) for n in _WIDTHS] + [(2, n) for n in _LONG] + [(1, n) for n in _LONGER] + list(_MANY)
    for shape in shapes:
        for dtype in dtypes:
            # Every length in float32; in the other dtypes the short ones and those next to a power of two.
            if (
                dtype == "float32"
                or shape[1] in (1, 2, 17, 128, 129, 781, 4097, 16385, 65537, 262144)
                or shape in _MANY[:3]
            ):
                core = dtype in ("float32", "bfloat16", "int32") and shape in ((3, 1), (3, 129), (2, 4097), (37, 129))
                yield Case(
                    op, f"{dtype}-{_by(shape)}", partial(_plain, op, shape, dtype), core=core, elements=math.prod(shape)
                )


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _plain(op: str, shape: tuple[int, ...], dtype: str, device: str, generator: torch.Generator) -> torch.Tensor:
    return ops.sample(op, shape, dtype, generator=generator).to(device)


def _layouts(op: str) -> Iterator[Case]:
    """Views of a larger tensor: name, shape of the base, the view, and the axis."""
    views: tuple[tuple[str, tuple[int, ...], Callable[[torch.Tensor], torch.Tensor], int], ...] = (
        ("scalar", (), lambda x: x, -1),
        ("vector", (300,), lambda x: x, 0),
        ("vector-stepped", (601,), lambda x: x[1::2], -1),
        ("dim0", (67, 45), lambda x: x, 0),
        ("dim0-wide", (33, 260), lambda x: x, 0),
        ("dim0-tall", (1100, 19), lambda x: x, -2),
        ("middle", (5, 37, 18), lambda x: x, 1),
        ("middle-of-4", (3, 4, 29, 6), lambda x: x, -2),
        ("leading-of-4", (21, 2, 3, 5), lambda x: x, 0),
        ("transposed", (45, 67), lambda x: x.t(), -1),
        ("transposed-dim0", (45, 67), lambda x: x.t(), 0),
        ("columns-sliced", (21, 90), lambda x: x[:, 5:-8], -1),
        ("columns-stepped", (21, 90), lambda x: x[:, ::3], -1),
        ("rows-sliced", (33, 70), lambda x: x[2:-3], -1),
        ("rows-stepped", (33, 70), lambda x: x[::4], -1),
        ("rows-expanded", (1, 70), lambda x: x.expand(9, 70), -1),
        ("columns-expanded", (9, 1), lambda x: x.expand(9, 70), -1),
        ("unaligned", (1 + 12 * 64,), lambda x: x[1:].view(12, 64), -1),
        ("unaligned-odd", (3 + 12 * 65,), lambda x: x[3:].view(12, 65), -1),
        ("padded", (12, 80), lambda x: x[:, :64], -1),
        ("two-row-axes", (5, 9, 40), lambda x: x[:, 1:8], -1),
        ("two-row-axes-permuted", (5, 40, 9), lambda x: x.permute(2, 0, 1), -1),
        ("three-row-axes", (3, 5, 7, 33), lambda x: x[:, 1:4, ::2], -1),
        ("three-row-axes-middle", (3, 5, 31, 7), lambda x: x[:, 1:4, :, ::2], 2),
        ("overlapping-windows", (100,), lambda x: x.unfold(0, 24, 3), -1),
        ("five-axes", (2, 3, 4, 5, 6), lambda x: x.permute(4, 0, 3, 1, 2), -3),
        ("ones-everywhere", (1, 1, 50, 1), lambda x: x, 2),
        ("axis-of-one", (6, 1, 7), lambda x: x, 1),
        ("empty-rows", (0, 5), lambda x: x, -1),
        ("empty-rows-middle", (3, 5, 0), lambda x: x, 1),
    )
    for dtype in ("float32", "bfloat16", "float64"):
        for name, base, view, dim in views:
            core = dtype == "float32" and name in ("dim0", "middle", "columns-stepped", "rows-expanded", "scalar")
            yield Case(
                op,
                f"{dtype}-{name}",
                partial(_viewed, op, base, dtype, view, dim),
                dim,
                core=core,
                elements=math.prod(base),
            )
    yield Case(op, "float32-negated-lazily", _negated, elements=90)
    if op == "softmax":
        yield Case(op, "float32-empty-columns", partial(_plain, op, (5, 0), "float32"))
        yield Case(op, "float16-empty-columns-dim0", partial(_plain, op, (0, 5), "float16"), 0)


def _viewed(
    op: str,
    base: tuple[int, ...],
    dtype: str,
    view: Callable[[torch.Tensor], torch.Tensor],
    dim: int,
    device: str,
    generator: torch.Generator,
) -> torch.Tensor:
    import torch

    # Values are drawn in the view's own shape, so that each of its rows has its peak, where the view can be written.
    memory = ops.sample(op, base, dtype, generator=generator)
    x = view(memory)
    if x.numel() == memory.numel() and not ops._overlaps_itself(x):
        x.copy_(ops.sample(op, tuple(x.shape), dtype, dim, generator=generator))
    moved = torch.empty(base, dtype=memory.dtype, device=device)
    moved.copy_(memory)
    return view(moved)


def _negated(device: str, generator: torch.Generator) -> torch.Tensor:
    import torch

    return torch.randn(6, 15, dtype=torch.complex64, generator=generator).to(device).conj().imag


def _reductions() -> Iterator[Case]:
    """Minima over several axes, with and without keepdim, and over integer tensors of other layouts."""
    shape = (3, 6, 5, 7)
    for dims in ((), (0,), (1, 2), (0, 3), (0, 2), (1, 3), (-1, -2, -3), (0, 1, 2, 3), (0, 1, 3)):
        for keepdim in (False, True):
            name = f"float32-{_by(shape)}-over-{'-'.join(map(str, dims)) or 'all'}{'-keepdim' if keepdim else ''}"
            yield Case("min", name, partial(_plain, "min", shape, "float32"), dims, keepdim, elements=math.prod(shape))
    for dtype in ("int8", "int64", "bool"):
        yield Case(
            "min", f"{dtype}-dim0", partial(_viewed, "min", (67, 45), dtype, lambda x: x, 0), 0, elements=67 * 45
        )
        yield Case(
            "min",
            f"{dtype}-stepped",
            partial(_viewed, "min", (67, 45), dtype, lambda x: x[::2, 1::3], -1),
            elements=67 * 45,
        )
    for keepdim in (False, True):
        yield Case(
            "min",
            f"int32-middle-keepdim-{keepdim}",
            partial(_plain, "min", (4, 9, 6), "int32"),
            1,
            keepdim,
            elements=216,
        )
        yield Case(
            "min",
            f"float32-sliced-over-0-2-keepdim-{keepdim}",
            partial(_viewed, "min", (5, 6, 7, 8), "float32", lambda x: x[:, 1:, ::2, 1:], -1),
            (0, 2),
            keepdim,
            elements=1680,
        )


def _special(op: str) -> Iterator[Case]:
    for width in (5, 300, 3000, 40000):
        for dtype in ops.FLOATS:
            if width <= 300 or dtype in ("float32", "bfloat16"):
                yield Case(
                    op,
                    f"{dtype}-special-values-{width}",
                    partial(_special_rows, op, width, dtype),
                    core=width == 300 and dtype == "float32",
                    elements=20 * width,
                )
    for dtype in ops.FLOATS:
        yield Case(op, f"{dtype}-special-values-dim0", partial(_special_columns, op, 130, dtype), 0, elements=20 * 130)
    if op == "min":
        for dtype in ops.INTEGERS:
            yield Case(op, f"{dtype}-extremes", partial(_extremes, dtype), elements=8 * 1025)


def _special_columns(op: str, width: int, dtype: str, device: str, generator: torch.Generator) -> torch.Tensor:
    return _special_rows(op, width, dtype, device, generator).t().contiguous()


def _special_rows(op: str, width: int, dtype: str, device: str, generator: torch.Generator) -> torch.Tensor:
    """One row for each rule of the contract, between plain rows that must not be touched by their neighbours."""
    import torch

    kind = getattr(torch, dtype)
    info = torch.finfo(kind)
    inf, nan = math.inf, math.nan
    x = ops.sample(op, (20, width), dtype, generator=generator)
    last, half = width - 1, width // 2
    x[1, half] = nan
    x[2, 0] = _negative_nan(kind)
    x[3, last] = nan
    x[3, 0] = -inf
    x[4, half] = inf
    x[5, :] = -inf
    x[6, :half] = -inf  # whole blocks of -inf in a legal row, in front, behind, and everywhere but once
    x[7, half:] = -inf
    x[8, :] = -inf
    x[8, last] = 1.0
    x[9, :] = inf
    x[10, :] = nan
    x[11, :] = -0.0
    x[11, ::2] = 0.0
    x[12, :] = info.max
    x[13, :] = -info.max
    x[13, 0] = info.max
    x[14, :] = info.tiny
    x[14, ::2] = -info.tiny / 2  # subnormal
    x[15, :] = x[15, :] + 1000.0  # an offset common to the row changes nothing in a softmax
    x[16, :] = 3.0
    x[17, half] = inf
    x[17, last] = nan
    x[18, 0] = -inf
    return x.to(device)


def _negative_nan(kind: torch.dtype) -> torch.Tensor:
    """A NaN with the sign bit set and a payload: all ones."""
    import torch

    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
    return torch.tensor(-1, dtype=bits).view(kind)


def _extremes(dtype: str, device: str, generator: torch.Generator) -> torch.Tensor:
    import torch

    x = ops.sample("min", (8, 1025), dtype, generator=generator)
    if dtype == "bool":
        x[0], x[1] = True, False
        x[2] = True
        x[2, 1024] = False
        return x.to(device)
    info = torch.iinfo(getattr(torch, dtype))
    x[0] = info.max  # the identity itself, everywhere
    x[1, 1024] = info.min
    x[2, 0] = info.min
    x[3] = info.min
    x[4] = 0
    return x.to(device)


def tensors(op: str, largest: int = 9) -> SearchStrategy[torch.Tensor]:
    """A Hypothesis strategy: tensors on the CPU of every dtype of an operation, and of any rank to 5, each axis at most
    ``largest`` long: permuted, sliced, stepped, expanded; special values among the floats. Needs Hypothesis."""
    import torch
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: st.DrawFn) -> torch.Tensor:
        dtype = draw(st.sampled_from(ops.OPERATIONS[op].dtypes))
        shape = tuple(draw(st.lists(st.integers(1, largest), min_size=0, max_size=5)))
        while math.prod(shape) > 2000:  # what an interpreter runs in a moment
            shape = shape[:-1]
        x = ops.sample("min", shape, dtype, (), generator=torch.Generator().manual_seed(draw(st.integers(0, 2**31))))
        if dtype in ops.FLOATS:
            info = torch.finfo(x.dtype)
            special = (math.nan, math.inf, -math.inf, -0.0, 0.0, info.max, -info.max, info.tiny, -info.tiny / 4)
            flat = x.view(-1)
            for _ in range(draw(st.integers(0, 3))):
                flat[draw(st.integers(0, x.numel() - 1))] = draw(st.sampled_from(special))
        if shape:
            x = x.permute(draw(st.permutations(range(len(shape)))))
            x = x[tuple(slice(draw(st.integers(0, size - 1)), None, draw(st.integers(1, 3))) for size in x.shape)]
            axis = draw(st.integers(0, x.ndim - 1))
            if x.size(axis) == 1:
                x = x.expand(*(3 if d == axis else -1 for d in range(x.ndim)))
        return x

    return drawn()


def check(implementation: registry.Implementation, case: Case, device: str) -> None:
    """Run one case through one implementation, as a user's call would; AssertionError says what is wrong.

    Raises UnsupportedProblemError where the variant refuses the problem.
    """
    import torch

    x = case.input(device)
    before = _bits(x).clone()
    operation = implementation.operation
    method = getattr(registry.get(implementation.backend), case.op)
    keepdim = {"keepdim": case.keepdim} if case.op == "min" else {}
    call_on = partial(method, dim=case.dim, **keepdim, variant=implementation.variant)
    call = partial(call_on, x)
    first = call()
    operation.assert_close(first, x, case.dim, case.keepdim)
    if not first.is_contiguous():
        raise AssertionError(f"the result must be contiguous, has strides {first.stride()}")
    if first.numel() and ops._overlap(first, x):
        raise AssertionError("the result shares memory with the input")
    if not first.numel():
        return
    # A launch runs again and again. A NaN poison would hide in a row that must be NaN, any other in a row that happens
    # to hold it: bits that differ from the first result's everywhere show every element that is not written.
    out = _poison_like(first)
    launch = implementation.launch(x, dim=case.dim, out=out)
    for time in ("first", "second"):
        out.copy_(_poison_like(first))
        launch()
        if not torch.equal(_bits(out), _bits(first)):
            raise AssertionError(
                f"launched for the {time} time, the same input gave other bits, or not all was written"
            )
    # By now the layout is known, and a backend may take a shorter way on a GPU: other memory, the same bits.
    if x.is_cuda and not torch.equal(_bits(call_on(case.input(device))), _bits(first)):
        raise AssertionError("the same values elsewhere in memory gave other bits")
    if not torch.equal(_bits(x), before):
        raise AssertionError("the input was changed")


def _poison_like(x: torch.Tensor) -> torch.Tensor:
    import torch

    return ~x if x.dtype == torch.bool else (_bits(x) ^ 0x55).view(x.dtype)


def _bits(x: torch.Tensor) -> torch.Tensor:
    """The tensor's elements as integers, so that NaN and the two zeros compare as the bits they are."""
    import torch

    if x.dtype == torch.bool:
        return x.contiguous().view(torch.uint8)
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.resolve_neg().contiguous().view(integer)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelzoo", "what the conformance suite insists on")
    group.addoption("--require", default="", help="comma-separated backends whose absence is a failure, not a skip")


class Conformance:
    """Subclass it in a test module, named ``Test...``; see the module's docstring."""

    backends: ClassVar[tuple[str, ...] | None] = None
    """Names of the backends to check; None: all that are registered."""
    core_only: ClassVar[tuple[str, ...]] = ("torch/softmax/compile", "torch/min/compile")
    """Ids that take seconds to bind each problem, and are checked on the core cases alone."""

    @staticmethod
    def device(backend: str) -> str:
        """Where to put the inputs: the first kind of device that the backend takes here."""
        return registry.get(backend).devices[-1]

    @classmethod
    def elements(cls, backend: str) -> int:
        """Largest input to try: small where kernels are interpreted or simulated, large on a GPU."""
        if cls.device(backend) == "cuda":
            return 2**27
        return 2**23 if backend in ("torch", "cpu") else 2**14

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        if "implementation" not in metafunc.fixturenames:
            return
        chosen = [i for i in registry.implementations() if cls.backends is None or i.backend in cls.backends]
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
            limit = self.elements(backend)
        except BackendUnavailableError as error:
            if backend in request.config.getoption("--require", default="").split(","):
                pytest.fail(f"a required backend is missing: {error}", pytrace=False)
            pytest.skip(str(error))
        if "case" in params and params["case"].elements > limit:
            pytest.skip(f"{params['case'].elements} elements are too many for where {backend} runs here ({limit})")

    def test_conforms(self, implementation: registry.Implementation, case: Case) -> None:
        try:
            check(implementation, case, self.device(implementation.backend))
        except (UnsupportedProblemError, BackendUnavailableError) as refusal:
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
