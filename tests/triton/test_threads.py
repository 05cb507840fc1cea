"""Whole rows to a thread, in Triton's interpreter: several programs, threads without a group, rows after the last one.

Run as a script where the interpreter must be switched on before Triton is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

# (dtype, n, rows of a group, its words): whole vectors, halves of them and single words; the longest that a thread has.
GROUPS = (
    ("bfloat16", 1, 8, 4),
    ("bfloat16", 2, 4, 4),
    ("bfloat16", 5, 8, 20),
    ("bfloat16", 17, 8, 68),
    ("bfloat16", 20, 2, 20),
    ("bfloat16", 33, 4, 66),
    ("bfloat16", 61, 2, 61),
    ("bfloat16", 136, 1, 68),
    ("float16", 7, 8, 28),
    ("float16", 34, 4, 68),
    ("float32", 3, 4, 12),
    ("float32", 17, 4, 68),
    ("float32", 34, 2, 68),
    ("float32", 67, 1, 67),
)


def main() -> int:
    import interpreter
    import torch
    from one_input import SOFTMAX, launched

    from kernelzoo import registry
    from kernelzoo.kernels.shared.jit import INTERPRETER
    from kernelzoo.kernels.triton.softmax.multi_row_thread import multi_row_thread
    from kernelzoo.kernels.triton.threads import groups_of
    from kernelzoo.layout import cdiv, power_of_two, rows_of

    registry.import_kernels("triton", "kernelzoo.kernels.triton")  # declares the launch tables
    interpreter.install()
    warnings.simplefilter("ignore", RuntimeWarning)  # NumPy remarks on inf - inf, which is meant
    generator = torch.Generator().manual_seed(0)
    inf, nan = float("inf"), float("nan")
    for name, n, rows, words in GROUPS:
        dtype = getattr(torch, name)
        # A group more than a program of the minimum has, which is larger, and rows that are no group.
        many = (max(32, power_of_two(cdiv(1024, words))) + 1) * rows + rows - 1
        memory = torch.full((many * n + 64,), nan, dtype=dtype)  # what comes after is nobody's
        x = memory[: many * n].view(many, n)
        x.copy_(torch.randn((many, n), dtype=torch.float64, generator=generator).mul(3))
        for row, at, value in ((1, 0, nan), (2, n - 1, inf), (3, slice(None), -inf), (4, 0, -inf), (-1, n - 1, -50)):
            x[row, at] = value
        guarded = torch.full((many * n + 64,), 7, dtype=dtype)
        out = guarded[: many * n].view(many, n)
        launched(SOFTMAX, multi_row_thread, x, 1, out)()
        SOFTMAX.assert_close(out, x, 1)
        assert (guarded[many * n :] == 7).all(), (name, n)
        canonical = x[:, :, None]
        tile = groups_of(INTERPRETER, rows_of(canonical, torch.empty_like(canonical)), 68, 1024)
        assert tile is not None and (tile.rows, tile.words) == (rows, words), (name, n, tile)
        assert tile.left == rows - 1 and tile.many > tile.tile, (name, n, tile)
    return 0


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="it starts the interpreter by itself")
def test_rows_of_threads_are_right() -> None:
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
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "shared")]
    sys.exit(main())
