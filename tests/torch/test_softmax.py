"""torch.softmax put right: rows that it gets wrong, in every dtype and in as many chunks as it takes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import kernelzoo
from kernelzoo.kernels.torch import choose
from kernelzoo.kernels.torch.min.compile import _has_8_bit_error
from kernelzoo.kernels.torch.softmax import limits, renormalized
from kernelzoo.operations import FLOATS, OPERATIONS

pytestmark = pytest.mark.slow

HOST = kernelzoo.implementation("torch/softmax/renormalized")


@pytest.fixture(params=[1, 1000, 2**20], ids="chunks of {}".format)
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Elements of a chunk: less than a row, some rows, all of them."""
    monkeypatch.setattr(renormalized, "CHUNK", request.param)
    return int(request.param)


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(7, 600, 1), (3, 100, 5), (1, 4097, 2)], ids=str)
def test_equal_terms_are_right(shape: tuple[int, ...], dtype: str) -> None:
    """Below one that is larger, or nothing is rounded. The first row holds -inf, the last of several a NaN."""
    x = torch.zeros(shape, dtype=getattr(torch, dtype))
    x[:, 0] = 0.1
    x[0, 3] = -torch.inf
    if shape[0] > 1:
        x[-1, 3, -1] = torch.nan
    out = torch.empty_like(x)
    HOST.launch(x, dim=1, out=out)()
    HOST.operation.assert_close(out, x, 1)


def test_torch_alone_misses_them() -> None:
    """What the second division is for: without it, nothing here would be worth its time."""
    x = torch.zeros((1, 4097), dtype=torch.float64)
    x[:, 0] = 0.1
    with pytest.raises(AssertionError, match="elements wrong"):
        HOST.operation.assert_close(torch.softmax(x, 1), x, 1)


@pytest.mark.parametrize(
    ("shape", "dtype", "chosen"),
    [
        ((5, 512, 1), "float32", "eager"),
        ((5, 513, 1), "float32", "renormalized"),
        ((5, 33, 2), "float64", "renormalized"),
        ((5, 8, 2), "bfloat16", "renormalized"),
    ],
    ids=str,
)
def test_auto_takes_it_where_torch_alone_may_miss(shape: tuple[int, ...], dtype: str, chosen: str) -> None:
    x = torch.empty(shape, dtype=getattr(torch, dtype))
    assert choose.softmax(x, torch.empty_like(x)) == chosen


def test_it_is_refused_on_a_gpu() -> None:
    x = torch.empty(2, 3, 1, device="meta")
    with pytest.raises(kernelzoo.BackendUnavailableError, match="stays in cache"):
        renormalized.renormalized(x, x)


@pytest.mark.parametrize(
    ("n", "side_by_side", "eager_fits", "eager_is_exact"),
    [
        (1000, 1, True, True), (2**23, 1, True, True), (2**23 + 1, 1, True, False), (2**31, 1, False, False),
        (32, 65, True, True), (33, 65, True, False), (33, 64, True, True), (2**17, 33, True, True),
        (1000003, 33, True, False),
    ],
)  # fmt: skip
def test_rows_that_torchs_gpu_kernel_is_not_given(n, side_by_side, eager_fits, eager_is_exact) -> None:
    """The rules alone, of what was seen on a GPU; a machine without one can ask no more."""
    x: Any = SimpleNamespace(device=torch.device("cuda"), size=lambda axis: (1, n, side_by_side)[axis])
    assert limits.overflows_index(x) != eager_fits
    assert limits.is_inexact_on_equal_terms(x) != eager_is_exact


@pytest.mark.parametrize("op", ["softmax", "softmax_backward", "rms_norm", "layer_norm"])
def test_what_inductor_makes_for_the_host_is_refused(op: str) -> None:
    inputs = OPERATIONS[op].sample((4, 8), "float32", -1, generator=torch.Generator().manual_seed(0))
    with pytest.raises(kernelzoo.BackendUnavailableError, match="not exact enough"):
        getattr(kernelzoo.get("torch"), op)(*inputs, variant="compile")


# The minimum that torch.compile makes


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_8_bits_on_the_host_are_right_or_refused(dtype: torch.dtype) -> None:
    """Torch 2.13 gives 0 or 1; see docs/records/inductor-8-bit.md."""
    x = torch.full((5, 77), 100, dtype=dtype)
    call = kernelzoo.get("torch").min
    try:
        found = call(x, variant="compile").tolist()
    except kernelzoo.BackendUnavailableError as error:
        pytest.skip(str(error))
    except kernelzoo.UnsupportedProblemError as error:
        found = [100] * 5 if _has_8_bit_error(dtype) and "docs/records/inductor-8-bit.md" in str(error) else []
    assert found == [100] * 5
