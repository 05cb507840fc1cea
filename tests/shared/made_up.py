"""Operations that no distribution has, for tests of what takes any: declared by ``declare``, and forgotten again."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from registered import forget_operation

import kernelzoo
from kernelzoo import operations
from kernelzoo.launch import Bind, Launch, void

Tensor = torch.Tensor


class own_norm:
    """Two inputs, one of them a vector, and a scalar; its output may be x."""

    x = kernelzoo.Input("outer n inner")
    weight = kernelzoo.Input("n")
    eps = kernelzoo.Scalar(1e-6, also=(0.5,))
    out = kernelzoo.Output("outer n inner", inplace="x")
    domain = {"x": lambda info, n: math.sqrt(3e38 / n) / 2}  # noqa: RUF012 - as a user writes it

    @staticmethod
    def reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return x / (x.square().mean(1, keepdim=True) + eps).sqrt() * weight[:, None]

    @staticmethod
    def error(ref: Tensor, n: int, unit: float) -> Tensor:
        return ref.abs() * unit * (8 + math.sqrt(n))


class pick:
    """Axes with names, an index that must be in range, and two outputs: of each row one element, and what it is."""

    x = kernelzoo.Input("M K")
    index = kernelzoo.Input("M N", dtype="int64", low=0, high="K", also=(-1,))
    out = kernelzoo.Output("M N")
    known = kernelzoo.Output("M N", dtype="bool")

    @staticmethod
    def reference(x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        known = index >= 0
        return x.gather(1, index.clamp(min=0)).where(known, 0), known


class row_sum:
    """Axes with names, one input."""

    x = kernelzoo.Input("M K")
    out = kernelzoo.Output("M")

    @staticmethod
    def reference(x: Tensor) -> Tensor:
        return x.sum(1)

    @staticmethod
    def error(x: Tensor, unit: float) -> Tensor:
        return x.abs().sum(1) * unit * x.size(1)


# Right kernels


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """In float64, where nothing on the way is too small."""
    wide = x.double()
    return wide / (wide.square().mean(1, keepdim=True) + eps).sqrt() * weight[:, None].double()


def norms(x: Tensor, weight: Tensor, out: Tensor, eps: float) -> Launch:
    return lambda: void(out.copy_(normed(x, weight, eps)))


def picks(x: Tensor, index: Tensor, out: Tensor, known: Tensor) -> Launch:
    def launch() -> None:
        known.copy_(index >= 0)
        out.copy_(x.gather(1, index.clamp(min=0)).where(index >= 0, 0))

    return launch


def sums(x: Tensor, out: Tensor) -> Launch:
    return lambda: void(out.copy_(x.double().sum(1)))


RIGHT: dict[str, Bind] = {"own_norm": norms, "pick": picks, "row_sum": sums}

DTYPES = {"own_norm": operations.FLOATS, "pick": ("float32", "int32"), "row_sum": ("float32",)}


@contextmanager
def declare() -> Iterator[None]:
    """Within the context, these operations are known."""
    try:
        for made in (own_norm, pick, row_sum):
            kernelzoo.operation(dtypes=DTYPES[made.__name__])(made)
        yield
    finally:
        forget_operation(*DTYPES)
