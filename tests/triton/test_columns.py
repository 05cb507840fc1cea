"""Columns of a softmax shared by several programs, and few columns as one piece of memory, in Triton's interpreter.

Its programs run one after the other, so it takes the form of two launches; on a device the gate of each race and the
contract's cases check the one that exchanges pairs. Tiles are made small here, so that small tensors need many. Run as
a script where the interpreter must be switched on before Triton is imported.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
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


def main() -> int:
    import interpreter
    import torch

    from kernelzoo import ops
    from kernelzoo.kernels.triton import softmax
    from kernelzoo.kernels.triton.program import rows_of
    from kernelzoo.registry import Launch

    interpreter.install()
    warnings.simplefilter("ignore", RuntimeWarning)  # NumPy remarks on inf - inf, which is meant
    generator = torch.Generator().manual_seed(0)
    done = 0

    def check(what: Callable[[torch.Tensor, torch.Tensor], Launch], x: torch.Tensor, axis: int) -> None:
        nonlocal done
        out = torch.full(x.shape, 7.0, dtype=x.dtype)
        ops.SOFTMAX.launch(what, x, (axis,), out)()
        ops.SOFTMAX.assert_close(out, x, axis)
        done += 1

    def drawn(shape: tuple[int, ...], dtype: torch.dtype, axis: int) -> torch.Tensor:
        x = torch.randn(shape, dtype=torch.float64, generator=generator).mul(3).to(dtype)
        specials(x, axis)
        return x

    def strips(x: torch.Tensor, out: torch.Tensor) -> Launch:
        columns = softmax.columns_of_rows(rows_of(x, out), x.dtype)
        packed = columns.multiple == 8 and tiling.columns >= 16
        return softmax._strips(columns, x, out, tiling._replace(packed=packed))

    def flat(x: torch.Tensor, out: torch.Tensor) -> Launch:
        columns = softmax.columns_of_rows(rows_of(x, out), x.dtype)
        least = math.lcm(columns.inner, 16 // x.element_size())
        return softmax._flat(columns, x, out, 1024 // least * least)

    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for shape, axis in (((64, 48), 0), ((70, 40), 0), ((3, 37, 33), 1), ((2, 129, 96), 1)):
            x = drawn(shape, dtype, axis)
            for wide, elements in ((8, 16), (16, 8), (32, 32), (16, 256)):
                tiling = softmax.Strips(wide, elements, 32, 40, 128, False)
                check(strips, x, axis)
        for shape in ((1000, 33), (3001, 7), (512, 16), (300, 100)):
            check(flat, drawn(shape, dtype, 0), 0)
    print(done)
    return 0 if done == 60 else 1


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="it starts the interpreter by itself")
def test_columns_in_parts_are_right() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton", reason="the triton backend needs the package triton")
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
