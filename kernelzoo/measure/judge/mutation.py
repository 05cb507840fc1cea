"""Writes new inputs before each turn, and checks some results after the turn.

Before a turn, new values are written into all inputs of its sets, and wrong values (poison) into all outputs. So a
kernel that reuses earlier results or skips a launch is detected. After the turn, reference results are computed for
randomly chosen rows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch

from kernelzoo.check.bits import bits
from kernelzoo.errors import ContractError, replace_message
from kernelzoo.layout import unravel_index
from kernelzoo.measure.judge.memory import Tensors, TensorSets
from kernelzoo.operations.declared import ROW

ELEMENTS = {"cpu": 2**16, "cuda": 2**21}
"""The most elements checked after a turn, since each needs a reference. Longer rows are checked after some turns."""

_ROWS = 64
"""The most rows per set that are checked after a turn."""

_SETS = 4
"""The most sets whose results are checked, chosen after the turn. All sets are checked for skipped launches."""

_FEW_ROWS = 8
"""The most rows that are checked in each set after the first few sets, if sets are large."""

_SPARE = 2**20
"""The most elements by which a pool of random data is longer than an input."""

_PLACES = 64
"""The number of output elements that are checked for remaining poison; at least one of each set."""

_DRAWS = 16
"""Related inputs are drawn at most this many times for a turn. Each set gets one of the draws at random."""

_SMALL = 2**16
"""If an input has at most this many elements, one torch operation writes it in all sets."""


class DataMutator:
    """A writer of inputs and poison into sets, and a checker of results. Runners see only the sets."""

    def __init__(self, sets: TensorSets, seed: int) -> None:
        self.sets, self.problem = sets, sets.problem
        self.operation = sets.problem.operation
        self._python = random.Random(seed)
        self.generator = torch.Generator(sets.device).manual_seed(seed)
        self._private: dict[int, Tensors] = {}
        """The inputs that were written into sets for the last turn. No runner sees these tensors."""
        self._offsets: dict[int, list[int]] = {}
        self._poisons = [_choose_poison(field.dtype, self._python) for field in sets.outs]
        self._fields = [*sets.inputs, *sets.outs]
        self.write_guard_bytes()

    def write_sets(self, set_numbers: Sequence[int], given_inputs: dict[int, Tensors] | None = None) -> None:
        """Write new inputs and poisoned outputs into these sets. ``given_inputs``: inputs for some sets, by number."""
        self._private, self._offsets = {}, {}
        if self.operation.relates_inputs:
            self._write_related_inputs(set_numbers)
        else:
            self._write_unrelated_inputs(set_numbers)
        for number, inputs in (given_inputs or {}).items():
            self.fill(number, inputs)
        self.poison(set_numbers)

    def fill(self, number: int, inputs: Tensors) -> None:
        """Write these inputs into a set. The tensors must not change until the set is checked."""
        self._private[number] = inputs
        for field, x in zip(self.sets.inputs, inputs, strict=True):
            self.sets.tensor(field, number).copy_(x)

    def poison(self, numbers: Sequence[int]) -> None:
        """Fill the outputs of these sets with wrong values."""
        for field, poison in zip(self.sets.outs, self._poisons, strict=True):
            rows = self.sets.all_sets(field)
            if len(numbers) == self.sets.count:
                rows.fill_(poison)
            else:
                for number in numbers:
                    rows[number].fill_(poison)

    def record_input_copy(self, set_number: int, source_set: int, element_count: int) -> None:
        """Record that the turn copies this many elements of one set's first input to another's before its launch."""
        inputs = tuple(x.clone() for x in self.inputs(set_number))
        inputs[0].view(-1)[:element_count] = self.inputs(source_set)[0].reshape(-1)[:element_count]
        self._private[set_number] = inputs

    def inputs(self, number: int) -> Tensors:
        """Return the inputs that were written into a set."""
        if number in self._private:
            return self._private[number]
        return tuple(
            pool[start : start + field.elements].view(field.shape)
            for pool, start, field in zip(self._random_inputs, self._offsets[number], self.sets.inputs, strict=True)
        )

    def check_sets(self, numbers: Sequence[int], *, whole_sets: Sequence[int] = (), changed: int | None = None) -> None:
        """Check some rows of some sets, all rows of others, and the first row of a changed set.

        Raises ContractError, also if a launch was skipped or an input was changed.
        """
        self.check_written(numbers)
        size = self.sets.inputs[0].elements
        most = max(1, min(_SETS, ELEMENTS[self.sets.device.type] // max(1, size)))
        for number in whole_sets:
            self._check_inputs_unchanged(number)
            self.check_results(number, self.sets[number][1])
        if changed is not None:
            self._check_sample(changed, first=True)
        few = most if not self.operation.separable else _SETS
        for place, number in enumerate(self._python.sample(list(numbers), min(few, len(numbers)))):
            self._check_sample(number, few_rows=place >= most)

    def check_written(self, numbers: Sequence[int]) -> None:
        """Raise ContractError if an output still has its poison at one of some randomly chosen elements."""
        for field, poison, name in zip(self.sets.outs, self._poisons, self.operation.outputs, strict=True):
            if not field.elements or (field.dtype.itemsize < 4 and not field.dtype.is_floating_point):
                continue
            at = torch.tensor(list(numbers), device=self.sets.device)[:, None]
            size = len(numbers), max(1, _PLACES // len(numbers))
            places = torch.randint(field.elements, size, device=self.sets.device, generator=self.generator)
            kept = _raw(self.sets.all_sets(field))[at, places] == _raw(torch.tensor([poison], dtype=field.dtype)).item()
            left = kept.any(1)
            for place in left.nonzero().flatten().tolist()[:_SETS]:  # a right 16-bit result may equal poison
                try:
                    self.check_results(numbers[place], self.sets[numbers[place]][1])
                except ContractError:
                    words = f"{int(left.sum())} of {len(numbers)} launches did not write {name}"
                    raise ContractError(words, "leaves out unwritten") from None

    def check_results(self, number: int, results: Tensors) -> None:
        """Check all results for the inputs of a set. ``results`` may be in other memory. Raises ContractError."""
        self.operation.expect(self.problem.arguments(self.inputs(number))).check(results)

    def check_guards(self) -> None:
        """Raise ContractError if guard bytes behind a tensor have changed."""
        names = [*self.operation.inputs, *self.operation.outputs]
        for name, field, (first, last) in zip(names, self._fields, self._guards, strict=True):
            guards = self.sets.guard_bytes(field)
            changed = int((guards[:, :64] != first).sum() + (guards[:, -64:] != last).sum())
            if changed:
                raise ContractError(
                    f"wrote outside its output: {changed} of the bytes beside {name} have changed",
                    "writes outside its output",
                )

    def write_guard_bytes(self) -> None:
        """Write new random guard bytes behind each tensor, so that no kernel is blamed for another's writes."""
        kept = []
        for field in self._fields:
            guards = self.sets.guard_bytes(field)
            guards.random_(0, 256, generator=self.generator)
            kept.append((guards[:, :64].clone(), guards[:, -64:].clone()))
        self._guards = kept

    def _write_unrelated_inputs(self, numbers: Sequence[int]) -> None:
        """Write inputs into each set. They begin at random places of longer random tensors that runners can't see."""
        starts = []
        for field, pool in zip(self.sets.inputs, self._random_inputs, strict=True):
            spare = pool.numel() - field.elements
            offsets = [self._python.randint(0, spare) for _ in numbers]
            starts.append(offsets)
            rows = self.sets.all_sets(field)
            if field.elements > _SMALL or len(numbers) < 8:
                for number, start in zip(numbers, offsets, strict=True):
                    rows[number].copy_(pool[start : start + field.elements])
                continue
            windows, places = (_raw(pool).unfold(0, field.elements, 1), torch.tensor(offsets, device=pool.device))
            at = torch.tensor(list(numbers), device=pool.device)
            _raw(rows).index_copy_(0, at, windows.index_select(0, places))
        self._offsets = {number: [of[i] for of in starts] for i, number in enumerate(numbers)}

    @cached_property
    def _random_inputs(self) -> list[torch.Tensor]:
        samples = [self.problem.inputs(self.generator)]
        size = max(1, max(x.numel() for x in samples[0]))
        spare = min(_SPARE, 64 * size)
        while (len(samples) - 1) * size < spare:
            samples.append(self.problem.inputs(self.generator))
        pools = []
        for several in zip(*samples, strict=True):
            flat = torch.cat([x.reshape(-1) for x in several])
            pools.append(flat[: several[0].numel() + spare].contiguous())
        return pools

    def _write_related_inputs(self, numbers: Sequence[int]) -> None:
        """Write inputs that depend on each other. Sets get the same with rotated rows; without rows, one of a few."""
        shape = self.sets.inputs[0].shape
        kept = [d for d in range(len(shape)) if d != self.problem.dim % len(shape) and shape[d] > 1]
        axis = max(kept, key=lambda d: shape[d], default=None) if self.operation.by_rows else None
        count = 1 if axis is not None else min(_DRAWS, len(numbers))
        several = [self.problem.inputs(self.generator) for _ in range(count)]
        for number in numbers:
            inputs = self._python.choice(several)
            if axis is not None:
                turned = self._python.randrange(self.sets.inputs[0].shape[axis])
                inputs = tuple(self._roll_rows(x, i, turned, axis) for i, x in enumerate(inputs))
            self.fill(number, inputs)

    def _roll_rows(self, x: torch.Tensor, number: int, shift: int, axis: int) -> torch.Tensor:
        names = self.operation.axes[number]
        if names == ROW:
            return x.roll(shift, axis)
        if names == ("outer", "inner"):
            reduced = self.problem.dim % len(self.sets.inputs[0].shape)
            return x.roll(shift, axis - (axis > reduced))
        return x

    def _check_inputs_unchanged(self, number: int) -> None:
        for name, field, x in zip(self.operation.inputs, self.sets.inputs, self.inputs(number), strict=True):
            if not torch.equal(bits(self.sets.tensor(field, number)), bits(x)):
                whose = "the input" if len(self.sets.inputs) == 1 else f"the input {name}"
                raise ContractError(f"{whose} was changed", "changes its input")

    def _check_sample(self, number: int, *, first: bool = False, few_rows: bool = False) -> None:
        """Check that a set's inputs are unchanged, and some rows of its results. ``few_rows``: only a few rows."""
        if few_rows:
            self.check_rows(self.inputs(number), self.sets[number][1], most=_FEW_ROWS)
            return
        self._check_inputs_unchanged(number)
        most, length = ELEMENTS[self.sets.device.type], self._row_length
        if first or length <= most or self._python.random() < max(0.25, most / length):
            self.check_rows(self.inputs(number), self.sets[number][1], first)

    @property
    def _row_length(self) -> int:
        """The number of elements per row of the first input; of all elements if rows can't be separated."""
        x = self.sets.inputs[0]
        return x.shape[self.problem.dim] if self.operation.separable and x.shape else x.elements

    def check_rows(
        self, inputs: Tensors, outs: Tensors, first: bool = False, row_factor: int = 1, most: int = _ROWS
    ) -> None:
        """Check ``most`` rows times ``row_factor``, or all rows if fewer exist. If ``first``, row 0 is among them."""
        length = max(1, self._row_length)
        rows = self.sets.inputs[0].elements // length
        count = max(1, min(most, ELEMENTS[self.sets.device.type] // length)) * row_factor
        if not self.operation.separable or rows <= count or not inputs[0].ndim:
            self.operation.expect(self.problem.arguments(inputs)).check(outs)
            return
        picked = sorted(self._python.sample(range(rows), count))
        picked[0] = 0 if first else picked[0]
        taken = [self.rows_of(x, names, picked) for x, names in zip((*inputs, *outs), self.operation.axes, strict=True)]
        some = replace(self.problem, shape=(count, length), dim=-1)
        try:
            self.operation.expect(some.arguments(tuple(taken[: len(inputs)]))).check(tuple(taken[len(inputs) :]))
        except AssertionError as error:
            raise replace_message(error, f"of {count} rows from row {picked[0]} on: {error}") from None

    def rows_of(self, x: torch.Tensor, names: tuple[str, ...], picked: Sequence[int]) -> torch.Tensor:
        """Return the rows ``picked`` of a tensor with axes ``names``. If all rows share the tensor, return it whole."""
        if names not in (ROW, ("outer", "inner")):
            return x
        x = x.movedim(self.problem.dim, -1) if names == ROW else x
        kept, row = (x.shape[:-1], x.shape[-1:]) if names == ROW else (x.shape, ())
        return x[unravel_index(torch.tensor(picked, device=x.device), kept)].reshape(len(picked), *row)


def _raw(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements viewed as integers, which every torch operation takes."""
    return x.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def _choose_poison(dtype: torch.dtype, generator: random.Random) -> float | int:
    """Return a value that right results rarely have: a random negative number, the least integer, or 8-bit NaN."""
    if dtype.is_floating_point and dtype.itemsize == 1:
        return math.nan
    if dtype.is_floating_point:
        return -generator.uniform(10, 400)
    return generator.random() < 0.5 if dtype == torch.bool else torch.iinfo(dtype).min
