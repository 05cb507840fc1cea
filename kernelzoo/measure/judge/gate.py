"""The gate: an implementation is timed only after it passes these checks, in the memory used for timing."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from kernelzoo.check.bits import bits
from kernelzoo.check.dependence_probe import probe_all_elements
from kernelzoo.check.special import special_rows
from kernelzoo.errors import ContractError, DeviceLostError, UndecidableError, replace_message
from kernelzoo.layout import unravel_index
from kernelzoo.measure.judge.entrant import Entrant
from kernelzoo.measure.judge.memory import Tensors, TensorSets
from kernelzoo.measure.judge.mutation import DataMutator
from kernelzoo.measure.worker_process import DiedError
from kernelzoo.operations import Expected

_LAUNCHES = 8
"""The number of extra launches that show whether bits vary by chance, or rows depend on each other."""

_LINKED = 16
"""The factor by which more rows are checked for each chained launch than after a turn."""


@dataclass(frozen=True)
class GateFindings:
    """The gate's findings about an implementation that passed."""

    facts: dict[str, Any]
    """``first_call`` and ``submit`` in seconds, and ``form``, as the runner reported them."""
    same_bits: bool
    """Whether the same inputs gave the same bits again."""
    batch_invariant: bool | None
    """Whether a row launched alone has the same bits as among other rows; None if that can't be checked."""


class Gate:
    """A checker of implementations on sets of tensors of one problem. ``seed`` reproduces a finding's values."""

    def __init__(self, sets: TensorSets, seed: int) -> None:
        self.sets, self.problem, self.seed = sets, sets.problem, seed
        self.operation = sets.problem.operation
        self._python = random.Random(seed)
        self.mutation = DataMutator(sets, seed)
        self._stated_values_only = "sizes" in self.operation.hooks
        """Whether the operation's author defines the allowed inputs, so that special values are not tested."""

    def admit(self, entrant: Entrant, *, special_values: bool = True) -> GateFindings:
        """Check an implementation's results, and that it writes only its outputs. Returns what was found.

        If not ``special_values``, only ordinary values are used. Raises ContractError, or the entrant's own error.
        """
        with self._add_seed_to_errors():
            everything = list(range(self.sets.count))
            self.mutation.write_guard_bytes()
            self.mutation.write_sets(everything)
            facts = entrant.bind()
            self.mutation.poison(everything)  # only now, since binding could write what the launch does not
            self._python.shuffle(everything)
            entrant.launch(everything)
            self.mutation.check_sets(everything, whole_sets=(0,))
            for inputs, row_rules in self._draw_inputs(special_values):
                self._check_on_busy_stream(entrant, inputs, row_rules)
            same_bits = self._check_repeated_launch(entrant)
            batch_invariant = self._check_single_row(entrant)
            if entrant.implementation.batch_invariant and batch_invariant is False:
                raise ContractError("a row alone has other bits than among others", "not repeatable")
            same_bits = self._check_changed_elements(entrant, special_values, same_bits)
            if self.sets.device.type == "cuda":
                self._check_on_busy_stream(entrant, self.problem.inputs(self.mutation.generator), {}, other_stream=True)
            self._check_dependent_launches(entrant, same_bits)
            self.mutation.check_guards()
        return GateFindings(facts, same_bits, batch_invariant)

    @cached_property
    def last_turn_inputs(self) -> Tensors:
        """Inputs for an entrant's last turn. Some rows have special values, if error bounds can judge their results."""
        found = self._draw_inputs(True)[0][0]
        return self.problem.inputs(self.mutation.generator) if self._undecidable(found) else found

    @cached_property
    def _why_undecidable(self) -> str:
        """The reason why the operation's error bounds can't judge ordinary values; "" if they can."""
        return self._undecidable(self.problem.inputs(self.mutation.generator))

    def _undecidable(self, inputs: Tensors) -> str:
        args = self.problem.arguments(inputs)
        return self.operation.undecidable(args, self.operation.expect(args))

    @contextmanager
    def _add_seed_to_errors(self) -> Iterator[None]:
        """Return a context that adds the seed to findings. Raises UndecidableError if the reference itself is wrong."""
        doubtful = () if "written" in self.operation.hooks else ("wrong value", "drops NaN")
        try:
            yield
        except AssertionError as error:
            if getattr(error, "kind", "") in doubtful and (words := self._why_undecidable):
                raise UndecidableError(f"the reference, computed in the dtypes of kernels, is wrong: {words}") from None
            raise replace_message(error, f"{error} (gate seed {self.seed})") from error
        if not doubtful and self._why_undecidable:
            raise UndecidableError(f"its own reference is wrong here, so nothing is decided: {self._why_undecidable}")

    # --- Values -----------------------------------------------------------------------------------------------------

    def _draw_inputs(self, special: bool) -> list[tuple[Tensors, dict[int, str]]]:
        """Return several new inputs, each with a mapping from row to the name of the row's special values."""
        if not special or self._stated_values_only:
            return [(self.problem.inputs(self.mutation.generator), {})]
        return self._special_inputs

    @cached_property
    def _special_inputs(self) -> list[tuple[Tensors, dict[int, str]]]:
        """Several inputs, each with special values in some rows of the first tensor, or one NaN in another tensor."""
        operation, generator = self.operation, self.mutation.generator
        first = next(iter(operation.inputs.values()))
        field, fresh = self.sets.inputs[0], list[tuple[Tensors, dict[int, str]]]()
        rules = list(special_rows(self.problem.dtype).items()) if first.low is None and first.high is None else []
        by_rows = operation.by_rows and bool(field.shape)
        if by_rows and rules and field.elements:
            length = field.shape[self.problem.dim]
            count = field.elements // length
            at_once = min(len(rules), (count + 1) // 2)
            # If there are few rows, several passes are needed. If rows are long, there are too few passes for all
            # rules, so the most important rules come first.
            passes = min(-(-len(rules) // at_once), max(1 if field.elements > 2**26 else 4, 2**24 // field.elements))
            for i in range(passes):
                inputs = self.problem.inputs(generator)
                rows, names = inputs[0].movedim(self.problem.dim, -1), dict[int, str]()
                chosen = rules[i * at_once : (i + 1) * at_once]
                for j, (name, write) in enumerate(chosen):
                    row = j * (count - 1) // max(1, len(chosen) - 1)
                    write(rows[unravel_index(row, rows.shape[:-1])])
                    names[row] = name
                operation.clamp_to_domain(0, inputs[0], length)
                fresh.append((inputs, names))
        for number, declared in enumerate(operation.inputs.values()):
            inputs = self.problem.inputs(generator)
            if (number == 0 and by_rows) or not inputs[number].numel():
                continue
            if declared.low is None and declared.high is None and inputs[number].is_floating_point():
                flat = inputs[number].view(-1)
                flat[self.seed % flat.numel()] = math.nan
                fresh.append((inputs, {}))
        return fresh or [(self.problem.inputs(generator), {})]

    # --- Checks -----------------------------------------------------------------------------------------------------

    def _check_on_busy_stream(
        self, entrant: Entrant, inputs: Tensors, row_rules: dict[int, str], *, other_stream: bool = False
    ) -> None:
        """Write new inputs where the old ones were, and check a launch that waits on a busy stream."""
        self.mutation.write_sets([0, 1], {1: inputs})
        entrant.ask("launch_on_busy_stream", source_set=1, other_stream=other_stream)
        where = "under another current stream" if other_stream else "right at first, wrong on fresh data"
        args = self.problem.arguments(inputs)
        expected = self.operation.expect(args)
        try:
            expected.check(self.sets[1][1])
        except AssertionError as error:
            if "written" in self.operation.hooks or not self.operation.undecidable(args, expected):
                wrong = [name for row, name in row_rules.items() if not self._row_is_right(expected, row)]
                told = f", in rows of {' / '.join(wrong)}" if 0 < len(wrong) < len(row_rules) else ""
                raise replace_message(error, f"{where} in the same memory{told}: {error}") from None
        if not _have_same_bits(self.sets[0][0], self.sets[1][0]):
            raise ContractError("the input was changed while it held fresh data", "changes its input")

    def _row_is_right(self, expected: Expected, row: int) -> bool:
        """Whether one row's results in set number 1 are right; False if an output does not belong to one row."""
        if not self.operation.separable:
            return False
        names = self.operation.axes[len(self.sets.inputs) :]
        try:
            for bounds, out, of in zip(expected.outputs, self.sets[1][1], names, strict=True):
                lower, upper, got = (self.mutation.rows_of(x, of, [row]) for x in (bounds.lower, bounds.upper, out))
                replace(bounds, lower=lower, upper=upper).check(got)
        except AssertionError:
            return False
        return True

    def _check_repeated_launch(self, entrant: Entrant) -> bool:
        """Launch twice on the same inputs. Both results must be right. Returns whether their bits are the same."""
        self.mutation.write_sets([0])
        found = []
        for _ in range(2):
            self.mutation.poison([0])
            entrant.launch([0])
            self.mutation.check_sets([0])
            found.append(tuple(out.clone() for out in self.sets[0][1]))
        return _have_same_bits(*found)

    def _check_single_row(self, entrant: Entrant) -> bool | None:
        """Return whether the first row gets the same bits if it is launched alone; None if that can't be checked."""
        shape = self.sets.inputs[0].shape
        last = self.operation.separable and len(shape) > 1 and self.problem.dim % len(shape) == len(shape) - 1
        if not last or not self.sets.inputs[0].elements or self.sets.inputs[0].elements == shape[-1]:
            return None
        self.mutation.write_sets([0])
        self.mutation.write_sets([1], {1: self.mutation.inputs(0)})
        entrant.launch([1])
        self.mutation.fill(0, self.mutation.inputs(1))
        try:
            entrant.ask("launch_single_row", set_number=0)
        except (ContractError, DeviceLostError, DiedError):
            raise
        except Exception:  # it may refuse a single row
            return None
        first = (0,) * len(shape)
        return _have_same_bits(self.sets.select_row(0, first)[2], self.sets.select_row(1, first)[2])

    def _check_changed_elements(self, entrant: Entrant, special: bool, same_bits: bool) -> bool:
        """Change single elements, and check their rows. If launches are repeatable, other rows must keep their bits.

        ``same_bits``: whether launches on equal inputs have been repeatable so far. Returns its new value.
        """
        self.mutation.write_sets([0])
        inputs, outs = self.sets[0]
        x = inputs[0]
        if not x.numel() or (self._stated_values_only and self.operation.relates_inputs):
            return same_bits
        probe_all_elements(
            self.operation, self.problem.arguments(inputs), lambda: entrant.launch([0]), outs, self.mutation.generator
        )
        entrant.launch([0])
        before = tuple(out.clone() for out in outs)
        place = tuple(self._python.randrange(size) for size in x.shape)
        kept = x[place].clone()
        x[place] = self._value_that_decides_row(x, special)
        by_rows = self.operation.separable and bool(place)
        problem, given, results = self.sets.select_row(0, place) if by_rows else (self.problem, inputs, outs)
        expected, old = self.operation.expect(problem.arguments(given)), [row.clone() for row in results]
        self.mutation.poison([0])
        entrant.launch([0])
        try:
            expected.check(results)
        except AssertionError as error:
            raise replace_message(error, f"wrong after the one element at {place} was changed: {error}") from None
        if not by_rows:
            return same_bits
        for row, was in zip(results, old, strict=True):
            row.copy_(was)
        if _have_same_bits(outs, before):
            return same_bits
        near = self._nearly_equal(outs, before)
        if same_bits:  # two launches gave the same bits, perhaps by chance
            x[place] = kept
            for _ in range(_LAUNCHES):
                entrant.launch([0])
                same_bits = same_bits and _have_same_bits(outs, before)
        if same_bits or not near:
            raise ContractError(
                f"the one element at {place} was changed, and the results of other rows with it", "wrong value"
            )
        return False

    def _nearly_equal(self, outs: Tensors, before: Tensors) -> bool:
        """Whether outputs agree within rounding, such as those of sums in another order."""
        return all(
            torch.allclose(a, b, rtol=1e-2, atol=1e-6, equal_nan=True) for a, b in zip(outs, before, strict=True)
        )

    def _value_that_decides_row(self, x: torch.Tensor, special: bool) -> float | bool:
        """Return a value for one element that decides the result of its row."""
        if x.dtype.is_floating_point:
            return math.nan if special and not self._stated_values_only else self.operation.decisive
        declared = next(iter(self.operation.inputs.values()))
        if declared.low is not None or declared.high is not None:  # another element's value, which is legal
            return x.view(-1)[self.seed % x.numel()].item()
        return x.dtype != torch.bool and torch.iinfo(x.dtype).min

    def _check_dependent_launches(self, entrant: Entrant, same_bits: bool) -> None:
        """Check immediate succession: two launches into one output, then pairs where the second reads the first."""
        self.mutation.write_sets([0, 1])
        entrant.ask("launch_into_same_outputs")
        try:
            self.mutation.check_sets([1], whole_sets=(1,))
        except AssertionError as error:
            raise replace_message(error, f"wrong where the launch before wrote into the same output: {error}") from None
        launch_count = self.sets.chain_launch_count
        if not launch_count:
            return
        self.mutation.write_sets(list(range(launch_count)))
        entrant.ask("launch_chained", launch_count=launch_count)
        for number in range(launch_count):
            inputs = self.sets[number][0]
            outs = (self.sets.chained_output(number), *self.sets[number][1][1:])
            try:
                self.mutation.check_rows(inputs, outs, row_factor=_LINKED)
            except AssertionError as error:
                found = tuple(out.clone() for out in outs)
                entrant.launch([number])
                alone = self.sets[number][1]
                # The first output may be an input that no kernel must accept. Then a separate launch is as wrong.
                if _have_same_bits(found, alone) if same_bits else self._nearly_equal(found, alone):
                    continue
                raise replace_message(
                    error, f"wrong where launch {number + 1} of {launch_count} reads what the one before wrote: {error}"
                ) from None


def _have_same_bits(a: Tensors, b: Tensors) -> bool:
    """Whether two tuples of tensors are equal to the bit."""
    return all(torch.equal(bits(x), bits(y)) for x, y in zip(a, b, strict=True))
