"""What kernels that take a row in pieces have in common: its running pair (maximum, sum). Axis 1 is kept."""

import torch


def subtracted(top):
    """What is subtracted from elements before their exponentials: of elements that are all -inf nothing, so that no
    difference is -inf - -inf."""
    return torch.where(top == float("-inf"), 0.0, top)


def pair_of(tile):
    """The pair (maximum, sum) of a block of rows."""
    top = torch.amax(tile, dim=1, keepdim=True)
    return top, torch.exp(tile - subtracted(top)).sum(1, keepdim=True)


def pair_with(top, total, tile):
    """The pair of rows, once a block is taken in."""
    higher = torch.maximum(top, torch.amax(tile, dim=1, keepdim=True))
    less = subtracted(higher)
    return higher, total * torch.exp(top - less) + torch.exp(tile - less).sum(1, keepdim=True)
