"""What each operation means, once: what it takes, its canonical form, its reference, its tolerance, its bytes.

The canonical form is the same for both operations, and it is what an implementation binds: a strided view of the input
with three axes, ``(outer, n, inner)``, where ``n`` is the reduced axis and one *row* is a pair (outer, inner). Any axis
of a tensor, and most sliced, stepped, transposed or expanded ones, is such a view without a copy:

    softmax    x (outer, n, inner)    out (outer, n, inner)
    min        x (outer, n, inner)    out (outer, inner)

All six (five) strides are free, offsets need 64 bits, no size is zero. ``inner`` is 1 for a reduction over the last
axis of a contiguous tensor. A layout that three axes can't say is first copied, inside the launch, and so in its time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from kernelzoo.errors import (
    AxisError,
    EmptyReductionError,
    GradientError,
    InputTypeError,
    OutputError,
)
from kernelzoo.workspace import owning

if TYPE_CHECKING:
    import torch

    from kernelzoo.registry import Bind, Launch

Dims: TypeAlias = "int | tuple[int, ...]"

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


@dataclass(frozen=True)
class Expected:
    """What is right for each element of a result: anything from ``lower`` to ``upper``, and NaN where these are NaN.

    Both are in the result's own shape and dtype, rounded inwards, so that no value that is wrong in float64 gets by.
    """

    op: str
    lower: torch.Tensor
    upper: torch.Tensor

    def check(self, actual: torch.Tensor) -> None:
        """Raise AssertionError, with the first wrong element, unless the whole of ``actual`` is right."""
        for what, given, want in (
            ("shape", tuple(actual.shape), tuple(self.lower.shape)),
            ("dtype", actual.dtype, self.lower.dtype),
            ("device", actual.device, self.lower.device),
        ):
            if given != want:
                raise AssertionError(f"result has {what} {given}, must have {want}")
        # A NaN is never within two bounds; where one is due is asked only when something is not.
        right = (actual >= self.lower).logical_and_(actual <= self.upper)
        if bool(right.all()):
            return
        wrong = ~(right | (actual != actual) & (self.lower != self.lower))
        count = int(wrong.sum())
        if count:
            import torch

            first = wrong.flatten().view(torch.uint8).argmax()
            where = tuple(int(i) for i in torch.unravel_index(first, wrong.shape))
            got, lower, upper = (repr(tensor[where].item()) for tensor in (actual, self.lower, self.upper))
            raise AssertionError(
                f"{self.op}: {count} of {wrong.numel()} elements wrong; first at {where}: "
                f"got {got}, expected {lower if lower == upper else f'{lower} to {upper}'}"
            )


class Operation(ABC):
    """One operation: validation, allocation, canonical form, reference, tolerance and bytes moved."""

    name: str
    dtypes: tuple[str, ...]
    """Names of the dtypes it takes, without ``torch.``."""

    def check(self, x: torch.Tensor, dim: Dims) -> tuple[int, ...]:
        """Check the input; return the reduced axes, sorted, non-negative and distinct.

        Raises InputTypeError, GradientError, AxisError, EmptyReductionError.
        """
        check_tensor(x)
        dtype = dtype_name(x.dtype)
        if dtype not in self.dtypes:
            raise InputTypeError(f"{self.name} takes {', '.join(self.dtypes)}; got {dtype}")
        import torch

        if x.requires_grad and torch.is_grad_enabled():
            raise GradientError(
                f"{self.name} computes no gradient, and x requires one; pass x.detach() or call under torch.no_grad()"
            )
        return _axes(dim, x.ndim)

    @abstractmethod
    def allocate(self, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        """A new contiguous output for checked arguments."""

    def check_out(self, out: object, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> None:
        """Check a caller's output: a tensor of the right shape, dtype and device that overlaps neither x nor itself.

        Raises OutputError.
        """
        import torch

        if not isinstance(out, torch.Tensor) or out.layout != torch.strided:
            raise OutputError(f"out must be a dense torch.Tensor, got {_describe(out)}")
        shape = self.out_shape(tuple(x.shape), dims, keepdim)
        if tuple(out.shape) != shape:
            raise OutputError(f"out must have shape {shape}, got {tuple(out.shape)}")
        if out.dtype != x.dtype:
            raise OutputError(f"out must have x's dtype {dtype_name(x.dtype)}, got {dtype_name(out.dtype)}")
        if out.device != x.device:
            raise OutputError(f"out must be on x's device {x.device}, got {out.device}")
        if out.requires_grad and torch.is_grad_enabled():
            raise OutputError("out must not require a gradient; pass out.detach() or call under torch.no_grad()")
        if out.is_neg():
            raise OutputError("out must not be a lazily negated view; pass a plain tensor")
        if _overlaps_itself(out):
            raise OutputError(f"out must hold each element once; strides {out.stride()} for shape {shape} overlap")
        if _overlap(out, x):
            raise OutputError("out must not overlap x in memory; the input is never written")

    @abstractmethod
    def out_shape(self, shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
        """Shape of the output."""

    @abstractmethod
    def launch(self, bind: Bind, x: torch.Tensor, dims: tuple[int, ...], out: torch.Tensor) -> Launch:
        """Bring checked ``(x, out)`` to canonical form, bind them, and return the launch (copies included)."""

    @abstractmethod
    def reference(self, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> torch.Tensor:
        """The exact result as float64 can say it, of the input as it is (already quantised)."""

    @abstractmethod
    def expect(self, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> Expected:
        """What is right for this input, to the documented tolerance: made once, it checks any number of results."""

    def assert_close(self, actual: torch.Tensor, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> None:
        """Raise AssertionError unless ``actual`` is the right result, to the tolerance of :meth:`expect`."""
        self.expect(x, dim, keepdim).check(actual)

    @abstractmethod
    def bytes_moved(self, x: torch.Tensor, dim: Dims = -1) -> int:
        """Bytes of device memory that the best possible implementation moves: each input read once, each output
        written once. An expanded axis counts once."""

    def contiguous_bytes(self, shape: tuple[int, ...], dtype: str, dim: Dims = -1) -> int:
        """:meth:`bytes_moved` for a contiguous tensor, of which nothing but its shape and dtype is known."""
        import torch

        return self.bytes_moved(torch.empty(shape, dtype=getattr(torch, dtype), device="meta"), dim)

    writes_all: bool
    """As many bytes are written as read, so that a plain copy is the ceiling; else it is a plain read."""
    reduces: bool
    """The reduced axes are gone from the result."""
    rounds: bool
    """Results are rounded, and errors are counted in units in the last place; else they are exact."""
    special_value: float
    """Among ordinary values, one that decides its row."""


class Softmax(Operation):
    """``exp(x - max) / sum(exp(x - max))`` over one axis."""

    name = "softmax"
    dtypes = FLOATS

    def check(self, x: torch.Tensor, dim: Dims) -> tuple[int, ...]:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise AxisError(f"softmax takes one axis, an int; got dim={dim!r}")
        return super().check(x, dim)

    def allocate(self, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        return x.new_empty(x.shape)

    def out_shape(self, shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
        return shape

    def launch(self, bind: Bind, x: torch.Tensor, dims: tuple[int, ...], out: torch.Tensor) -> Launch:
        x, before = _readable(x)
        (dim,) = dims or (0,)
        if x.ndim == 0:
            x, out = x.view(1), out.view(1)
        kept = [(x.size(d), x.stride(d), out.stride(d), d > dim) for d in range(x.ndim) if d != dim]
        groups = _merge(kept)
        if len(groups) > 2:
            # More row axes than the canonical form has: copy what can't be read in place, write what can't in place.
            return _sequence(before, _through_copies(self, bind, x, dims, out))
        outer, inner = _outer_inner(groups)
        shape = (outer[0], x.size(dim), inner[0])
        return _sequence(
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
        """Each element within the error that honest arithmetic can make, and NaN exactly where it must be.

        With u the unit roundoff of the arithmetic (2^-24, for float64 2^-53) and d = max - x of the element, the
        allowed relative error is u * (16 + 4 * d + sqrt(n) / 2): the exponential's argument carries d, and the sum the
        random walk of n additions in order, which is how torch itself adds up an axis that is not the last.
        To that comes half a unit in the last place of the output's dtype where it is a half precision, and the
        smallest normal number (half the smallest subnormal for float16), below which a result may flush to zero.
        An offset common to the row is no excuse: the bound does not grow with the size of x.
        """
        import torch

        assert isinstance(dim, int)
        unit = 2.0**-53 if x.dtype == torch.float64 else 2.0**-24
        fixed = unit * (16 + math.sqrt(x.size(dim) if x.ndim else 1) / 2)
        if x.dtype in (torch.float16, torch.bfloat16):
            fixed += torch.finfo(x.dtype).eps / 2
        floor = 2.0**-25 if x.dtype == torch.float16 else torch.finfo(x.dtype).tiny
        lower, upper = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
        for x_part, lower_part, upper_part in _parts((x, lower, upper), dim) if x.numel() else ():
            expected = self.reference(x_part, dim)
            depth = self._below_maximum(x_part, dim).neg_().clamp_(0, 1100).nan_to_num_(0)
            bound = depth.mul_(4 * unit).add_(fixed).mul_(expected).add_(floor)
            lower_part.copy_(_rounded(expected - bound, x.dtype, up=True))
            upper_part.copy_(_rounded(expected.add_(bound), x.dtype, up=False))
        return Expected(self.name, lower, upper)

    def bytes_moved(self, x: torch.Tensor, dim: Dims = -1) -> int:
        return (_distinct(x) + x.numel()) * x.element_size()

    writes_all = True
    reduces = False
    rounds = True
    special_value = 20.0


class Min(Operation):
    """The minimum along one or several axes: the values, as ``torch.amin``."""

    name = "min"
    dtypes = FLOATS + INTEGERS

    def check(self, x: torch.Tensor, dim: Dims) -> tuple[int, ...]:
        dims = super().check(x, dim)
        shape = tuple(x.shape)
        for d in dims:
            if d < len(shape) and shape[d] == 0:
                raise EmptyReductionError(
                    f"the minimum of nothing: axis {d} of shape {shape} is empty; a reduced axis needs an element"
                )
        return dims

    def allocate(self, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        return x.new_empty(self.out_shape(tuple(x.shape), dims, keepdim))

    def out_shape(self, shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
        if keepdim:
            return tuple(1 if d in dims else size for d, size in enumerate(shape))
        return tuple(size for d, size in enumerate(shape) if d not in dims)

    def launch(self, bind: Bind, x: torch.Tensor, dims: tuple[int, ...], out: torch.Tensor) -> Launch:
        x, before = _readable(x)
        if x.ndim == 0:
            x, out, dims = x.view(1), out.view(()), (0,)
        if out.ndim == x.ndim:  # keepdim: the reduced axes, of size 1, say nothing
            kept_dims = [d for d in range(out.ndim) if d not in dims]
            out = out.as_strided([out.size(d) for d in kept_dims], [out.stride(d) for d in kept_dims])
        out_strides = iter(out.stride())
        axes = [
            (x.size(d), x.stride(d), 0, True) if d in dims else (x.size(d), x.stride(d), next(out_strides), False)
            for d in range(x.ndim)
        ]
        runs = _runs(axes)
        reduced = [run for run in runs if run[3]] or [(1, 1, 0, True)]
        # Several reduced axes that are not one in memory are reduced in turn, the one of the smallest stride (the
        # cheapest to read) first, which leaves the least for the others; a minimum does not care for the order.
        first = min(reduced, key=lambda run: (run[1] == 0, run[1]))
        position = runs.index(first) if first in runs else len(runs)
        kept = [
            (size, stride, out_stride, i > position)
            for i, (size, stride, out_stride, _) in enumerate(runs)
            if i != position
        ]
        staged = len(reduced) > 1
        if staged:
            stage = x.new_empty([size for size, *_ in kept])
            kept = [
                (size, stride, stride2, after)
                for (size, stride, _, after), stride2 in zip(kept, stage.stride(), strict=True)
            ]
        groups = _merge(kept)
        if len(groups) > 2:
            return _sequence(before, _through_copies(self, bind, x, dims, out))
        outer, inner = _outer_inner(groups)
        target = stage if staged else out
        launch = bind(
            x.as_strided((outer[0], first[0], inner[0]), (outer[1], first[1], inner[1])),
            target.as_strided((outer[0], inner[0]), (outer[2], inner[2])),
        )
        if not staged:
            return _sequence(before, launch)
        rest = [run for i, run in enumerate(runs) if i != position]
        rest_dims = tuple(i for i, run in enumerate(rest) if run[3])
        rest_out = out.as_strided(
            [size for size, _, _, is_reduced in rest if not is_reduced],
            [stride for _, _, stride, is_reduced in rest if not is_reduced],
        )
        return owning(_sequence(before, launch, self.launch(bind, stage, rest_dims, rest_out)), stage)

    def reference(self, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> torch.Tensor:
        import torch

        return torch.amin(x, _axes(dim, x.ndim), keepdim=keepdim)  # a minimum rounds nothing: exact in any dtype

    def expect(self, x: torch.Tensor, dim: Dims = -1, keepdim: bool = False) -> Expected:
        """Equal by value: -0.0 equals +0.0, NaN exactly where it must be."""
        expected = self.reference(x, dim, keepdim)
        return Expected(self.name, expected, expected)

    def bytes_moved(self, x: torch.Tensor, dim: Dims = -1) -> int:
        dims = _axes(dim, x.ndim)
        return (_distinct(x) + math.prod(self.out_shape(tuple(x.shape), dims, False))) * x.element_size()

    writes_all = False
    reduces = True
    rounds = False
    special_value = -20.0


SOFTMAX = Softmax()
MIN = Min()
OPERATIONS: dict[str, Operation] = {op.name: op for op in (SOFTMAX, MIN)}


def sample(op: str, shape: tuple[int, ...], dtype: str, dim: Dims = -1, *, generator: torch.Generator) -> torch.Tensor:
    """Random input, on the generator's device, whose right answer no constant, zero or row-shifted output can pass for.

    Softmax: standard normal, with one element of each row raised to hold about half of the row's weight, at any width.
    Min: normal for floats; for integers and bool, each row has a range of its own.
    """
    import torch

    kind = getattr(torch, dtype)
    dims = _axes(dim, len(shape))
    row = [1 if d in dims else size for d, size in enumerate(shape)]
    here: dict[str, Any] = {"generator": generator, "device": generator.device}
    if dtype == "bool":
        return (torch.rand(shape, **here) < 0.9).logical_or_(torch.rand(row, **here) < 0.5)
    if not kind.is_floating_point:
        info = torch.iinfo(kind)
        base = torch.randint(info.min // 2 if info.min else 0, info.max // 2, row, dtype=kind, **here)
        return base + torch.randint(0, min(info.max // 2, 2**30), shape, dtype=kind, **here)
    x = torch.randn(shape, dtype=torch.float64 if dtype == "float64" else torch.float32, **here)
    if op == "softmax" and x.numel() and shape:
        n = shape[dims[0]]
        peak = torch.randint(0, n, row, **here)
        x.scatter_(dims[0], peak, math.log(n) + 0.5 + torch.rand(row, dtype=x.dtype, **here))
    return x.to(kind)


def dtype_name(dtype: torch.dtype) -> str:
    """``"float32"`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def check_tensor(x: object) -> None:
    """Raise InputTypeError unless x is a dense torch tensor."""
    import torch

    if not isinstance(x, torch.Tensor):
        raise InputTypeError(f"x must be a torch.Tensor, got {_describe(x)}")
    if x.layout != torch.strided or x.is_quantized or x._is_zerotensor():
        raise InputTypeError(f"x must be a dense tensor, got {_describe(x)}; x.to_dense() or x.clone() makes one")


def on_device_of(x: torch.Tensor) -> AbstractContextManager[object]:
    """A context in which x's device is the current one: what a launch needs, as torch's own operations do it."""
    import torch

    if not x.is_cuda or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


@contextmanager
def attached(index: int) -> Iterator[None]:
    """A context in which that GPU is the current one to the driver too, which a thread that has not used any has none
    of: what calls the driver itself needs that, whatever torch's idea of the current device is."""
    import torch

    before = torch.cuda.current_device()
    torch.cuda.set_device(index)
    try:
        yield
    finally:
        if before != index:
            torch.cuda.set_device(before)


def on_its_device(launch: Launch, x: torch.Tensor) -> Launch:
    """The launch with x's device made current for its time, where there are several."""
    if not x.is_cuda:
        return launch
    import torch

    if torch.cuda.device_count() == 1:
        return launch

    def there() -> None:
        with on_device_of(x):
            launch()

    return there


def _axes(dim: Dims, ndim: int) -> tuple[int, ...]:
    given = dim if isinstance(dim, tuple) else (dim,)
    if not given:
        return tuple(range(ndim))
    limit = max(ndim, 1)  # a 0-d tensor has axes 0 and -1, as in torch
    for d in given:
        if not isinstance(d, int) or isinstance(d, bool):
            raise AxisError(f"an axis is an int, got {d!r} in dim={dim!r}")
        if not -limit <= d < limit:
            raise AxisError(f"axis {d} is out of range for {ndim} dimensions; allowed: {-limit} to {limit - 1}")
    axes = sorted(d % limit for d in given)
    if len(set(axes)) < len(axes):
        raise AxisError(f"dim={dim!r} names an axis twice")
    return tuple(axes)


Group: TypeAlias = "tuple[int, int, int, bool]"
"""Some neighbouring axes seen as one: size, stride in x, stride in out, and a mark that must agree to merge."""


def _runs(axes: Sequence[Group]) -> list[Group]:
    """Merge neighbouring axes of one mark where both strides allow it; axes of size 1 drop out."""
    merged: list[Group] = []
    for size, stride, out_stride, mark in axes:
        if size == 1:
            continue
        if merged:
            size0, stride0, out_stride0, mark0 = merged[-1]
            if mark0 == mark and stride0 == size * stride and out_stride0 == size * out_stride:
                merged[-1] = (size0 * size, stride, out_stride, mark)
                continue
        merged.append((size, stride, out_stride, mark))
    return merged


def _merge(kept: Sequence[Group]) -> list[Group]:
    """Like _runs, for kept axes marked by whether they follow the reduced one. Two on both sides may still merge
    when the reduced axis doesn't stand between them in memory; if not, that only costs the name of an axis."""
    runs = _runs(kept)
    return runs if len(runs) <= 2 else _runs([(*run[:3], False) for run in runs])


def _outer_inner(groups: list[Group]) -> tuple[Group, Group]:
    one: Group = (1, 1, 1, False)
    if len(groups) == 2:
        return groups[0], groups[1]
    if not groups:
        return one, one
    return (one, groups[0]) if groups[0][3] else (groups[0], one)


def _readable(x: torch.Tensor) -> tuple[torch.Tensor, Launch | None]:
    """X as plain memory: a lazily negated view (the imaginary part of a conjugate) is negated by a copy."""
    if not x.is_neg():
        return x, None
    import torch

    plain = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return plain, owning(lambda: void(plain.copy_(x)), plain)


def in_halves(bind: Bind, x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Canonical ``(x, out)`` of a reduction bound as two, for a grid that has no blocks for so many rows."""
    axis = 0 if x.size(0) >= x.size(2) else 2
    half = x.size(axis) // 512 * 256  # where one half is aligned, so is the other
    parts = ((0, half), (half, x.size(axis) - half))
    return _sequence(*(bind(x.narrow(axis, *part), out.narrow(axis // 2, *part)) for part in parts))


def void(_: object) -> None:
    """Drop a value, so that an expression is a launch."""


def _through_copies(op: Operation, bind: Bind, x: torch.Tensor, dims: tuple[int, ...], out: torch.Tensor) -> Launch:
    """Copy x in and the result out, where their layouts need it, around a launch on contiguous tensors."""
    steps: list[Launch] = []
    staged = x if x.is_contiguous() else x.new_empty(x.shape)
    if staged is not x:
        steps.append(lambda: void(staged.copy_(x)))
    target = out if out.is_contiguous() else out.new_empty(out.shape)
    steps.append(op.launch(bind, staged, dims, target))
    if target is not out:
        steps.append(lambda: void(out.copy_(target)))
    launch, own = _sequence(*steps), [tensor for tensor in (staged, target) if tensor is not x and tensor is not out]
    return owning(launch, *own) if own else launch


def _sequence(*launches: Callable[[], None] | None) -> Launch:
    steps = [launch for launch in launches if launch is not None]
    if len(steps) == 1:
        return steps[0]

    def launch() -> None:
        for step in steps:
            step()

    return launch


def _extent(x: torch.Tensor) -> tuple[int, int]:
    """Addresses of the first byte and one past the last."""
    start = x.data_ptr()
    span = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return start, start + (span + 1) * x.element_size()


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors share a byte: exactly, for interleaved views too."""
    if not a.numel() or not b.numel() or a.device != b.device:
        return False
    (a_start, a_end), (b_start, b_end) = _extent(a), _extent(b)
    if a_end <= b_start or b_end <= a_start:
        return False
    if a.is_contiguous() and b.is_contiguous():
        return True
    import numpy as np

    try:
        return bool(np.shares_memory(_addresses(a), _addresses(b), max_work=100_000))  # type: ignore[arg-type]  # any number of steps will do
    except (np.exceptions.TooHardError, ValueError):
        return True  # not proved apart, and a wrong guess would corrupt the input


def _addresses(x: torch.Tensor) -> object:
    """A NumPy array over the tensor's addresses, to be asked about and never read: they may be a device's."""
    import numpy as np

    class Memory:
        __array_interface__: ClassVar[dict[str, object]] = {
            "version": 3,
            "shape": tuple(x.shape),
            "typestr": f"|V{x.element_size()}",
            "data": (x.data_ptr(), True),
            "strides": tuple(stride * x.element_size() for stride in x.stride()),
        }

    return np.asarray(Memory())


_PART = 2**20
"""Elements whose float64 temporaries exist at once: 8 MB each, and some five of them."""


def _parts(tensors: tuple[torch.Tensor, ...], dim: int) -> Iterable[tuple[torch.Tensor, ...]]:
    """Tensors of one shape in parts of whole rows along ``dim``, of up to _PART elements where a row has no more."""
    x = tensors[0]
    kept = [d for d in range(x.ndim) if d != dim % x.ndim]
    if not kept:
        return (tensors,)
    axis, count = max(kept, key=x.size), -(-x.numel() // _PART)
    return zip(*(tensor.chunk(count, axis) for tensor in tensors), strict=True)


def _rounded(exact: torch.Tensor, dtype: torch.dtype, *, up: bool) -> torch.Tensor:
    """Float64 in another float dtype, rounded up or down: the least value of it that is no less, or the greatest no
    greater."""
    import torch

    rounded = exact.to(dtype)
    missed = rounded.double() < exact if up else rounded.double() > exact
    # The next value up has the next bits as an integer, the next value down those before; below zero the other way.
    bits = rounded.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize])
    before = rounded.signbit().eq_(up)
    bits.add_(missed & ~before).add_(missed & before, alpha=-1)
    return rounded


def _overlaps_itself(x: torch.Tensor) -> bool:
    """Whether two indices may name one element: a sufficient test, exact for what slicing and stepping make."""
    if x.is_contiguous():
        return False
    reach = 0
    for stride, size in sorted((stride, size) for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def _distinct(x: torch.Tensor) -> int:
    return math.prod(size for size, stride in zip(x.shape, x.stride(), strict=True) if stride) if x.numel() else 0


def _describe(x: object) -> str:
    import torch

    if isinstance(x, torch.Tensor):
        return f"a tensor with layout {x.layout}{', quantized' if x.is_quantized else ''}"
    return f"{type(x).__module__}.{type(x).__qualname__}"
