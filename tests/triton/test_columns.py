"""Columns shared by several programs, in Triton's interpreter."""

import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest


def specials(x: object, axis: int) -> None:
    """Write columns of special values into x, at either end of an axis and all along it."""
    import torch

    assert isinstance(x, torch.Tensor)
    inf = float("inf")
    columns = x.movedim(axis, 0)
    n = columns.size(0)
    for at, (rows, value) in enumerate(
        (
            (slice(None), -inf),
            (slice(n // 2, n // 2 + 1), float("nan")),
            (slice(n - 1, n), inf),
            (slice(0, n // 2), -inf),
            (slice(0, 1), 1e4),
            (slice(None), -3e4),
        )
    ):
        columns[rows, ..., at] = value


def softmax(dtypes: list[str]) -> int:
    import interpreter
    import torch
    from one_input import SOFTMAX, launched

    from kernelzoo.kernels.triton.softmax.columns import launch_of_strips
    from kernelzoo.kernels.triton.softmax.pairs import WRITE
    from kernelzoo.kernels.triton.softmax.split_columns import strips_in_parts, tiles_in_parts
    from kernelzoo.kernels.triton.softmax.strips import Strips
    from kernelzoo.launch import Launch
    from kernelzoo.layout import rows_of

    interpreter.install()
    warnings.simplefilter("ignore", RuntimeWarning)  # NumPy remarks on inf - inf, which is meant
    generator = torch.Generator().manual_seed(0)
    done = 0

    def check(what: Callable[[torch.Tensor, torch.Tensor], Launch], x: torch.Tensor, axis: int) -> None:
        nonlocal done
        out = torch.full(x.shape, 7.0, dtype=x.dtype)
        launched(SOFTMAX, what, x, axis, out)()
        SOFTMAX.assert_close(out, x, axis)
        done += 1

    def drawn(shape: tuple[int, ...], dtype: torch.dtype, axis: int) -> torch.Tensor:
        x = torch.randn(shape, dtype=torch.float64, generator=generator).mul(3).to(dtype)
        specials(x, axis)
        return x

    def strips(x: torch.Tensor, out: torch.Tensor) -> Launch:
        columns = rows_of(x, out).columns
        assert columns is not None
        held = tiling._replace(packed=columns.multiple == 8 and tiling.columns >= 16)
        if tiling.elements >= columns.n:
            return launch_of_strips("a test", x, out, columns, held, WRITE)
        return strips_in_parts(x, out, columns, held)

    def tiles(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return tiles_in_parts(x, out, rows_of(x, out))

    for dtype in (getattr(torch, name) for name in dtypes):
        for shape, axis in (((64, 48), 0), ((70, 40), 0), ((3, 37, 33), 1), ((2, 129, 96), 1)):
            x = drawn(shape, dtype, axis)
            for wide, elements in ((8, 16), (16, 8), (32, 32), (16, 256)):
                tiling = Strips(wide, elements, 32, 40, 128, False)
                check(strips, x, axis)
        for shape in ((1000, 33), (3001, 7), (512, 16), (300, 100), (40, 127)):
            check(tiles, drawn(shape, dtype, 0), 0)
    print(done)
    return 0 if done == 21 * len(dtypes) else 1


def minimum(dtypes: list[str]) -> int:
    import interpreter
    import torch
    from one_input import MIN, allocate, launched

    from kernelzoo.kernels.triton.min import columns as whole
    from kernelzoo.launch import Launch
    from kernelzoo.layout import rows_of

    interpreter.install()
    generator = torch.Generator().manual_seed(0)
    done = 0

    def check(what: Callable[[torch.Tensor, torch.Tensor], Launch], x: torch.Tensor, axis: int) -> None:
        nonlocal done
        out = allocate(MIN, x, axis)
        launch = launched(MIN, what, x, axis, out)
        for _ in range(2):  # the second finds what the first has left in its workspace
            out.fill_(-7)
            launch()
            MIN.assert_close(out, x, axis)
            done += 1

    def drawn(shape: tuple[int, ...], dtype: torch.dtype, axis: int, first: int = 0, gap: int = 0) -> torch.Tensor:
        """Memory with NaN around it and in its gaps, which must be nobody's minimum."""
        wide = (*shape[:-1], shape[-1] + gap)
        memory = torch.full((first + math.prod(wide) + 64,), float("nan"), dtype=dtype)
        x = memory[first : first + math.prod(wide)].view(wide)[..., : shape[-1]]
        x.copy_(torch.randn(shape, dtype=torch.float64, generator=generator).mul(3))
        columns = x.movedim(axis, 0)
        n = columns.size(0)
        columns[:, ..., 0] = 0.0
        columns[n // 3, ..., 0] = -0.0
        columns[n // 2, ..., 1] = float("nan")
        columns[n - 1, ..., 2] = -float("inf")
        columns[:, ..., -2] = float("inf")
        columns[n - 1, ..., -1] = -50  # at the very end of the memory
        columns[0, ..., 4] = -60
        return x

    def tiles(
        x: torch.Tensor, out: torch.Tensor, threads: int, line: int, pile: int, parts: int, elements: int = 0
    ) -> Launch:
        columns = rows_of(x, out).columns
        assert columns is not None
        numbers = whole.Numbers(element_bytes=elements)
        tile = whole.column_tile(numbers, columns, threads, line, pile)
        return whole.launch_of_columns("triton/min/split", x, out, columns, tile, parts)

    for dtype in (getattr(torch, name) for name in dtypes):
        for x, axis in (
            (drawn((64, 48), dtype, 0), 0),
            (drawn((70, 33), dtype, 0), 0),
            (drawn((3, 37, 33), dtype, 1), 1),
            (drawn((2, 29, 45), dtype, 1, gap=6), 1),
            (drawn((30, 5), dtype, 0, gap=1), 0),
            (drawn((50, 21), dtype, 0, first=1), 0),
            (drawn((40, 34), dtype, 0)[:, ::2], 0),
        ):
            check(partial(tiles, threads=32, line=64, pile=2, parts=3), x, axis)
            check(partial(tiles, threads=32, line=64, pile=2, parts=3, elements=2**23), x, axis)
            check(partial(tiles, threads=64, line=128, pile=4, parts=1), x, axis)
        for rise in (100, -100):  # what belongs to the slab before, or after, is lower than any of one's own
            x = torch.randn((3, 401, 7), generator=generator) + rise * torch.arange(3)[:, None, None]
            check(partial(tiles, threads=32, line=64, pile=2, parts=3), x.to(dtype), 1)
    print(done)
    return 0 if done == 46 * len(dtypes) else 1


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="it starts the interpreter by itself")
@pytest.mark.parametrize("op", ["softmax", "minimum"])
def test_columns_in_parts_are_right(op: str, request: pytest.FixtureRequest) -> None:
    """In each dtype with ``--all``; otherwise in one."""
    pytest.importorskip("torch")
    pytest.importorskip("triton", reason="the triton backend needs the package triton")
    dtypes = ["bfloat16", "float32", *(["float16"] if op == "softmax" else [])]
    done = subprocess.run(
        [sys.executable, __file__, op, *dtypes[: None if request.config.getoption("--all") else 1]],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "shared")]
    sys.exit({"softmax": softmax, "minimum": minimum}[sys.argv[1]](sys.argv[2:]))
