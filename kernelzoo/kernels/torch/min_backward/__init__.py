"""The gradient of a minimum in torch: what autograd runs for torch.amin, eager and compiled."""
