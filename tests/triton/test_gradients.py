"""The gradients in Triton: rows that several programs share, and columns in small strips, interpreted."""

import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

GRADIENTS = ("softmax_backward", "min_backward")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def strips_are_right(dtypes: list[str]) -> int:
    import interpreter
    import torch

    from kernelzoo import operations
    from kernelzoo.kernels.triton import strips
    from kernelzoo.kernels.triton.gradients import columns_launch
    from kernelzoo.kernels.triton.min_backward import columns_kernel as of_minimum
    from kernelzoo.kernels.triton.softmax.pairs import LEAVE, WRITE
    from kernelzoo.kernels.triton.softmax_backward import columns_kernel as of_softmax
    from kernelzoo.launch import Launch, sequence
    from kernelzoo.layout import rows_of

    interpreter.install()
    warnings.simplefilter("ignore", RuntimeWarning)  # NumPy remarks on inf * 0, which is meant
    strips.MERGED_WORDS = 32
    generator = torch.Generator().manual_seed(0)
    kernels = {"softmax_backward": (of_softmax.columns_kernel, 2), "min_backward": (of_minimum.columns_kernel, 1)}
    done = 0

    def bind(kernel: Any, whole: int, columns: int, elements: int, parts: int, *tensors: torch.Tensor) -> Launch:
        across = rows_of(tensors[0], tensors[-1]).columns
        assert across is not None
        span = -(-across.n // parts)
        strip = strips.Strip(columns, elements, 32, 40, 128, -(-across.n // span), span)
        if parts == 1:
            return columns_launch("a test", kernel, tensors, whole, strip, WRITE)
        words = torch.full((2, across.strips(columns), strip.parts, columns), -1, dtype=torch.int64)
        shared = words, torch.zeros(1, dtype=torch.int64)
        return sequence(*(columns_launch("a test", kernel, tensors, whole, strip, p, *shared) for p in (LEAVE, WRITE)))

    for name, (kernel, whole) in kernels.items():
        op = operations.OPERATIONS[name]
        for dtype in dtypes:
            for shape, axis in (((70, 40), 0), ((3, 37, 33), 1)):
                args = op.sample(shape, dtype, axis, generator=generator)
                inputs = [x.clone() for x in args]
                inputs[0].movedim(axis, 0)[1, ..., 1] = float("nan")
                inputs[-1].reshape(-1)[2] = float("inf")
                canonical = op.arguments(tuple(inputs), axis)
                (out,) = op.allocate(canonical)

                for columns, elements, parts in ((8, 128, 1), (16, 8, 1), (8, 16, 7), (16, 4, 3)):
                    out.fill_(7)
                    op.launch(partial(bind, kernel, whole, columns, elements, parts), canonical, (out,))()
                    op.assert_close(out, tuple(inputs), axis)
                    done += 1
    print(done)
    return 0 if done == 16 * len(dtypes) else 1


@pytest.mark.skipif(INTERPRETED, reason="it starts the interpreter by itself")
def test_strips_of_columns_are_right(request: pytest.FixtureRequest) -> None:
    """In each dtype with ``--all``; otherwise in one."""
    pytest.importorskip("torch")
    pytest.importorskip("triton", reason="the triton backend needs the package triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    dtypes = ["bfloat16", "float32", "float64"][: None if request.config.getoption("--all") else 1]
    command = [sys.executable, __file__, *dtypes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_a_launch_hands_on_all_canonical_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton", reason="the triton backend needs the package triton")
    from kernelzoo.kernels.shared import jit as launch
    from kernelzoo.launch import RebindableLaunch, WorkspaceLaunch

    monkeypatch.setattr(launch, "current_stream", lambda device: 5)
    given: list[tuple[Any, ...]] = []
    program = SimpleNamespace(run=lambda *args: given.append(args), function=7, packed_metadata=(4, 1))
    one, two, three, own = (torch.empty(4) for _ in range(4))
    for tensors, canonical in ((2, (one, two)), (3, (one, two, three))):
        for workspace in ((), (own,)):
            args = (*canonical, *workspace, 12)
            made = launch.launch_of(None, program, 33, args, tensors)
            assert isinstance(made, WorkspaceLaunch if workspace else RebindableLaunch)
            made()
            assert isinstance(made, RebindableLaunch) and len(made.tensors) == tensors
            made.at(*range(100, 100 + tensors))
            rest = [t.data_ptr() for t in workspace]
            addresses, moved = given
            assert addresses == (
                33, 1, 1, 5, 7, (4, 1), None, None, None, *(t.data_ptr() for t in canonical), *rest, 12,
            )  # fmt: skip
            assert moved == (33, 1, 1, 5, 7, (4, 1), None, None, None, *range(100, 100 + tensors), *rest, 12)
            given.clear()


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "shared")]
    sys.exit(strips_are_right(sys.argv[1:]))
