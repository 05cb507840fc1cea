"""What the conformance suite doesn't reach in the interpreter: programs that wait for each other, and copies."""

from typing import Any

import pytest
import torch
import triton

if not triton.knobs.runtime.interpret:
    pytest.skip("it runs in Triton's interpreter; set TRITON_INTERPRET=1", allow_module_level=True)

import stripped

import kernelzoo
from kernelzoo.device import require_batch_invariance
from kernelzoo.kernels.shared import jit
from kernelzoo.layout import rows_of

kernelzoo.get("gluon")
from kernelzoo.kernels.gluon.softmax import split_grid  # noqa: E402  (with the interpreter in Gluon's place)

ROWS = (
    ((3, 40000), torch.float32), ((3, 40001), torch.float32), ((5, 4099), torch.bfloat16),
    ((2, 20003), torch.float64), ((1, 300001), torch.float32), ((1, 140000), torch.bfloat16),
)  # fmt: skip


@pytest.mark.parametrize("n", [5001, 33001])
def test_programs_of_a_batch_invariant_row_agree_wherever_it_begins(n, monkeypatch) -> None:
    made: list[tuple[Any, ...]] = []
    interpreted = jit.interpreted_launch
    monkeypatch.setattr(jit, "interpreted_launch", lambda *launch: made.append(launch))
    x = torch.randn(9, n, generator=torch.Generator().manual_seed(1)).bfloat16()
    x[7, 5] = float("nan")

    def results(x: torch.Tensor) -> torch.Tensor:
        views = x[:, :, None], (out := torch.empty_like(x))[:, :, None]
        with require_batch_invariance("gluon/softmax/split_grid"):
            split_grid.make_exchange_launch("gluon/softmax/split_grid", *views, rows_of(*views), jit.INTERPRETER)
        for _ in range(2):  # the second time a program finds the pairs of all
            made[-1][2][3].fill_(0)
            interpreted(*made[-1])()
        return out.view(torch.int16)

    whole, alone = results(x), torch.cat([results(row[None].clone()) for row in x])
    assert torch.equal(whole, alone)
    expected = torch.softmax(x.double(), 1)
    torch.testing.assert_close(whole.view(x.dtype).double(), expected, rtol=1e-2, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(("shape", "dtype"), ROWS, ids=str)
@pytest.mark.parametrize("special", [None, float("nan"), float("inf"), float("-inf")], ids=str)
def test_programs_that_exchange_pairs_agree(shape, dtype, special, monkeypatch) -> None:
    """Programs run one after the other here: the first time each leaves its pair, the second it finds those of all."""
    made: list[tuple[Any, ...]] = []
    interpreted = jit.interpreted_launch
    monkeypatch.setattr(jit, "interpreted_launch", lambda kernel, programs, args: made.append((kernel, programs, args)))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    if special is not None:
        x[0, shape[1] // 2] = special
        x[-1, : shape[1] // 2] = special
    if special == float("-inf"):
        x[-1] = special
    out = torch.full_like(x, 7.0)
    views = x[:, :, None], out[:, :, None]
    split_grid.make_exchange_launch("gluon/softmax/split_grid", *views, rows_of(*views), jit.INTERPRETER)
    ((kernel, programs, args),) = made
    pairs, arrivals = args[2:4]
    assert programs > 1 and (pairs == -1).all()
    expected = torch.softmax(x.double(), 1)
    for launch in range(3):
        for _ in range(2):
            arrivals.fill_(launch * programs)
            out.fill_(7.0)
            interpreted(kernel, programs, args)()
        assert arrivals == (launch + 1) * programs
        mine, other = pairs[launch % 2], pairs[1 - launch % 2]
        assert (mine != -1).all() and (other == -1).all()  # the next launch's are clear
        torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=1e-6, equal_nan=True)


def test_a_copy_is_not_there_before_it_is_waited_for() -> None:
    memory = stripped.Memory(None, [2, 4], None)
    slot = memory.index(0)
    memory.slots[0] = "the row before"
    stripped.COPIES[-1].append((slot, "a row"))
    memory.slots[0] = None
    stripped.commit_group()
    stripped.wait_group(1)
    with pytest.raises(AssertionError, match="before what is copied"):
        slot.load(None)
    stripped.wait_group(0)
    assert slot.load(None) == "a row"
