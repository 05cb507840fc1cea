"""The minimum in torch: torch.amin, eager and compiled."""
