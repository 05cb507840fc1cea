"""The contract, over every registered implementation: the suite's own cases, and what Hypothesis makes up."""

from typing import Any, ClassVar

import pytest
import sampled
import torch
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

import kernelzoo
from kernelzoo.check import fuzz
from kernelzoo.check.case import Sampler
from kernelzoo.check.fuzz import placing, running
from kernelzoo.testing import Case, Conformance, check, tensors


def contiguous(dtype: str, shape: tuple[int, ...], dim: int = -1, *, start: int = 0, **named: Any) -> fuzz.Case:
    return fuzz.Case(dtype, shape, fuzz.Layout(torch.empty(shape, device="meta").stride(), start), dim, **named)


def beside(**values: str) -> tuple[fuzz.CompanionInput, ...]:
    """Companion inputs of these families of values."""
    return tuple(fuzz.CompanionInput(name, values=family) for name, family in values.items())


# Rows that end within a tile, a vector or a word, side by side and not, in each dtype: of softmax one of -inf alone,
# and many with stretches of it; of the minimum none with anything as low as what a mask that is lost might leave.
MEANT = {
    op: (
        contiguous("float32", (3, 37), values=spread, specials=specials),
        contiguous("float16", (2, 531), start=1, values=values),
        fuzz.Case("float64", (2, 37), fuzz.Layout((80, 2)), values=values),
        contiguous("bfloat16", (3, 45, 5), 1, values=spread),
        contiguous("float16", (2, 4111), values=values),
    )
    for op, values, spread, specials in (
        ("softmax", "masked", "spread", tuple(("-inf", place) for place in range(37, 74))),
        ("min", "offset", "offset", ()),
    )
} | {
    # Sums so large beside others that the exponential between them, itself no normal number, counts.
    "softmax_merge": tuple(
        contiguous(dtype, (200, 5), values=values, companions=beside(total="wide"))
        for dtype, values in (("float32", "spread"), ("float64", "spikes"))
    ),
    # Differences of two subnormal numbers, which count where the third is large.
    "softmax_backward_finish": (
        contiguous("float32", (40, 83), values="subnormal", companions=beside(y="offset", total="subnormal")),
    ),
    # A subnormal number that a large one makes count.
    "logsumexp_backward": (
        contiguous(
            "float32", (1, 1), values="offset",
            companions=(*beside(y="normal"), fuzz.CompanionInput("grad", specials=(("subnormal", 0),))),
        ),
    ),
    "layer_norm_backward": (
        contiguous("float32", (1, 11, 4), companions=beside(weight="subnormal", grad="masked")),
    ),
}  # fmt: skip

# Rows of equal elements: where they are added up in order, each addition rounds the same way.
EQUAL = tuple(
    fuzz.Case("float32", shape, fuzz.Layout(strides), dim, values=values)
    for shape, strides, dim in (((3, 300), (601, 2), -1), ((300, 3), (3, 1), 0))
    for values in ("constant", "plateau")
)

# No rows, of axes that no two strides lead along.
EMPTY = fuzz.Case("float32", (2, 2, 2, 0, 1), fuzz.Layout((4, 2, 1, 1, 1)), 1)

# Columns so long that a lane which adds up its part in order leaves the contract, where 128 or 64 share a column: how
# many elements, the seed, and the inputs that are constant beside the first.
LONG: dict[str, tuple[int, int, tuple[str, ...]]] = {
    **dict.fromkeys(("softmax", "logsumexp", "cross_entropy"), (2**17, 188, ())),
    "softmax_backward": (2**17, 27, ("y",)),
    "layer_norm": (2**19, 147, ()),
    "layer_norm_backward": (2**17, 1173, ("grad",)),
    "add_rms_norm": (2**19, 3977, ("residual",)),
}

# Rows of which each is several programs' in ``split``: not whole parts, alone, and across memory.
SHARED: dict[str, tuple[fuzz.Case, ...]] = {
    op: (
        contiguous("float32", (2, 5003), values=values),
        contiguous("bfloat16", (1, 8192), values=values),
        contiguous("float16", (4111, 3), 0, values=values),
        contiguous("float32", (2, 5003), specials=(("nan", 4711), ("inf", 9000), ("-inf", 9003))),
    )
    for op, values in (("sum", "normal"), ("argmin", "offset"), ("logsumexp", "masked"), ("cumsum", "normal"))
}
SHARED["cross_entropy"] = SHARED["logsumexp"][:2]


def placed(x: torch.Tensor, device: str) -> torch.Tensor:
    """The same memory on the device, and the same view of it."""
    whole = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return whole.clone().to(device).as_strided(x.shape, x.stride(), x.storage_offset())


class TestConformance(Conformance):
    samples: ClassVar[bool] = False

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """Tests of the backends named, and without a GPU and ``--all`` of a sample."""
        only = metafunc.config.getoption("--only") or metafunc.config.getoption("--core")
        cls.backends = tuple(only.split(",")) if only else None
        cls.samples = sampled.on_host() and not metafunc.config.getoption("--all")
        if metafunc.function in (cls.test_shared_rows, cls.test_long_columns):
            made = [i for name in cls.backends or (None,) for i in kernelzoo.implementations(name)]
            ops, names = (
                (SHARED, ("split",)) if metafunc.function is cls.test_shared_rows else (LONG, ("online", "rows"))
            )
            metafunc.parametrize(
                "implementation", [i for i in made if i.variant in names and i.op in ops], ids=lambda i: i.id
            )
        elif cls.samples and metafunc.function in (cls.test_any_tensor, cls.test_fuzzed):
            names = cls.backends or (None,)
            drawn = [i for name in names for i in kernelzoo.implementations(name) if sampled.is_drawn_for(i)]
            metafunc.parametrize("implementation", drawn, ids=lambda i: i.id)
        else:
            super().pytest_generate_tests(metafunc)

    @classmethod
    def takes(cls, implementation: kernelzoo.Implementation, case: Case) -> bool:
        return not (cls.samples and sampled.is_left_out(implementation, case))

    def test_any_tensor(self, implementation: kernelzoo.Implementation) -> None:
        if self.takes_core_only(implementation):
            pytest.skip("takes a second to bind each problem")
        device = self.device(implementation.backend)
        slow = kernelzoo.get(implementation.backend).emulator and implementation.variant != "auto"

        @settings(max_examples=8 if slow else 25, deadline=None, suppress_health_check=list(HealthCheck))
        @given(data=st.data())
        def conforms(data: st.DataObject) -> None:
            drawn = data.draw(tensors(implementation.op))
            inputs = drawn if isinstance(drawn, tuple) else (drawn,)
            rank = max(inputs[0].ndim, 1)
            keepdim = False
            # Several inputs go together along the last axis.
            dim: int | tuple[int, ...] = -1 if len(inputs) > 1 else data.draw(st.integers(-rank, rank - 1))
            if implementation.operation.several_axes and data.draw(st.booleans()):
                dim = tuple(data.draw(st.sets(st.integers(0, rank - 1))))
                keepdim = data.draw(st.booleans())

            def make(draw: Sampler) -> tuple[torch.Tensor, ...]:
                return tuple(placed(x, draw.device) for x in inputs)

            case = Case(implementation.op, "drawn", make, dim, keepdim)
            try:
                check(implementation, case, device)
            except kernelzoo.UnsupportedProblemError:
                reject()  # try another

        try:
            conforms()
        except Unsatisfiable as refused:
            if implementation.chooses:
                raise
            pytest.skip(f"a form that takes none of the tensors drawn, and is held to test_takes_a_case: {refused}")

    def test_shared_rows(self, implementation: kernelzoo.Implementation) -> None:
        cases = SHARED[implementation.op]
        if not implementation.operation.needs_element:
            cases += (fuzz.Case("float32", (2, 0), fuzz.Layout((1, 1))),)
        found = running.run(implementation, cases, torch.device(self.device(implementation.backend)))
        assert [(str(cases[number]), words) for number, words in found.wrong] == []
        assert found.right == len(cases)

    def test_long_columns(self, implementation: kernelzoo.Implementation) -> None:
        """Equal elements: what one sum in order rounds off is the same each time."""
        op, backend = implementation.operation, kernelzoo.get(implementation.backend)
        device = self.device(implementation.backend)
        n, seed, names = LONG[op.name]
        equal = beside(**dict.fromkeys(names, "constant"))
        values, width = "constant" if equal else "plateau", 8 if device == "cpu" and not backend.emulator else 32
        case = contiguous("float32", (n, width), 0, values=values, seed=seed, companions=equal)
        inputs = [x.to(device) for _, x in placing.place_inputs(op, case, torch.Generator())]
        result = getattr(backend, op.name)(*inputs, dim=0, variant=implementation.variant)
        op.expect(op.arguments(inputs, 0)).check(result if isinstance(result, tuple) else (result,))

    def test_fuzzed(self, implementation: kernelzoo.Implementation) -> None:
        """A small budget of ``kernelzoo fuzz``, the same cases each time; most where they cost least, on the host."""
        if self.takes_core_only(implementation):
            pytest.skip("takes a second to bind each problem")
        emulated = bool(kernelzoo.get(implementation.backend).emulator)
        device = torch.device(self.device(implementation.backend))
        # torch's own softmax can miss the contract on rows of some length, as docs/contract.md says.
        cheap = device.type == "cpu" and implementation.id != "torch/softmax/eager"
        # An emulator takes long for a case of a named variant: those have to do with what is meant for each.
        count, elements, alike = (200, 2**16, fuzz.GROUP) if cheap else (120, 2**12, fuzz.GROUP)
        if emulated:
            count, elements, alike = 8 if implementation.variant == "auto" else 0, 2**7, 1
        plain = (*EQUAL, EMPTY) if "float32" in implementation.operation.dtypes else ()
        cases = [*MEANT.get(implementation.op, ()), *plain, *fuzz.draw(implementation.op, count, 1, elements, alike)]
        found = running.run(implementation, cases, device)
        assert [(str(cases[number]), words) for number, words in found.wrong] == []
        if found.unavailable:
            pytest.skip(found.unavailable)
        assert found.right + found.refused + found.faults + found.no_room == len(cases)
