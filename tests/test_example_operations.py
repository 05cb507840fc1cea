"""Operations beside softmax and min, and that of examples/operations: each of many mistakes in them is found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import example_operations
import pytest
import torch
from example_operations import OP

import kernelzoo
from kernelzoo.check import verifying
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.launch import Launch

Tensor = torch.Tensor

LARGEST = 2**17
"""Elements of the largest input that is tried here."""

WRONG, DROPS, UNWRITTEN, CHANGES = "wrong value", "drops NaN", "leaves out unwritten", "changes its input"


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[ModuleType]:
    with example_operations.declared("broken") as module:
        yield module


def verified(id: str, *cases: str) -> verifying.CheckResults:
    """What ``kernelzoo verify`` finds, in all cases that are not large or in those named."""
    implementation, device = kernelzoo.implementation(id), torch.device("cpu")
    among = [c for c in verifying.checks_of(implementation, device, whole=True) if not cases or c.name in cases]
    assert len(among) == len(cases) or not cases, "no such case"
    return verifying.verify(implementation, among, device, whole=False, progress=lambda name, known: None)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying.running, "max_elements", lambda implementation: LARGEST)


def test_plain_torch_passes_all_cases() -> None:
    found = verified(f"mine/{OP}/torch")
    assert not found.findings and not found.refused
    assert found.passed > 200


@pytest.mark.parametrize(("variant", "language"), [("triton", "triton"), ("cuda_c", "cupy")])
def test_what_is_compiled_for_a_gpu_refuses_the_host(variant: str, language: str, example: ModuleType) -> None:
    if not hasattr(example, language):
        pytest.skip(f"{language} is not installed")
    with pytest.raises(UnsupportedProblemError, match=f"mine/{OP}/{variant} .* on the cpu"):
        getattr(kernelzoo.get("mine"), OP)(torch.randn(3, 5), torch.ones(5), variant=variant)


def test_a_file_loads_without_the_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    for language in ("triton", "cupy"):
        monkeypatch.setitem(example_operations.sys.modules, language, None)  # so that its import fails
    module = example_operations.loaded(example_operations.FILE)
    assert hasattr(module, "in_torch") and not hasattr(module, "in_triton") and not hasattr(module, "in_cuda_c")


# --- Mistakes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    """A wrong kernel, the case that shows it, and what is said of it."""

    op: str
    name: str
    results: Callable[..., Any]
    """Computes the outputs of the inputs and scalars; None for one that is not written."""
    case: str
    kind: str = WRONG
    words: str = "elements wrong; first at"

    def __str__(self) -> str:
        return f"{self.op}-{self.name.replace(' ', '-')}"

    def bind(self, *tensors: Tensor, **scalars: Any) -> Launch:
        count = len(kernelzoo.operations.OPERATIONS[self.op].inputs)
        inputs, outs = tensors[:count], tensors[count:]

        def launch() -> None:
            found = self.results(*inputs, *scalars.values())
            for out, result in zip(outs, found if isinstance(found, tuple) else (found,), strict=True):
                if result is not None:
                    out[: len(result)] = result

        return launch


def wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def over_root(x: Tensor, weight: Tensor, square: Tensor) -> Tensor:
    return wide(x) * torch.rsqrt(square) * wide(weight)[:, None]


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return over_root(x, weight, mean(wide(x).square()) + eps)


ROWS, RMS, EPS, SPECIAL = "float32-37x129", "float32-3x129", "float32-eps=0.5", "float32-special-values-300"


def mean(x: Tensor) -> Tensor:
    return x.mean(1, keepdim=True)


RMS_NORM = [
    ("drops NaN", lambda x, weight, eps: rms(x.where(x == x, 0), weight, eps), SPECIAL, DROPS),
    ("drops NaN of the weight", lambda x, *rest: rms(x, rest[0].nan_to_num(), rest[1]), "float32-weight-a-NaN", DROPS),
    ("epsilon outside the root", lambda x, weight, eps: over_root(
        x, weight, (mean(wide(x).square()).sqrt() + eps).square()), EPS),
    ("ignores eps", lambda x, weight, eps: rms(x, weight, 1e-6), EPS),
    ("no eps", lambda x, weight, eps: rms(x, weight, 0), SPECIAL),
    ("adds up in half", lambda x, weight, eps: over_root(x, weight, mean(x.square()) + eps), f"float16-{SPECIAL[8:]}"),
    ("adds up in bfloat16", lambda x, weight, eps: over_root(x, weight, mean(x.bfloat16().square()) + eps), RMS),
    ("mean over n - 1", lambda x, weight, eps: over_root(
        x, weight, mean(wide(x).square()) * x.size(1) / (x.size(1) - 1) + eps), RMS),
    ("no weight", lambda x, weight, eps: rms(x, torch.ones_like(weight), eps), RMS),
]  # fmt: skip


def last_of(x: Tensor) -> Tensor:
    return x.size(1) - 1 - x.flip(1).argmin(1)


ARGMIN = [
    ("last of ties", lambda x: last_of(x), SPECIAL),
    ("last of ties of integers", lambda x: last_of(x), "int32-extremes"),
    ("drops NaN", lambda x: x.where(x == x, torch.inf).argmin(1), SPECIAL),
    ("last NaN wins", lambda x: torch.where(
        (x != x).any(1), x.size(1) - 1 - (x != x).int().flip(1).argmax(1), x.argmin(1)), SPECIAL),
    ("minus zero is less", lambda x: torch.where(
        (x.amin(1, keepdim=True) == 0) & (x == 0) & x.signbit(), -1.0, x).argmin(1), SPECIAL),
    ("compares in half", lambda x: x.half().argmin(1), "float32-neighbours"),
    ("float64 in float32", lambda x: x.float().argmin(1), "float64-neighbours"),
    ("int64 in float32", lambda x: x.float().argmin(1), "int64-2x4097"),
    ("uint8 as int8", lambda x: x.view(torch.int8).argmin(1), "uint8-extremes"),
    ("counts from one", lambda x: x.argmin(1) + 1, RMS),
    ("place within a block", lambda x: x.argmin(1) % 1024, "float32-2x4097"),
    ("last block unread", lambda x: x[:, : -(x.size(1) % 128) or None].argmin(1), "int32-extremes"),
    ("int64 in float64", lambda x: x.double().argmin(1), "int64-neighbours"),
]  # fmt: skip


def finite(top: Tensor) -> Tensor:
    return top.where(top.isfinite(), 0)


def lse(x: Tensor, guard: Callable[[Tensor], Tensor] = finite) -> Tensor:
    values = wide(x)
    top = guard(values.amax(1, keepdim=True))
    return (values - top).exp().sum(1).log() + top[:, 0]


LOGSUMEXP = [
    ("no maximum subtracted", lambda x: wide(x).exp().sum(1).log(), SPECIAL),
    ("drops NaN", lambda x: lse(x.where(x == x, -torch.inf)), SPECIAL, DROPS),
    ("minus infinity alone is NaN", lambda x: lse(x, lambda top: top.where(top > -torch.inf, top)), SPECIAL),
    ("infinity is NaN", lambda x: lse(x, lambda top: top.where(top != -torch.inf, 0)), SPECIAL),
    ("infinity is the largest number", lambda x: lse(x).clamp(max=torch.finfo(x.dtype).max), SPECIAL),
    ("adds up in bfloat16", lambda x: lse(x.bfloat16()), RMS),
    ("adds up in half", lambda x: lse(x.half()), RMS),
    ("logarithm of two", lambda x: lse(x) / 0.6931, RMS),
    ("mean", lambda x: lse(x) - torch.tensor(x.size(1)).log(), RMS),
    ("last column unread", lambda x: lse(x[:, : max(1, x.size(1) - 1)]), RMS),
    ("small results are zero", lambda x: torch.where(lse(x).abs() < 1e-3, 0, lse(x)), "float32-cancels"),
]  # fmt: skip


def entropy(x: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    values = wide(x)
    shifted = values - values.amax(1, keepdim=True)
    ignored = labels == ignore_index
    picked = shifted.gather(1, labels.masked_fill(ignored, 0)[:, None])[:, 0]
    return (shifted.exp().sum(1).log() - picked).masked_fill(ignored, 0)


def picked_from(x: Tensor, labels: Tensor) -> Tensor:
    return wide(x).gather(1, labels.clamp(0, x.size(1) - 1)[:, None])[:, 0]


CROSS_ENTROPY = [
    ("no maximum subtracted", lambda x, labels, index: (
        wide(x).exp().sum(1).log() - picked_from(x, labels)).masked_fill(labels == index, 0), SPECIAL),
    ("drops NaN", lambda x, labels, index: entropy(x.where(x == x, -torch.inf), labels, index), SPECIAL, DROPS),
    ("labels off by one", lambda x, labels, index: entropy(
        x, torch.where(labels == index, labels, (labels + 1) % x.size(1)), index), ROWS),
    ("ignore_index is no rule", lambda x, labels, index: lse(x) - picked_from(x, labels), ROWS),
    ("ignore_index is constant", lambda x, labels, index: entropy(x, labels, -100), "float32-ignore_index=0"),
    ("ignored rows of NaN are NaN", lambda x, labels, index: torch.where(
        lse(x).isnan(), torch.nan, entropy(x, labels, index)), SPECIAL),
    ("infinity is a number", lambda x, labels, index: entropy(
        x.clamp(max=torch.finfo(x.dtype).max), labels, index), SPECIAL, DROPS),
    ("loses what an offset has", lambda x, labels, index: (
        lse(x) - picked_from(x, labels)).masked_fill(labels == index, 0), SPECIAL),
    ("mean over rows", lambda x, labels, index: entropy(x, labels, index).mean().expand(x.size(0), 1), ROWS),
    ("adds up in bfloat16", lambda x, labels, index: entropy(x.bfloat16(), labels, index), ROWS),
]  # fmt: skip


def ln(x: Tensor, weight: Tensor, bias: Tensor, eps: float, middle: Any = mean, var: Any = None) -> Tensor:
    values = wide(x)
    away = values - middle(values)
    variance = mean(away.square()) if var is None else var(values, away)
    return away * torch.rsqrt(variance + eps) * wide(weight)[:, None] + wide(bias)[:, None]


LAYER_NORM = [
    ("variance from the mean of squares", lambda x, *rest: ln(x, *rest, var=lambda values, away: (
        mean(values.square()) - mean(values).square())), "float32-far-from-zero"),
    ("variance over n - 1", lambda x, *rest: ln(x, *rest, var=lambda values, away: (
        mean(away.square()) * x.size(1) / (x.size(1) - 1))), RMS),
    ("lanes past the end have a variance", lambda x, *rest: ln(x, *rest, var=lambda values, away: (
        mean(away.square()) + 127 * mean(values).square() / x.size(1))), RMS),
    ("mean over a whole block", lambda x, *rest: ln(x, *rest, middle=lambda v: v.sum(1, keepdim=True) / 256), RMS),
    ("no mean subtracted", lambda x, *rest: ln(x, *rest, middle=lambda values: 0), RMS),
    ("mean in bfloat16", lambda x, *rest: ln(x, *rest, middle=lambda values: mean(values.bfloat16())), RMS),
    ("drops NaN", lambda x, *rest: ln(x.where(x == x, 0), *rest), SPECIAL, DROPS),
    ("drops NaN of the bias", lambda x, weight, bias, eps: ln(
        x, weight, bias.where(bias == bias, 0), eps), "float32-bias-a-NaN", DROPS),
    ("ignores eps", lambda x, weight, bias, eps: ln(x, weight, bias, 1e-5), EPS),
    ("no bias", lambda x, weight, bias, eps: ln(x, weight, 0 * bias, eps), RMS),
]  # fmt: skip


def blocks(x: Tensor, carry: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Running sums by blocks of 128: those within a block, and what is carried of the total before it and the last."""
    found, total, last = [], x.new_zeros(()), x.new_zeros(())
    for block in x.split(128, 1):
        found.append(block.cumsum(1) + carry(total, last))
        last = block.sum(1, keepdim=True)
        total = total + last
    return torch.cat(found, 1)


CUMSUM = [
    ("without the element itself", lambda x: x.cumsum(1) - x, RMS),
    ("from the end", lambda x: x.flip(1).cumsum(1).flip(1), RMS),
    ("blocks on their own", lambda x: blocks(x, lambda total, last: total * 0), RMS),
    ("only the last block is carried", lambda x: blocks(x, lambda total, last: last), "float32-2x1025"),
    ("drops NaN", lambda x: x.where(x == x, 0).cumsum(1), SPECIAL, DROPS),
    ("infinity is NaN", lambda x: x.cumsum(1) + 0 * x.cumsum(1), SPECIAL),
    ("adds up in bfloat16", lambda x: x.bfloat16().cumsum(1), RMS),
    ("int32 in int32", lambda x: x.cumsum(1, dtype=torch.int32), "int32-wider-than-int32"),
    ("uint8 as int8", lambda x: x.view(torch.int8).cumsum(1), "uint8-extremes"),
    ("int64 in float64", lambda x: x.double().cumsum(1), "int64-2x4097"),
]  # fmt: skip


def quantized(x: Tensor, top: Any = None, then: Callable[[Tensor], Tensor] = Tensor.clone) -> tuple[Tensor, Tensor]:
    most = x.float().abs().amax(1) if top is None else top(x.float())
    scale = torch.where(most < 448 * 2.0**-126, 1, most / 448)
    return then((x / scale[:, None]).clamp(-448, 448)), scale


def rescaled(x: Tensor, scale: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Quantised by another scale."""
    by = scale(x.float().abs().amax(1))
    return (x / by[:, None]).clamp(-448, 448), by


QUANTIZE_ROWS = [
    ("ties away from zero", lambda x: quantized(x, then=lambda v: v * (1 + 2.0**-20)), "float32-ties"),
    ("rounds towards zero", lambda x: quantized(
        x, then=lambda v: (v.view(torch.int32) & ~0xFFFFF).view(torch.float32)), RMS),
    ("subnormal numbers are zero", lambda x: quantized(
        x, then=lambda v: v.where(v.abs() >= 2.0**-6, 0)), "float32-ties"),
    ("zeros are divided by zero", lambda x: rescaled(x, lambda top: top / 448), SPECIAL),
    ("scales in half", lambda x: rescaled(x, lambda top: (top / 448).half().float()), RMS),
    ("the scale's reciprocal", lambda x: (quantized(x)[0], 1 / quantized(x)[1]), RMS),
    ("a maximum with its sign", lambda x: quantized(x, lambda x: x.amax(1)), RMS),
    ("one scale for all rows", lambda x: quantized(x, lambda x: x.abs().amax().expand(x.size(0), x.size(2))), RMS),
    ("drops NaN", lambda x: quantized(x.where(x == x, 0)), SPECIAL, DROPS),
    ("infinity is a number", lambda x: quantized(x.clamp(-3e38, 3e38)), SPECIAL, DROPS),
    ("bfloat16 in half", lambda x: quantized(x.half()), "bfloat16-special-values-300"),
    ("scales left out", lambda x: (quantized(x)[0], None), RMS, UNWRITTEN, "3 of 3 elements"),
]  # fmt: skip

RIGHT: dict[str, Callable[..., Any]] = {
    "rms_norm": rms, "argmin": lambda x: x.argmin(1), "logsumexp": lse, "cross_entropy": entropy, "layer_norm": ln,
    "cumsum": lambda x: x.cumsum(1), "quantize_rows": quantized,
}  # fmt: skip
"""What is right for the cases below."""


def each(change: Callable[[Tensor], Tensor], results: Any) -> Any:
    return tuple(map(change, results)) if isinstance(results, tuple) else change(results)


def common(op: str) -> Iterator[Broken]:
    """What may go wrong in any operation."""
    right, names = RIGHT[op], list(kernelzoo.operations.OPERATIONS[op].inputs)

    def with_(place: int, change: Callable[[Tensor], object]) -> Callable[..., Any]:
        """The right results, if that input were what the change makes of it."""
        return lambda *given: right(*given[:place], change(given[place]), *given[place + 1 :])

    def changing(place: int) -> Callable[..., Any]:
        return lambda *given: (right(*given), given[place].add_(1))[0]

    yield Broken(op, "one row skipped", lambda *given: each(lambda y: y[:-1], right(*given)), ROWS, UNWRITTEN,
                 "were not written")  # fmt: skip
    yield Broken(op, "rolled", lambda *given: each(lambda y: y.roll(1, 0), right(*given)), ROWS)  # the next row's
    short = lambda x, *rest: each(lambda y: y * (x.size(1) <= 1000), right(x, *rest))  # noqa: E731
    yield Broken(op, "zeros for long rows", short, "float32-2x1025")
    if "float64" in kernelzoo.operations.OPERATIONS[op].dtypes and op != "argmin":  # which has cases of its own
        yield Broken(op, "float64 in float32", with_(0, Tensor.float), "float64-3x129")
    for place, name in enumerate(names):
        case = "float32-columns-stepped" if place == 0 else f"float32-{name}-stepped"
        as_if_contiguous = with_(place, lambda x: x.as_strided(x.shape, x.new_empty(x.shape).stride()))
        yield Broken(op, f"wrong stride of {name}", as_if_contiguous, case)
        words = f"the input {name} was changed" if len(names) > 1 else "the input was changed"
        yield Broken(op, f"changes {name}", changing(place), ROWS, CHANGES, words)


OWN = RMS_NORM, ARGMIN, LOGSUMEXP, CROSS_ENTROPY, LAYER_NORM, CUMSUM, QUANTIZE_ROWS
BROKEN = [Broken(op, *mistake) for op, mistakes in zip(RIGHT, OWN, strict=True) for mistake in mistakes]
BROKEN += [broken for op in RIGHT for broken in common(op)]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_a_mistake_is_found(broken: Broken) -> None:
    """In the case that was made for it, which the right kernel passes, and in words that say where."""
    variant = f"v{BROKEN.index(broken)}"

    def bind(*tensors: Tensor, **scalars: Any) -> Launch:
        return broken.bind(*tensors, **scalars)

    bind.__qualname__ = variant
    kernelzoo.register("broken", broken.op, variant)(bind)
    id = f"broken/{broken.op}/{variant}"
    (finding,) = verified(id, broken.case).findings
    assert (finding.id, finding.case, finding.kind) == (id, broken.case, broken.kind), finding
    assert broken.words in finding.reason, finding.reason
    assert verified(f"torch/{broken.op}/eager", broken.case).passed == 1
    if broken.kind == WRONG:
        assert finding.place is not None and finding.expected
