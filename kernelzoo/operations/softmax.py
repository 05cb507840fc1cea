"""Softmax over one axis: the exponentials of a row, less its maximum, divided by their sum."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from kernelzoo.errors import AxisError
from kernelzoo.launch import Bind, Launch, sequence
from kernelzoo.operations.canonical import merge, outer_inner, readable, through_copies
from kernelzoo.operations.exact import Exact, exponential, scaled, summed, two_product, two_sum
from kernelzoo.operations.expected import Expected, parts, rounded_to
from kernelzoo.operations.memory import distinct
from kernelzoo.operations.operation import FLOATS, Caller, Dims, Operation, Sample, axes_of
from kernelzoo.operations.sampling import normal, row_shape

if TYPE_CHECKING:
    import torch


class Softmax(Operation):
    """``exp(x - max) / sum(exp(x - max))`` over one axis."""

    name = "softmax"
    dtypes = FLOATS
    in_torch = "softmax"
    reduces = several_axes = needs_element = False
    rounds = True
    special_value = 20.0

    def check(self, x: torch.Tensor, dim: Dims) -> tuple[int, ...]:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise AxisError(f"softmax takes one axis, an int; got dim={dim!r}")
        return super().check(x, dim)

    def allocate(self, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        return x.new_empty(x.shape)

    def out_shape(self, shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
        return shape

    def launch(self, bind: Bind, x: torch.Tensor, dims: tuple[int, ...], out: torch.Tensor) -> Launch:
        x, before = readable(x)
        (dim,) = dims or (0,)
        if x.ndim == 0:
            x, out = x.view(1), out.view(1)
        kept = [(x.size(d), x.stride(d), out.stride(d), d > dim) for d in range(x.ndim) if d != dim]
        groups = merge(kept)
        if len(groups) > 2:
            # More row axes than the canonical form has: copy what can't be read in place, write what can't in place.
            return sequence(before, through_copies(lambda x, out: self.launch(bind, x, dims, out), x, out))
        outer, inner = outer_inner(groups)
        shape = (outer[0], x.size(dim), inner[0])
        return sequence(
            before,
            bind(
                x.as_strided(shape, (outer[1], x.stride(dim), inner[1])),
                out.as_strided(shape, (outer[2], out.stride(dim), inner[2])),
            ),
        )

    def reference(self, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> torch.Tensor:
        # Not torch.softmax, which adds a row up in order: torch.sum adds pairwise, and so is right in float64 too.
        exponentials = self._below_maximum(x, dim).exp_()
        return exponentials.div_(exponentials.sum(dim, keepdim=True))

    def _below_maximum(self, x: torch.Tensor, dim: Dims) -> torch.Tensor:
        wide = x.double()
        return wide.sub(wide.amax(dim, keepdim=True) if x.numel() else wide)

    def expect(self, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> Expected:
        """Each element within :meth:`allowance`, and NaN exactly where it must be."""
        import torch

        assert isinstance(dim, int)
        lower, upper = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
        for x_part, lower_part, upper_part in parts((x, lower, upper), dim) if x.numel() else ():
            expected = self.reference(x_part, dim)
            relative, floor = self.allowance(x_part, dim)
            bound = relative.mul_(expected).add_(floor)
            lower_part.copy_(rounded_to(expected - bound, x.dtype, up=True))
            upper_part.copy_(rounded_to(expected.add_(bound), x.dtype, up=False))
        return Expected(self.name, lower, upper)

    def allowance(self, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, float]:
        """The error that honest arithmetic can make.

        With u the unit roundoff of the arithmetic (2^-24, for float64 2^-53) and d = max - x of the element, the
        allowed relative error is u * (16 + 4 * d + sqrt(n) / 2): the exponential's argument carries d, and the sum the
        random walk of n additions in order, which is how torch itself adds up an axis that is not the last.
        To that comes half a unit in the last place of the output's dtype where it is a half precision, and the
        smallest normal number (half the smallest subnormal for float16), below which a result may flush to zero.
        An offset common to the row is no excuse: the bound does not grow with the size of x.
        """
        import torch

        unit = 2.0**-53 if x.dtype == torch.float64 else 2.0**-24
        fixed = unit * (16 + math.sqrt(x.size(dim) if x.ndim else 1) / 2)
        if x.dtype in (torch.float16, torch.bfloat16):
            fixed += torch.finfo(x.dtype).eps / 2
        floor = 2.0**-25 if x.dtype == torch.float16 else torch.finfo(x.dtype).tiny
        depth = self._below_maximum(x, dim).neg_().clamp_(0, 1100).nan_to_num_(0)
        return depth.mul_(4 * unit).add_(fixed), floor

    def exact(self, rows: torch.Tensor) -> Exact:
        """In float64 for a narrower dtype; float64 itself in pairs, good to 2^-60.

        The exponential's argument is exact as a pair, the sum is a tree of pairs. The scale keeps results that are
        subnormal in float64 whole.
        """
        import torch

        if rows.dtype != torch.float64:
            return self.reference(rows), None, None
        top = rows.amax(1, keepdim=True)
        t, t_low = two_sum(rows, -top)
        legal = torch.isfinite(t)
        row_is_nan = ~torch.isfinite(top) | torch.isnan(rows).any(1, keepdim=True)
        t, t_low = t.where(legal, 0.0), t_low.where(legal, 0.0)
        deep = t < -800.0  # 2^-80 of the smallest subnormal number
        t, t_low = t.where(~deep, 0.0), t_low.where(~deep, 0.0)
        e, e_low, scale = exponential(t, t_low)
        gone = ~legal | deep
        e, e_low = e.where(~gone, 0.0), e_low.where(~gone, 0.0)
        total, total_low = summed(scaled(e, scale), scaled(e_low, scale))
        quotient = e / total
        product, left = two_product(quotient, total.expand_as(quotient))
        rest = (e - product).sub_(left).add_(e_low).sub_(quotient * total_low).div_(total)
        return quotient.masked_fill(row_is_nan, math.nan), rest, scale

    def bytes_moved(self, x: torch.Tensor, dim: Dims = -1) -> int:
        return (distinct(x) + x.numel()) * x.element_size()

    def sample(self, shape: tuple[int, ...], dtype: str, dim: Dims = -1, *, generator: torch.Generator) -> torch.Tensor:
        """Standard normal, with one element of each row raised to hold about half of the row's weight, at any width."""
        import torch

        x = normal(shape, dtype, generator=generator)
        if x.numel() and shape:
            (dim,) = axes_of(dim, len(shape))
            n, row = shape[dim], row_shape(shape, dim)
            peak = torch.randint(0, n, row, generator=generator, device=generator.device)
            raised = torch.rand(row, dtype=x.dtype, generator=generator, device=generator.device)
            x.scatter_(dim, peak, math.log(n) + 0.5 + raised)
        return x.to(getattr(torch, dtype))

    def samples(self) -> tuple[Sample, ...]:
        widths = (39, 79, 263, 781)
        return tuple(Sample(f"float32-equal-terms-{n}", (8, n), partial(equal_terms, n)) for n in widths)


def equal_terms(width: int) -> torch.Tensor:
    """Rows of a maximum and many equal terms, each of which a sum in order would round up by almost half a unit in its
    last place: 38 additions in a row are too many for the contract."""
    import torch

    x = torch.empty(8, width)
    for row, depth in zip(x, torch.linspace(4.5, 6, 8).tolist(), strict=True):
        near = depth + torch.arange(4096) * 2.0**-21  # neighbours in float32
        units = torch.exp(-near.double()) * 2**23  # of the last place of a sum from 1 up
        row.fill_(-near[(units.frac() - 0.55).abs().argmin()])
        row[0] = 0
    return x


SOFTMAX = Softmax()


class SoftmaxCall(Caller):
    """The method of a backend that calls it."""

    def softmax(
        self, x: torch.Tensor, dim: int = -1, *, variant: str = "auto", out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Softmax of ``x`` over one axis, as ``torch.softmax``: ``exp(x - max) / sum(exp(x - max))``.

        x: float16, bfloat16, float32 or float64, any rank (0-d as torch does it). Half precision is accumulated in
        float32. Returns a contiguous tensor of x's shape and dtype. A NaN or +inf in a row, or a row of -inf alone,
        makes that whole row NaN.
        """
        return self._run(SOFTMAX, x, dim, False, variant, out)
