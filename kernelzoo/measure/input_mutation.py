"""Changes inputs and outputs before each timed turn, and checks the results after it.

So a kernel that skips a launch, or returns a cached result, leaves stale or poisoned results behind.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelzoo.check.bits import poison_like
from kernelzoo.errors import ContractError, retold
from kernelzoo.measure.buffers import Batch, Index, equal, shared_inputs, wait
from kernelzoo.measure.problems import Problem
from kernelzoo.operations import Bounds
from kernelzoo.operations.declared import ROW

if TYPE_CHECKING:
    import torch

_SETS = 256
"""Most sets that a turn changes. They vary, so that a skipped launch may be on any of them."""
_ROWS = 64
"""Most rows that a turn redraws."""
_ELEMENTS = {"cpu": 2**16, "cuda": 2**21}
"""Most elements of those rows, since each needs a reference. A longer row is redrawn now and then."""
_TOUCHED = 128
"""One in this many elements that a turn reads may be written just before, and so be in a cache."""
_PIECE = 16
"""Elements poisoned in one place."""

Unit = tuple[int, Index]
"""The number of a set, and a row of it. A set without rows is one unit."""
Spans = list[tuple[int, list[int]]]
"""For each input, how many elements of a row change, and where they begin in each row."""


Buffers = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor", "torch.Tensor"]
"""A tensor, the places that change in it, the values written there, and those found later."""


@dataclass
class Probe:
    """Changes elements of one set in the middle of a turn, and takes results right after the next launch.

    Where a turn launches on a set several times, only this tells whether each launch works. It is a few small copies
    between fixed addresses, so that a CUDA graph can hold it.
    """

    number: int
    """The number of the set."""
    inputs: list[Buffers]
    outs: list[Buffers]

    def before(self) -> None:
        """Change the set right before a launch on it."""
        for memory, places, value, _ in self.inputs:
            memory.index_copy_(0, places, value)
        for memory, places, value, _ in self.outs:  # an addition, so that zero changes nothing
            memory.index_add_(0, places, value)

    def after(self) -> None:
        """Take the results right after that launch."""
        import torch

        for memory, places, _, found in self.outs:
            torch.index_select(memory, 0, places, out=found)

    def hold(self) -> None:
        """Change nothing from now on."""
        for memory, places, value, _ in self.inputs:
            value.copy_(memory[places])
        for _, _, value, _ in self.outs:
            value.zero_()


class InputMutation:
    """Changes the sets of these batches, and their right results with them."""

    def __init__(self, problem: Problem, batches: Sequence[Batch], generator: torch.Generator, seed: int) -> None:
        self._problem, self._generator, self._python = problem, generator, random.Random(seed)
        self._sets = [(batch, place) for batch in batches for place in range(len(batch.inputs))]
        operation, inputs = problem.operation, batches[0].inputs[0]
        self._x = inputs[0]
        self._changing = [i for i in range(len(inputs)) if i not in shared_inputs(operation)]
        self._names = operation.axes[: len(inputs)], operation.axes[len(inputs) :]
        self._by_rows = operation.by_rows and self._x.ndim > 0
        dims = problem.arguments(inputs).dims if self._by_rows else ()
        kept = [d for d in range(self._x.ndim) if d not in dims] if self._by_rows else []
        self._order, self._sizes = (*kept, *dims), [self._x.size(d) for d in kept]
        self._length = self._x.size(dims[0]) if dims else self._x.numel()
        self._due: list[tuple[list[torch.Tensor], Bounds]] = []
        self._probes: list[Probe] = []
        self._last = 0

    def probe(self) -> Probe | None:
        """A new probe. It is not on the first set if there are several."""
        if not self._x.numel():
            return None
        import torch

        number = self._python.randrange(min(1, len(self._sets) - 1), len(self._sets))
        batch, place = self._sets[number]
        rows = min(_ROWS, max(1, _ELEMENTS[self._x.device.type] // self._length), max(1, math.prod(self._sizes) // 2))
        rows = rows if self._by_rows else 1

        def buffers(x: torch.Tensor, each: int) -> Buffers:
            count = rows * each
            return x.view(-1), torch.arange(count, device=x.device), x.new_empty(count), x.new_empty(count)

        made = Probe(number, [buffers(batch.inputs[place][i], 1) for i in self._changing], [])
        for out, names in zip(batch.outs[place], self._names[1], strict=True):
            made.outs.append(buffers(out, min(_PIECE, self._width(out, names))))
        made.hold()
        self._probes.append(made)
        return made

    def hold(self) -> None:
        """Let no probe change anything before its next turn."""
        for probe in self._probes:
            probe.hold()

    def before(self, numbers: Sequence[int], probe: Probe | None = None) -> None:
        """Change some of the sets to be launched on, which are in launch order.

        Random parts of random rows are redrawn, or reversed, which a sum does not show. In half of the sets the results
        of these rows, and random pieces of outputs, are poisoned. In the others the old results stay, and are now
        wrong. ``probe``: the one of the coming turn.
        """
        self._due, self._last = [], numbers[-1]
        if not self._x.numel():
            return
        probed = self._aim(probe) if probe is not None else []
        chosen = self._python.sample(numbers, min(_SETS, len(numbers)))
        chosen = list(dict.fromkeys([numbers[-1], *chosen]))  # the last one first, since its work may still be running
        # Now and then only a few elements of each set change, which a kernel that samples its input may miss.
        subtle = self._length <= _ELEMENTS[self._x.device.type] // len(chosen) and self._python.random() < 0.3
        poisoned = {number for number in chosen if not subtle and self._python.random() < 0.5}
        count = self._count(len(numbers))
        each = subtle and self._by_rows
        units = {self._unit([number]) for number in chosen} if each else {self._unit(chosen) for _ in range(count)}
        if units := units.difference(probed):
            self._redraw(sorted(units), 0 if subtle else len(numbers), poisoned)
        self._poison([number for number in chosen if number in poisoned])
        if probe is not None and not probed:  # keeps the present values
            probe.hold()

    def after(self) -> None:
        """Check what was changed. Raises AssertionError, which says what is wrong."""
        import torch

        wait(self._x)
        taken = [torch.stack(parts) for parts, _ in reversed(self._due)]  # at once, before late work can finish
        spoiled = []  # detects a write after this point, which was not timed
        for out in self._sets[self._last][0].outs[self._sets[self._last][1]] if self._due else ():
            places = torch.tensor([self._python.randrange(out.numel()) for _ in range(_PIECE)], device=out.device)
            memory, results = out.view(-1), out.view(-1)[places]
            poison = results.clone()
            self._spoil(poison, results)
            memory[places] = poison
            spoiled.append((memory, places, results, poison))
        checks = list(zip(taken, reversed(self._due), strict=True))
        self._python.shuffle(checks)
        for right, (_, bounds) in checks:
            try:
                bounds.check(right)
            except AssertionError as error:
                raise retold(error, f"after a change between two launches: {error}") from None
        for memory, places, results, poison in spoiled:
            if not equal(memory[places], poison):
                raise ContractError("an output was written after the launch had returned", "not repeatable")
            memory[places] = results

    def restore(self) -> None:
        """Restore the inputs after a turn that did not end."""
        for batch in dict.fromkeys(batch for batch, _ in self._sets):
            batch.restore()

    def _count(self, sets: int) -> int:
        """How many rows to redraw in a turn."""
        if self._length > (most := _ELEMENTS[self._x.device.type]):
            return int(self._python.random() < max(0.25, most / self._length))
        if not self._by_rows:
            return 1
        rows = self._x.numel() * sets // self._length
        return min(1 << self._python.randrange(_ROWS.bit_length()), most // self._length, max(1, rows // 4))

    def _unit(self, numbers: Sequence[int]) -> Unit:
        return self._python.choice(numbers), tuple(self._python.randrange(size) for size in self._sizes)

    def _width(self, tensor: torch.Tensor, names: tuple[str, ...]) -> int:
        """Elements of a row, or of its part of another tensor."""
        return tensor.numel() if not self._by_rows else self._length if names == ROW else 1

    def _spans(self, rows: int, most: int) -> Spans:
        """Random spans of one random length, or whole rows."""
        spans = []
        for x, names in zip(self._sets[0][0].inputs[0], self._names[0], strict=True):
            width = self._width(x, names)
            length = min(most, self._python.choice((width, 1 << self._python.randrange(width.bit_length()))))
            spans.append((length, [self._python.randint(0, width - length) for _ in range(rows)]))
        return spans

    def _row(self, tensor: torch.Tensor, names: tuple[str, ...], index: Index) -> torch.Tensor:
        """One row, or its part of another tensor, as a tensor of one axis."""
        if not self._by_rows:
            return tensor.view(-1)
        strides, length = self._strides(tensor, names), self._length if names == ROW else 1
        first = tensor.storage_offset() + _places(strides, index, (0,))[0]
        return tensor.as_strided((length,), (strides[-1] if names == ROW else 1,), first)

    def _pieces(self, unit: Unit, spans: Spans, row: int = 0) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The parts of a set's inputs that change, and the parts of its outputs that must change with them."""
        (batch, place), index = self._sets[unit[0]], unit[1]
        inputs = [
            self._row(batch.inputs[place][i], self._names[0][i], index).narrow(0, spans[i][1][row], spans[i][0])
            for i in self._changing
        ]
        return inputs, [self._part(out, i, index, spans, row) for i, out in enumerate(batch.outs[place])]

    def _part(self, out: torch.Tensor, number: int, index: Index, spans: Spans, row: int) -> torch.Tensor:
        whole = self._row(out, self._names[1][number], index)
        length, starts = spans[0]
        length = min(length, whole.numel())
        return whole.narrow(0, min(starts[row], whole.numel() - length), length)

    def _drawn(
        self, units: Sequence[Unit], spans: Spans, *, turned: bool = False
    ) -> tuple[list[torch.Tensor], list[Bounds]]:
        """Inputs that are new within their spans, and the right results. They have one row for each unit."""
        import torch

        operation = self._problem.operation
        rows = replace(self._problem, shape=(len(units), self._length), dim=-1) if self._by_rows else self._problem
        inputs = []
        for i, (fresh, names) in enumerate(zip(rows.inputs(self._generator), self._names[0], strict=True)):
            originals = [self._sets[number][0].of(self._sets[number][1])[0][i] for number, _ in units]
            if i not in self._changing:
                inputs.append(originals[0])
                continue
            now = torch.stack([self._row(x, names, index) for x, (_, index) in zip(originals, units, strict=True)])
            length, starts = spans[i]
            start = torch.tensor(starts, device=now.device)[:, None]
            place = torch.arange(now.size(1), device=now.device)
            fresh, shape = fresh.view(now.shape), fresh.shape
            inside = (place >= start) & (place < start + length)
            drawn = torch.where(inside, fresh, now)
            if i == 0 and turned:
                drawn = now.gather(1, torch.where(inside, 2 * start + length - 1 - place, place))
            elif now.is_floating_point() and now.size(1) > 1:  # else a few elements could be within the tolerance
                telling = fresh.amin(1, True) if operation.decisive < 0 else fresh.amax(1, True)
                drawn.scatter_(1, start + self._python.randrange(length), telling)
            inputs.append(drawn.view(shape))
        found = operation.expect(rows.arguments(inputs)).outputs
        return inputs, [Bounds(b.name, b.lower.view(len(units), -1), b.upper.view(len(units), -1)) for b in found]

    def _follow(self, units: Sequence[Unit], inputs: list[torch.Tensor], right: list[Bounds]) -> None:
        """Store these rows in the batches, and have them checked."""
        for row, (number, index) in enumerate(units):
            originals, known_right = self._sets[number][0].of(self._sets[number][1])
            for i in self._changing:
                self._row(originals[i], self._names[0][i], index).copy_(inputs[i].view(len(units), -1)[row])
            for known, new, names in zip(known_right, right, self._names[1], strict=True):
                self._row(known.lower, names, index).copy_(new.lower[row])
                self._row(known.upper, names, index).copy_(new.upper[row])
        for i, (bounds, names) in enumerate(zip(right, self._names[1], strict=True)):
            at = [(*self._sets[number], index) for number, index in units]
            self._due.append(([self._row(batch.outs[place][i], names, index) for batch, place, index in at], bounds))

    def _redraw(self, units: Sequence[Unit], sets: int, poisoned: set[int]) -> None:
        spans = self._spans(len(units), max(2, self._x.numel() * sets // _TOUCHED // len(units)))
        inputs, right = self._drawn(units, spans, turned=self._python.random() < 0.3)
        self._follow(units, inputs, right)
        drawn = [(inputs[i].view(len(units), -1), *spans[i]) for i in self._changing]
        for row, unit in enumerate(units):
            pieces, outs = self._pieces(unit, spans, row)
            for piece, (x, length, starts) in zip(pieces, drawn, strict=True):
                piece.copy_(x[row].narrow(0, starts[row], length))
            for out in outs if unit[0] in poisoned else ():
                self._spoil(out, out)

    def _poison(self, numbers: Sequence[int]) -> None:
        """Poison pieces of the outputs of these sets."""
        import torch

        if not numbers:
            return
        each = max(1, 64 // len(numbers))
        for i, out in enumerate(self._sets[0][0].outs[0]):
            length, pieces, bounds = min(_PIECE, out.numel()), [], []
            for number in numbers:
                batch, place = self._sets[number]
                known = batch.of(place)[1][i]
                for _ in range(each):
                    start = self._python.randint(0, out.numel() - length)
                    piece, lower, upper = (
                        t.view(-1).narrow(0, start, length) for t in (batch.outs[place][i], known.lower, known.upper)
                    )
                    self._spoil(piece, lower)
                    pieces.append(piece)
                    bounds.append((lower, upper))
            lower, upper = (torch.stack(side) for side in zip(*bounds, strict=True))
            self._due.append((pieces, Bounds(self._problem.operation.name, lower, upper)))

    def _spoil(self, out: torch.Tensor, right: torch.Tensor) -> None:
        """Write a wrong value that can't be guessed."""
        if out.is_floating_point():
            out.fill_(-self._python.uniform(10, 1000))
        else:
            out.copy_(poison_like(right))

    def _aim(self, probe: Probe) -> list[Unit]:
        """Give a probe other rows and values; returns the rows. None of a row too long to redraw each time."""
        import torch

        batch, place = self._sets[probe.number]
        count, most = probe.inputs[0][1].numel(), _ELEMENTS[self._x.device.type]
        if self._length > most and self._python.random() > max(0.25, most / self._length):
            return []
        units = [(probe.number, self._index(i)) for i in self._python.sample(range(math.prod(self._sizes)), count)]
        originals, known = batch.of(place)
        spans: Spans = [(1, [0] * count) for _ in originals]
        for i, (memory, places, *_) in zip(self._changing, probe.inputs, strict=True):
            names = self._names[0][i]
            width = self._width(memory, names)
            spans[i] = 1, [self._python.randrange(width) for _ in units]
            strides = self._strides(originals[i], names)
            at = [_places(strides, index, (p,))[0] for (_, index), p in zip(units, spans[i][1], strict=True)]
            places.copy_(torch.tensor(at))
        for i, ((memory, places, value, _), names) in enumerate(zip(probe.outs, self._names[1], strict=True)):
            width = self._width(memory, names)
            some = [self._python.sample(range(width), places.numel() // count) for _ in units]
            strides = self._strides(known[i].lower, names)
            at = [p for (_, index), ps in zip(units, some, strict=True) for p in _places(strides, index, ps)]
            places.copy_(torch.tensor(at))
            self._spoil(value.zero_(), value) if self._python.random() < 0.5 else value.zero_()
        self._follow(units, *self._drawn(units, spans))
        for i, (_, places, value, _) in zip(self._changing, probe.inputs, strict=True):
            value.copy_(originals[i].view(-1)[places])
        for i, (_, places, _, found) in enumerate(probe.outs):
            lower, upper = (side.view(-1)[places][None] for side in (known[i].lower, known[i].upper))
            self._due.append(([found], Bounds(known[i].name, lower, upper)))
        return units

    def _index(self, row: int) -> Index:
        places = []
        for size in reversed(self._sizes):
            row, place = divmod(row, size)
            places.append(place)
        return tuple(reversed(places))

    def _strides(self, tensor: torch.Tensor, names: tuple[str, ...]) -> tuple[int, ...]:
        """Strides of the axes in a row's index, followed by the row's own. (1,) for a tensor without rows."""
        if not self._by_rows:
            return (1,)
        strides = tensor.stride()
        return tuple(strides[d] for d in self._order) if names == ROW else strides


def _places(strides: Sequence[int], index: Index, within: Sequence[int]) -> list[int]:
    """Offsets in memory of elements of a row, or of its part of another tensor."""
    first = sum(i * stride for i, stride in zip(index, strides, strict=False))
    step = strides[len(index)] if len(strides) > len(index) else 0
    return [first + place * step for place in within]
