"""Rows that several programs share, in Triton's interpreter: the core cases of the contract have none so long."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("helion", reason="the helion backend needs the package helion")
import triton
from emulated import long_rows

import kernelzoo
from kernelzoo import operations, registry
from kernelzoo.kernels.helion import compiler

if not triton.knobs.runtime.interpret:
    pytest.skip("interpreter only: run with TRITON_INTERPRET=1", allow_module_level=True)

SUMMED = ("sum", "argmin", "logsumexp", "cross_entropy", "cumsum")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("shape", "dim"), [((5, 20001), -1), ((9000, 5), 0)], ids=str)
@pytest.mark.parametrize("op", SUMMED)
def test_what_parts_of_a_row_leave_is_put_together(op: str, shape: tuple[int, int], dim: int, dtype: str) -> None:
    """Also infinities, a NaN and equal minima, in parts that are far apart."""
    operation = operations.OPERATIONS[op]
    inputs = long_rows(operation, shape, dim, dtype)
    args = operation.arguments(inputs, dim)
    outs = operation.allocate(args)
    registry.implementation(f"helion/{op}/split").launch(*inputs, dim=dim, out=outs)()
    operation.expect(args).check(outs)


@pytest.mark.parametrize(("shape", "dim"), [((3, 20001), -1), ((2, 16384), -1), ((9000, 5), 0)], ids=str)
@pytest.mark.parametrize("op", ["softmax", "min", "softmax_backward", "min_backward"])
def test_parts_of_a_row_are_put_together(op: str, shape: tuple[int, int], dim: int) -> None:
    operation = operations.OPERATIONS[op]
    inputs = operation.sample(shape, "float32", dim, generator=torch.Generator().manual_seed(0))
    if op == "min_backward":  # equal minima in parts that are far apart
        x, y, _ = inputs
        for row in x if dim else x.t():
            row[[0, -1]] = -9.0
        y.fill_(-9.0)
    args = operation.arguments(inputs, dim)
    outs = operation.allocate(args)
    form = "split" if op == "min" else "split_two_launches"
    registry.implementation(f"helion/{op}/{form}").launch(*inputs, dim=dim, out=outs)()
    operation.expect(args).check(outs)


def test_what_helion_makes_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the same compiler, and in other processes too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []
    source_of = compiler.generate_source
    monkeypatch.setattr(compiler, "generate_source", lambda program: made.append(program) or source_of(program))

    def call() -> torch.Tensor:
        monkeypatch.setattr(compiler, "_made", {})
        return kernelzoo.get("helion").sum(torch.ones(3, 5), variant="rows")

    assert [call().tolist(), len(made)] == [[5.0] * 3, 1]
    assert [call().tolist(), len(made)] == [[5.0] * 3, 1]
    monkeypatch.setattr(compiler, "_compiler_identity", lambda: "another")
    assert [call().tolist(), len(made)] == [[5.0] * 3, 2]
