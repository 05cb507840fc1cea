"""Short ways to the operations of one input and one output, for tests."""

import torch

from kernelzoo.launch import Bind, Launch
from kernelzoo.operations import OPERATIONS, Arguments, Bounds, Dims, Operation

SOFTMAX, MIN = OPERATIONS["softmax"], OPERATIONS["min"]


def sample(op: str, shape: tuple[int, ...], dtype: str, dim: Dims = -1, *, generator: torch.Generator) -> torch.Tensor:
    """The input of an operation."""
    (x,) = OPERATIONS[op].sample(shape, dtype, dim, generator=generator)
    return x


def allocate(op: Operation, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> torch.Tensor:
    """Its new output."""
    (out,) = op.allocate(op.arguments((x,), dim, keepdim))
    return out


def launched(op: Operation, bind: Bind, x: torch.Tensor, dim: Dims, out: torch.Tensor) -> Launch:
    """The launch of a bind on tensors that are not looked at."""
    dims = (dim % max(1, x.ndim),) if isinstance(dim, int) else tuple(dim)
    return op.make_launch(bind, Arguments((x,), dims), (out,))


def expected(op: Operation, x: torch.Tensor, dim: Dims = -1) -> Bounds:
    """What is right for its output."""
    (bounds,) = op.expect(op.arguments((x,), dim)).outputs
    return bounds
