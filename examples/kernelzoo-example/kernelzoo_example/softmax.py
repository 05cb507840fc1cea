"""Softmax in NumPy."""

import numpy as np
import torch

from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("example", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Maximum, difference, exponential, sum and quotient, each a pass over memory."""
    wide = torch.promote_types(x.dtype, torch.float32)  # half precision is accumulated in float32

    def launch() -> None:
        values = x.to(wide).numpy()  # the memory of x itself where that is wide enough
        with np.errstate(invalid="ignore", over="ignore"):  # inf - inf makes the NaN that is due, -max - max an -inf
            weights = np.exp(values - values.max(1, keepdims=True))
            # NumPy adds up in pairs along the last axis of memory alone; in order, a long sum leaves the contract.
            weights /= np.ascontiguousarray(weights.swapaxes(1, 2)).sum(2)[:, None]
        out.copy_(torch.from_numpy(weights))

    return launch
