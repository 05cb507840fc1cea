"""Minimum in NumPy."""

import torch

from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("example", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """NumPy's own minimum, which hands a NaN on."""
    wide = torch.float32 if x.dtype == torch.bfloat16 else x.dtype  # which NumPy does not have

    def launch() -> None:
        out.copy_(torch.from_numpy(x.to(wide).numpy().min(1)))

    return launch
