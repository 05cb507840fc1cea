"""What an operation says of itself, and what is the same for all of them: checks of the arguments of a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kernelzoo.errors import AxisError, GradientError, InputTypeError, OutputError
from kernelzoo.launch import Bind, Launch
from kernelzoo.operations.exact import Exact
from kernelzoo.operations.expected import Expected
from kernelzoo.operations.memory import overlap, overlaps_itself

if TYPE_CHECKING:
    import torch


Dims: TypeAlias = "int | tuple[int, ...]"

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")

_SHORT = {
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
}


def full_dtype(name: str) -> str:
    """The full name of a dtype that may be abbreviated.

    >>> full_dtype("fp16"), full_dtype("bf16"), full_dtype("torch.float32"), full_dtype("int8")
    ('float16', 'bfloat16', 'float32', 'int8')
    """
    plain = name.removeprefix("torch.")
    return _SHORT.get(plain, plain)


@dataclass(frozen=True)
class Sample:
    """An input that one operation alone is to be tried on, beside those that all are."""

    name: str
    shape: tuple[int, ...]
    make: Callable[[], torch.Tensor]
    """Makes it on the CPU, the same each time."""


class Operation(ABC):
    """One operation: what is right, and all that a check, a benchmark or a report must know to handle it.

    The canonical form, which an implementation binds, has three axes of x, ``(outer, n, inner)``; of the output it has
    the same three, or ``(outer, inner)`` if the operation reduces. See :mod:`kernelzoo.operations.canonical`.
    """

    name: str
    """Of the method of a backend that calls it."""
    dtypes: tuple[str, ...]
    """Names of the dtypes it takes, without ``torch.``."""
    in_torch: str
    """Name of torch's own function for it, which takes ``(x, dim, out=)``."""
    reduces: bool
    """Whether a row becomes one element. Its method then takes ``keepdim``; else the output has x's shape."""
    several_axes: bool
    """Whether it takes a tuple of axes."""
    needs_element: bool
    """Whether an empty reduced axis is an EmptyReductionError; else the output is empty too."""
    rounds: bool
    """Whether errors are counted in units in the last place, by :meth:`exact` and :meth:`allowance`. Otherwise an
    element equals that of :meth:`reference`, or is wrong."""
    special_value: float
    """A number that decides the result of a row of plain values."""

    @property
    def writes_all(self) -> bool:
        """Whether as many bytes are written as read, so that a copy is the fastest it could be; else it is a read."""
        return not self.reduces

    @property
    def narrowest(self) -> str:
        """The dtype of which most elements fit into memory, and which is not bool."""
        return "int8" if "int8" in self.dtypes else "float16"

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
        return axes_of(dim, x.ndim)

    @abstractmethod
    def allocate(self, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        """A new contiguous output for checked arguments."""

    def check_out(self, out: object, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> None:
        """Check a caller's output: a tensor of the right shape, dtype and device that overlaps neither x nor itself.

        Raises OutputError.
        """
        import torch

        if not isinstance(out, torch.Tensor) or out.layout != torch.strided:
            raise OutputError(f"out must be a dense torch.Tensor, got {describe(out)}")
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
        if overlaps_itself(out):
            raise OutputError(f"out must hold each element once; strides {out.stride()} for shape {shape} overlap")
        if overlap(out, x):
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

    @abstractmethod
    def sample(self, shape: tuple[int, ...], dtype: str, dim: Dims = -1, *, generator: torch.Generator) -> torch.Tensor:
        """Random input, on the generator's device, whose right answer no constant, zero or row-shifted output can pass
        for."""

    def samples(self) -> tuple[Sample, ...]:
        """Inputs that this operation alone is to be tried on."""
        return ()

    def exact(self, rows: torch.Tensor) -> Exact:
        """The exact result of rows (rows, n), for an operation that rounds: within a hundredth of a ulp of it."""
        raise NotImplementedError(f"{self.name} rounds nothing")

    def allowance(self, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, float]:
        """How far off an element may be, for an operation that rounds: relative to its exact value, and beside it."""
        raise NotImplementedError(f"{self.name} rounds nothing")


class Caller(ABC):
    """What calls an operation: the public methods of operations are mixed into it."""

    @abstractmethod
    def _run(
        self,
        op: Operation,
        x: torch.Tensor,
        dim: Dims,
        keepdim: bool,
        variant: str,
        out: torch.Tensor | None,
    ) -> torch.Tensor:
        """Check, bind and launch one call."""


def dtype_name(dtype: torch.dtype) -> str:
    """``"float32"`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def check_tensor(x: object) -> None:
    """Raise InputTypeError unless x is a dense torch tensor."""
    import torch

    if not isinstance(x, torch.Tensor):
        raise InputTypeError(f"x must be a torch.Tensor, got {describe(x)}")
    if x.layout != torch.strided or x.is_quantized or x._is_zerotensor():
        raise InputTypeError(f"x must be a dense tensor, got {describe(x)}; x.to_dense() or x.clone() makes one")


def axes_of(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The axes of a call, sorted, non-negative and distinct; an empty tuple is all of them. Raises AxisError."""
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


def describe(x: object) -> str:
    import torch

    if isinstance(x, torch.Tensor):
        return f"a tensor with layout {x.layout}{', quantized' if x.is_quantized else ''}"
    return f"{type(x).__module__}.{type(x).__qualname__}"
