import torch

from kernelzoo.kernels.cpu.launch import move_lanes_last, vectorises_across
from kernelzoo.registry import chooser

FUSED_ROW = 1 << 20
"""The longest row for ``fused``: 4 MB of float32, an eighth of a last-level cache of 32 MB."""

FUSED_COLUMN = 1 << 13
"""The longest row for ``fused`` if rows lie side by side: 16 rows of 2^13 float32 fill ``fused.TILE_BYTES``."""


@chooser("cpu", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Fused if a row, or a tile of rows side by side, fits in the cache; else online."""
    limit = FUSED_COLUMN if vectorises_across(move_lanes_last(x, out)[0]) else FUSED_ROW
    return "fused" if x.size(1) <= limit else "online"
