"""Columns that several programs share, in Triton's interpreter, whose programs run one after the other."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import triton
from one_input import MIN, SOFTMAX, allocate, launched

from kernelzoo import operations
from kernelzoo.kernels.shared.exchange import LEAVE, WRITE
from kernelzoo.kernels.triton import strips
from kernelzoo.kernels.triton.gradients import columns_launch
from kernelzoo.kernels.triton.min import columns as whole_columns
from kernelzoo.kernels.triton.min_backward import columns_kernel as of_minimum
from kernelzoo.kernels.triton.softmax.columns import launch_strips
from kernelzoo.kernels.triton.softmax.split_columns import launch_shared_strips, launch_shared_tiles
from kernelzoo.kernels.triton.softmax.strips import Strips
from kernelzoo.kernels.triton.softmax_backward import columns_kernel as of_softmax
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import rows_of

if not triton.knobs.runtime.interpret:
    pytest.skip("interpreter only: run with TRITON_INTERPRET=1", allow_module_level=True)

# NumPy remarks on inf - inf and inf * 0, which are meant.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INF, NAN = float("inf"), float("nan")
FLOATS = (torch.bfloat16, torch.float32, torch.float16)


def random(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).mul(3).to(dtype)


def special(shape: tuple[int, ...], dtype: torch.dtype, axis: int) -> torch.Tensor:
    """With columns of special values, at either end of an axis and all along it."""
    x = random(shape, dtype)
    columns, n = x.movedim(axis, 0), x.size(axis)
    columns[:, ..., 0] = -INF
    columns[n // 2, ..., 1] = NAN
    columns[n - 1, ..., 2] = INF
    columns[: n // 2, ..., 3] = -INF
    columns[0, ..., 4] = 1e4
    columns[:, ..., 5] = -3e4
    return x


def softmax_is_right(bind: Callable[[torch.Tensor, torch.Tensor], Launch], x: torch.Tensor, axis: int) -> None:
    out = torch.full(x.shape, 7.0, dtype=x.dtype)
    launched(SOFTMAX, bind, x, axis, out)()
    SOFTMAX.assert_close(out, x, axis)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_of_strips(dtype: torch.dtype) -> None:
    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        columns = rows_of(x, out).as_columns
        assert columns is not None
        held = tiling._replace(packed=columns.stride_gcd == 8 and tiling.columns >= 16)
        if tiling.elements >= columns.n:
            return launch_strips("a test", x, out, columns, held, WRITE)
        return launch_shared_strips(x, out, columns, held)

    for shape, axis in (((64, 48), 0), ((70, 40), 0), ((3, 37, 33), 1), ((2, 129, 96), 1)):
        for wide, elements in ((8, 16), (16, 8), (32, 32), (16, 256)):
            tiling = Strips(wide, elements, 32, 40, 128, False)
            softmax_is_right(bind, special(shape, dtype, axis), axis)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_of_tiles(dtype: torch.dtype) -> None:
    for shape in ((1000, 33), (3001, 7), (512, 16), (300, 100), (40, 127)):
        softmax_is_right(lambda x, out: launch_shared_tiles(x, out, rows_of(x, out)), special(shape, dtype, 0), 0)


def minimum_is_right(
    x: torch.Tensor, axis: int, threads: int, line: int, pile: int, parts: int, elements: int = 0
) -> None:
    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        columns = rows_of(x, out).as_columns
        assert columns is not None
        numbers = whole_columns.Knobs(element_bytes=elements)
        tile = whole_columns.choose_column_tile(numbers, columns, threads, line, pile)
        return whole_columns.make_column_launch("triton/min/split", x, out, columns, tile, parts)

    out = allocate(MIN, x, axis)
    launch = launched(MIN, bind, x, axis, out)
    for _ in range(2):  # the second finds what the first has left in its workspace
        out.fill_(-7)
        launch()
        MIN.assert_close(out, x, axis)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_minimum_of_columns(dtype: torch.dtype) -> None:
    def drawn(shape: tuple[int, ...], axis: int, first: int = 0, gap: int = 0) -> torch.Tensor:
        """Memory with NaN around it and in its gaps, which must be nobody's minimum."""
        wide = (*shape[:-1], shape[-1] + gap)
        memory = torch.full((first + math.prod(wide) + 64,), NAN, dtype=dtype)
        x = memory[first : first + math.prod(wide)].view(wide)[..., : shape[-1]]
        x.copy_(random(shape, torch.float64))
        columns, n = x.movedim(axis, 0), x.size(axis)
        columns[:, ..., 0] = 0.0
        columns[n // 3, ..., 0] = -0.0
        columns[n // 2, ..., 1] = NAN
        columns[n - 1, ..., 2] = -INF
        columns[:, ..., -2] = INF
        columns[n - 1, ..., -1] = -50  # at the very end of the memory
        columns[0, ..., 4] = -60
        return x

    given = (
        ((64, 48), 0),
        ((70, 33), 0),
        ((3, 37, 33), 1),
        ((2, 29, 45), 1, 0, 6),
        ((30, 5), 0, 0, 1),
        ((50, 21), 0, 1),
    )
    for x, axis in (*((drawn(*how), how[1]) for how in given), (drawn((40, 34), 0)[:, ::2], 0)):
        minimum_is_right(x, axis, threads=32, line=64, pile=2, parts=3)
        minimum_is_right(x, axis, threads=32, line=64, pile=2, parts=3, elements=2**23)
        minimum_is_right(x, axis, threads=64, line=128, pile=4, parts=1)
    for rise in (100, -100):  # what belongs to the slab before, or after, is lower than any of one's own
        x = random((3, 401, 7), torch.float64) + rise * torch.arange(3)[:, None, None]
        minimum_is_right(x.to(dtype), 1, threads=32, line=64, pile=2, parts=3)


@pytest.mark.sampled(3, "name")
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("name", "kernel", "whole"),
    [("softmax_backward", of_softmax.columns_kernel, 2), ("min_backward", of_minimum.columns_kernel, 1)],
)
def test_gradients_of_strips(name: str, kernel: Any, whole: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "MERGED_WORDS", 32)
    op, generator = operations.OPERATIONS[name], torch.Generator().manual_seed(0)

    def bind(columns: int, elements: int, parts: int, *args: torch.Tensor) -> Launch:
        across = rows_of(args[0], args[-1]).as_columns
        assert across is not None
        span = -(-across.n // parts)
        strip = strips.Strip(columns, elements, 32, 40, 128, -(-across.n // span), span)
        if parts == 1:
            return columns_launch("a test", kernel, args, whole, strip, WRITE)
        words = torch.full((2, across.strip_count(columns), strip.parts, columns), -1, dtype=torch.int64)
        rest = words, torch.zeros(1, dtype=torch.int64)
        return chain_launches(*(columns_launch("a test", kernel, args, whole, strip, p, *rest) for p in (LEAVE, WRITE)))

    for shape, axis in (((70, 40), 0), ((3, 37, 33), 1)):
        inputs = tuple(x.clone() for x in op.sample(shape, dtype, axis, generator=generator))
        inputs[0].movedim(axis, 0)[1, ..., 1] = NAN
        inputs[-1].reshape(-1)[2] = INF
        canonical = op.arguments(inputs, axis)
        (out,) = op.allocate(canonical)
        for tiling in ((8, 128, 1), (16, 8, 1), (8, 16, 7), (16, 4, 3)):
            out.fill_(7)
            op.make_launch(partial(bind, *tiling), canonical, (out,))()
            op.assert_close(out, inputs, axis)
