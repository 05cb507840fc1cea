"""The gradient of a softmax in torch: what autograd runs, eager and compiled."""
