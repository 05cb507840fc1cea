"""A solution of gated_rows.json, beside its specification."""

import torch


def run(x: torch.Tensor, order: torch.Tensor, slope: float) -> torch.Tensor:
    gate, value = x.index_select(0, order).float().chunk(2, dim=-1)
    return torch.where(gate > 0, gate, gate * slope).mul_(value).bfloat16()
