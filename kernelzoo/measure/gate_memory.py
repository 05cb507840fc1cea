"""The tensors that a gate checks: their rows, batches of sets with what is right for them, and guarded memory."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kernelzoo import operations
from kernelzoo.check.bits import bits
from kernelzoo.errors import ContractError
from kernelzoo.measure.problems import Problem

if TYPE_CHECKING:
    import torch

Set = tuple["torch.Tensor", "torch.Tensor"]
Index = tuple[int, ...]

GUARD = 2**15
"""Bytes on either side of a tensor that must not be written: a write past an end lands there."""

BATCH = 2**22
"""Elements of small sets that are checked together, so that thousands of them cost few operations."""


class Rows:
    """Finds one row of x, and what belongs to it in out; a row's index names its place on the axes that are kept."""

    def __init__(self, x: torch.Tensor, reduced: tuple[int, ...]) -> None:
        self._kept = [d for d in range(x.ndim) if d not in reduced]
        self._sizes = [x.size(d) for d in self._kept]
        self._ndim = x.ndim
        self.count = math.prod(self._sizes)

    def index(self, row: int) -> Index:
        """Of the row of that number."""
        places = []
        for size in reversed(self._sizes):
            row, place = divmod(row, size)
            places.append(place)
        return tuple(reversed(places))

    def of(self, place: Index) -> Index:
        """Of the row that an element of x is in."""
        return tuple(place[d] for d in self._kept)

    def x(self, x: torch.Tensor, index: Index) -> torch.Tensor:
        """One row of x, with all its axes."""
        for d, i in zip(self._kept, index, strict=True):
            x = x.narrow(d, i, 1)
        return x

    def out(self, out: torch.Tensor, index: Index) -> torch.Tensor:
        """What belongs to that row in out, with all its axes."""
        for d, i in zip(self._kept if out.ndim == self._ndim else range(out.ndim), index, strict=True):
            out = out.narrow(d, i, 1)
        return out

    def write(self, x: torch.Tensor, index: Index, write: Callable[[torch.Tensor], object]) -> None:
        """Let ``write`` fill a row of x, as a tensor of one axis."""
        row = self.x(x, index)
        flat = row.flatten()
        write(flat)
        if flat.data_ptr() != row.data_ptr():  # several axes that are not one in memory
            row.copy_(flat.view(row.shape))

    def right(self, expected: operations.Expected, result: torch.Tensor, index: Index) -> bool:
        """Whether what belongs to one row is right."""
        try:
            operations.Expected(expected.op, self.out(expected.lower, index), self.out(expected.upper, index)).check(
                self.out(result, index)
            )
        except AssertionError:
            return False
        return True


class Batch:
    """Some sets, or a large one, what is right for them, and a copy of their inputs."""

    def __init__(self, problem: Problem, sets: Sequence[Set], originals: torch.Tensor, poison: float | None) -> None:
        self.xs, self.outs = [x.data for x, _ in sets], [out.data for _, out in sets]
        self._originals, self._poison = originals, poison
        self._expected = problem.operation.expect(originals, problem.dim + (problem.dim >= 0))

    def poison(self) -> None:
        """Fill the outputs with values that are wrong everywhere, and that only this gate knows."""
        if self._poison is None:
            for out, right in zip(self.outs, self._expected.lower, strict=True):
                out.copy_(~right)
        else:
            for out in self.outs:
                out.fill_(self._poison)

    def check(self) -> None:
        """Raise AssertionError unless each output is right for its input, and that as it was."""
        results = _stacked(self.outs)
        try:
            self.check_results(results)
        except ContractError as error:
            if self._poison is not None and error.got == results.new_tensor(self._poison).item():
                raise error.within(str(error), "leaves out unwritten") from None
            raise
        if not equal(_stacked(self.xs), self._originals):
            raise ContractError("the input was changed", "changes its input")

    def check_results(self, results: torch.Tensor) -> None:
        """The same for results that lie elsewhere, stacked."""
        self._expected.check(results)

    def restore(self) -> None:
        for x, original in zip(self.xs, self._originals, strict=True):
            x.copy_(original)


class Guarded:
    """A tensor like another, between random bytes: reading those gives wrong results, and writing them is detected."""

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
        """The number of bytes around the tensor that have changed; puts them back."""
        changed = 0
        for guard, right in zip(self._guards, self._right, strict=True):
            changed += int((guard != right).sum())
            guard.copy_(right)
        return changed


def parts(sets: Sequence[Set]) -> Iterator[Sequence[Set]]:
    """The first set alone, the others by as many as may be checked together."""
    yield sets[:1]
    step = max(1, BATCH // sets[0][0].numel())
    for start in range(1, len(sets), step):
        yield sets[start : start + step]


def poison_of(dtype: torch.dtype, python: random.Random) -> float | None:
    """A random value that no right result holds, and that is below every minimum; None for bool, which has none."""
    if dtype.is_floating_point:
        return -python.uniform(10, 1000)
    import torch

    return None if dtype == torch.bool else torch.iinfo(dtype).min


def _stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """As one tensor with an axis more; a single one isn't copied."""
    import torch

    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0].unsqueeze(0)


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """To the bit."""
    import torch

    return torch.equal(bits(a), bits(b))


def metadata(tensor: torch.Tensor) -> dict[str, Any]:
    """What a tensor is, apart from the values in its memory. Of a type that is not torch's own, that alone."""
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
