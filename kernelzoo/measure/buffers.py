"""The tensors that a gate checks: rows, batches of sets with their right results, and guarded memory."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from kernelzoo import operations
from kernelzoo.check.bits import bits
from kernelzoo.errors import ContractError
from kernelzoo.measure.problems import Problem
from kernelzoo.operations.declared import ROW

if TYPE_CHECKING:
    import torch

Tensors = tuple["torch.Tensor", ...]
Set = tuple[Tensors, Tensors]
"""Inputs and outputs of one launch."""
Index = tuple[int, ...]

GUARD = 2**15
"""Guard bytes on either side of a tensor, where a write out of bounds shows."""

SPIN = 4_000_000
"""Clock cycles that delay a stream: 2 ms at 2 GHz, ten times what the host needs to queue the work behind."""

BATCH = 2**22
"""Elements of small sets checked together, so that thousands of sets need few operations."""


class Rows:
    """Finds a row of x and its part of out. A row's index is its position on the axes that are not reduced."""

    def __init__(self, x: torch.Tensor, reduced: tuple[int, ...]) -> None:
        self._kept = [d for d in range(x.ndim) if d not in reduced]
        self._sizes = [x.size(d) for d in self._kept]
        self._ndim = x.ndim
        self.count = math.prod(self._sizes)

    def index(self, row: int) -> Index:
        """The index of the row of that number."""
        places = []
        for size in reversed(self._sizes):
            row, place = divmod(row, size)
            places.append(place)
        return tuple(reversed(places))

    def of(self, place: Index) -> Index:
        """The index of the row that holds an element of x."""
        return tuple(place[d] for d in self._kept)

    def x(self, x: torch.Tensor, index: Index) -> torch.Tensor:
        """One row of x, with all its axes."""
        for d, i in zip(self._kept, index, strict=True):
            x = x.narrow(d, i, 1)
        return x

    def out(self, out: torch.Tensor, index: Index) -> torch.Tensor:
        """The part of out that belongs to a row, with all its axes."""
        for d, i in zip(self._kept if out.ndim == self._ndim else range(out.ndim), index, strict=True):
            out = out.narrow(d, i, 1)
        return out

    def write(self, x: torch.Tensor, index: Index, write: Callable[[torch.Tensor], object]) -> None:
        """Fill a row of x by ``write``, which gets it as a tensor of one axis."""
        row = self.x(x, index)
        flat = row.flatten()
        write(flat)
        if flat.data_ptr() != row.data_ptr():  # the row's axes do not merge in memory
            row.copy_(flat.view(row.shape))

    def right(self, expected: operations.Expected, results: Tensors, index: Index) -> bool:
        """Whether the results of one row are right."""
        try:
            for bounds, result in zip(expected.outputs, results, strict=True):
                lower, upper = self.out(bounds.lower, index), self.out(bounds.upper, index)
                operations.Bounds(bounds.name, lower, upper).check(self.out(result, index))
        except AssertionError:
            return False
        return True


class Batch:
    """Several small sets or one large set, their right results, and copies of their inputs.

    Several sets are stacked as more rows, with a single reference.
    """

    def __init__(
        self,
        problem: Problem,
        sets: Sequence[Set],
        poisons: Sequence[float | None],
        originals: Tensors | None = None,
    ) -> None:
        """``originals``: copies of the inputs of a single set, made here by default."""
        import torch

        # Aliases of the sets' tensors, with their own version counters.
        self.inputs = [tuple(x.data for x in inputs) for inputs, _ in sets]
        self.outs = [tuple(out.data for out in outs) for _, outs in sets]
        self._names = list(problem.operation.inputs)
        self._poisons = tuple(poisons)
        shared = shared_inputs(problem.operation)
        self._stacked = len(sets) > 1
        self.originals = originals or tuple(
            tensors[0].clone() if number in shared or not self._stacked else torch.stack(tensors)
            for number, tensors in enumerate(zip(*self.inputs, strict=True))
        )
        self._shared = shared if self._stacked else ()
        dim = problem.dim + (self._stacked and problem.dim >= 0)
        self._expected = problem.operation.expect(
            problem.operation.arguments(self.originals, dim, scalars=dict(problem.scalars))
        )

    def poison(self) -> None:
        """Fill the outputs with wrong values that only this gate knows."""
        for number, poison in enumerate(self._poisons):
            lower = self._expected.outputs[number].lower
            for place, outs in enumerate(self.outs):
                if poison is None:
                    outs[number].copy_(~(lower[place] if self._stacked else lower))
                else:
                    outs[number].fill_(poison)

    def check(self) -> None:
        """Raise AssertionError unless all outputs are right and all inputs unchanged."""
        results = tuple(self._all(outs) for outs in zip(*self.outs, strict=True))
        for bounds, result, poison in zip(self._expected.outputs, results, self._poisons, strict=True):
            try:
                bounds.check(result)
            except ContractError as error:
                if poison is not None and error.got == result.new_tensor(poison).item():
                    raise error.within(str(error), "leaves out unwritten") from None
                raise
        for number, (name, tensors) in enumerate(zip(self._names, zip(*self.inputs, strict=True), strict=True)):
            original = self.originals[number]
            same = (
                all(equal(x, original) for x in tensors)
                if number in self._shared
                else equal(self._all(tensors), original)
            )
            if not same:
                whose = "the input" if len(self._names) == 1 else f"the input {name}"
                raise ContractError(f"{whose} was changed", "changes its input")

    def check_results(self, results: Tensors) -> None:
        """The check for results of one set that are elsewhere in memory."""
        self._expected.check(results)

    def of(self, place: int) -> tuple[Tensors, list[operations.Bounds]]:
        """Views of one set's input copies and right results, for changes."""
        if not self._stacked:
            return self.originals, list(self._expected.outputs)
        originals = (x if i in self._shared else x[place] for i, x in enumerate(self.originals))
        bounds = [operations.Bounds(b.name, b.lower[place], b.upper[place]) for b in self._expected.outputs]
        return tuple(originals), bounds

    def restore(self) -> None:
        for place, inputs in enumerate(self.inputs):
            for number, (x, original) in enumerate(zip(inputs, self.originals, strict=True)):
                x.copy_(original[place] if self._stacked and number not in self._shared else original)

    def _all(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        import torch

        return torch.stack(list(tensors)) if self._stacked else tensors[0]


def shared_inputs(operation: operations.Operation) -> tuple[int, ...]:
    """Indices of the inputs that all rows share, so that they can't be stacked."""
    if not operation.by_rows:
        return ()
    axes = operation.axes[: len(operation.inputs)]
    return tuple(number for number, names in enumerate(axes) if names not in (ROW, ("outer", "inner")))


class Guarded:
    """A copy of a tensor between random bytes. Reading those gives wrong results, and writing them is detected."""

    def __init__(self, like: torch.Tensor, generator: torch.Generator) -> None:
        import torch

        size = like.numel() * like.element_size()
        memory = torch.empty(2 * GUARD + size, dtype=torch.uint8, device=like.device)
        self.inner = memory[GUARD : GUARD + size].view(like.dtype).view(like.shape)
        self._guards = (memory[:GUARD], memory[GUARD + size :])
        for guard in self._guards:
            words = torch.empty(GUARD // 8, dtype=torch.int64, device=like.device)
            guard.copy_(words.random_(-(2**63), None, generator=generator).view(torch.uint8))
        self._right = [guard.clone() for guard in self._guards]

    def mend(self) -> int:
        """Restore the guard bytes; returns how many had changed."""
        changed = 0
        for guard, right in zip(self._guards, self._right, strict=True):
            changed += int((guard != right).sum())
            guard.copy_(right)
        return changed


def parts(operation: operations.Operation, sets: Sequence[Set]) -> Iterator[Sequence[Set]]:
    """The first set alone, and groups of the others that may be checked together."""
    yield sets[:1]
    x = sets[0][0][0]
    step = max(1, BATCH // max(1, x.numel())) if operation.by_rows and x.ndim else 1
    for start in range(1, len(sets), step):
        yield sets[start : start + step]


def poison_of(dtype: torch.dtype, python: random.Random) -> float | None:
    """A random value below every minimum, which no right result holds; None for bool."""
    if dtype.is_floating_point:
        return -python.uniform(10, 1000)
    import torch

    return None if dtype == torch.bool else torch.iinfo(dtype).min


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are equal to the bit."""
    import torch

    return torch.equal(bits(a), bits(b))


def metadata(tensor: torch.Tensor) -> dict[str, Any]:
    """Everything about a tensor except its values. For a class that is not torch's, the class only."""
    import torch

    found: dict[str, Any] = {"type": type(tensor)}
    if type(tensor) is torch.Tensor:
        storage = tensor.untyped_storage()
        found |= {
            "dtype": tensor.dtype,
            "shape": tuple(tensor.shape),
            "strides": tensor.stride(),
            "address": tensor.data_ptr(),
            "storage": (storage.data_ptr(), storage.nbytes()),
        }
    return found


def fill(tensors: Iterable[torch.Tensor], values: Iterable[torch.Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)


def same(a: Tensors, b: Tensors) -> bool:
    """Whether two tuples of tensors are equal to the bit."""
    return all(equal(x, y) for x, y in zip(a, b, strict=True))


def wait(x: torch.Tensor) -> None:
    if x.is_cuda:
        import torch

        torch.cuda.synchronize(x.device)


@contextmanager
def held_up(x: torch.Tensor, stream: Any) -> Iterator[None]:
    """A context with the given stream as the current one, kept busy for a while. On the host it does nothing."""
    if not x.is_cuda:
        yield
        return
    import torch

    from kernelzoo.torch_private import spin

    with torch.cuda.stream(stream) if stream is not None else nullcontext():
        spin(SPIN)
        yield
