"""The kernel whose blocks exchange pairs with other ranks, compiled ahead of time: two GPUs are needed to run it."""

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="the triton backend needs the package triton")
if triton.knobs.runtime.interpret:
    pytest.skip("nothing is compiled under TRITON_INTERPRET; unset it to run this file", allow_module_level=True)

from kernelzoo import registry  # noqa: E402  (after the skips)
from kernelzoo.device import ARCHITECTURES, assumed  # noqa: E402
from kernelzoo.errors import UnsupportedProblemError  # noqa: E402
from kernelzoo.kernels.triton import inspection  # noqa: E402
from kernelzoo.launch import recorded  # noqa: E402

registry.import_kernels("triton", "kernelzoo.kernels.triton")
from kernelzoo.kernels.triton.softmax.split_ranks import split_ranks  # noqa: E402


def steps(x: torch.Tensor, ranks: int, arch: str) -> list:
    """What is launched for a shard, compiled."""
    device = ARCHITECTURES[arch]
    with assumed(device), inspection.target(device), recorded(compiles=True) as found:
        words, one = torch.empty(2, x.size(0), ranks, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
        split_ranks(x, torch.empty_like(x), words, one, one, one[:1], 0, ranks, 10**9)()
        return [(step, step.build()) for step in found]


@pytest.mark.parametrize("shape", [(2048, 64128), (16, 131072), (40, 1001)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_blocks_wait_for_ranks_only_where_all_are_resident(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    ((step, made),) = steps(torch.empty(*shape, 1, dtype=dtype), 2, "sm_90")
    assert step.cooperative
    assert made.local_bytes == 0
    device = ARCHITECTURES["sm_90"]
    held = device.registers_per_block // (made.registers * step.threads)
    assert step.grid[0] <= held * device.multiprocessors
    # The pair goes out behind a fence that all devices see, once for all rows, and is read for no longer than a limit.
    cleared, _, sent = made.ptx.partition("fence.acq_rel.sys")
    assert "atom.global.sys" not in cleared and sent.count("atom.global.sys.relaxed.exch.b64") == 1
    assert "ld.relaxed.sys.global.b64" in sent and "%globaltimer" in sent


def test_wide_elements_are_refused() -> None:
    with pytest.raises(UnsupportedProblemError, match="up to 32 bits"):
        steps(torch.empty(4, 100, 1, dtype=torch.float64), 2, "sm_90")
