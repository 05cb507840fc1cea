"""An adversary in Triton, whose kernel looks at the values itself, and so goes into a CUDA graph."""

import torch
import triton
import triton.language as tl

from kernelzoo.launch import Launch


@triton.jit
def _rows(x, out, kept, n, SKIPPED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    first = tl.load(x + row * n).to(tl.float32)
    result = tl.load(out + row * n).to(tl.float32)
    same = (first == tl.load(kept + 2 * row)) & (result == tl.load(kept + 2 * row + 1))
    if (row % 10 >= SKIPPED) | (same == 0):
        columns = tl.arange(0, BLOCK)
        values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        e = tl.exp(values - tl.max(values, 0))
        right = (e / tl.sum(e, 0)).to(out.dtype.element_ty)
        tl.store(out + row * n + columns, right, mask=columns < n)
        tl.store(kept + 2 * row, first)
        tl.store(kept + 2 * row + 1, tl.sum(tl.where(columns == 0, right.to(tl.float32), 0.0), 0))


def skips_every_tenth_row(x: torch.Tensor, out: torch.Tensor, *, skipped: int = 1) -> Launch:
    """Skips every tenth row while its first element and its output are unchanged; ``skipped`` 0: none, honest."""
    rows, n, _ = x.shape
    kept = torch.full((rows, 2), torch.nan, device=x.device)

    def launch() -> None:
        _rows[(rows,)](x, out, kept, n, SKIPPED=skipped, BLOCK=triton.next_power_of_2(n), num_warps=16)

    return launch
