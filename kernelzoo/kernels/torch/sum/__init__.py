"""Sums in torch: torch.sum."""
