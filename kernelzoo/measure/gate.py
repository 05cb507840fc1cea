"""The gate: an implementation is timed only after it passes these checks in the memory used for timing."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelzoo import operations, registry
from kernelzoo.check.bits import bits, poison_like
from kernelzoo.check.dependence_probe import probe_all_elements
from kernelzoo.check.special import special_rows
from kernelzoo.device import on_device_of
from kernelzoo.errors import ContractError, LaunchError, retold
from kernelzoo.measure.buffers import (
    Batch,
    Guarded,
    Index,
    Rows,
    Set,
    Tensors,
    fill,
    held_up,
    metadata,
    parts,
    poison_of,
    same,
    wait,
)
from kernelzoo.measure.input_mutation import InputMutation
from kernelzoo.measure.problems import Problem
from kernelzoo.operations.declared import ROW

if TYPE_CHECKING:
    import torch

    from kernelzoo.launch import Launch


@dataclass(frozen=True)
class Admitted:
    """An implementation that has passed and may be timed."""

    launches: list[Launch]
    """Its launches, one for each set in order."""
    first_call: float
    """Seconds of the first bind and run, including compilation unless it was cached."""


class Gate:
    """Checks implementations of one problem on ``sets``, pairs (inputs, outputs) of contiguous tensors.

    The right results are computed once for all implementations. With the input copies they take three times the bytes
    of the sets, five for few long rows. Each gate draws other values; an error names the ``seed`` that repeats them.
    """

    def __init__(self, problem: Problem, sets: Sequence[Set], *, seed: int | None = None) -> None:
        import torch

        self.problem, self.sets = problem, list(sets)
        self.seed = secrets.randbits(48) if seed is None else seed
        (inputs, outs), python = self.sets[0], random.Random(self.seed)
        x, operation = inputs[0], problem.operation
        self._place = tuple(python.randrange(size) for size in x.shape)
        self._generator = generator = torch.Generator(x.device).manual_seed(self.seed)
        with on_device_of(x):
            self._rows = Rows(x, problem.arguments(inputs).dims) if operation.by_rows else None
            self._guarded_inputs = tuple(Guarded(tensor, generator) for tensor in inputs)
            self._guarded_outs = tuple(Guarded(out, generator) for out in outs)
            self._original = tuple(g.inner.copy_(t) for g, t in zip(self._guarded_inputs, inputs, strict=True))
            poisons = [poison_of(out.dtype, python) for out in outs]
            first, *others = parts(operation, self.sets)
            self._batches = [Batch(problem, first, poisons, self._original)]
            self._batches += [Batch(problem, part, poisons) for part in others]
            # A launch could tell from a tensor's version counter that it was written. These aliases have their own
            # counters.
            (self._inputs,), (self._outs,) = self._batches[0].inputs, self._batches[0].outs
            self._x = self._inputs[0]
            self._first = tuple(map(torch.empty_like, self._outs))
            self._fresh = self._draw(generator)
            self._plain: list[_Fresh] | None = None
            self.stirring = InputMutation(problem, self._batches, generator, self.seed)
        self._metadata = [(t, metadata(t), t.data) for one in self.sets for half in one for t in half]

    def admit(self, implementation: registry.Implementation, *, special: bool = True) -> Admitted:
        """Bind one implementation to every set, and check it.

        First, the results of all sets are compared with the float64 reference. Then the first set gets fresh data with
        every special value, read in stream order, and a single changed element. The first data must give the same bits
        again, on another stream too. Inputs, guard bytes and the tensors themselves must not change. Without
        ``special`` only ordinary values are used, for an implementation whose user waived the special ones.

        Raises AssertionError, which says what is wrong; KernelZooError where the implementation refuses the problem;
        and whatever the implementation raises.
        """
        with self._undone():
            wait(self._x)
            started = time.perf_counter()
            launches = [self._bound(implementation, *self.sets[0])]
            wait(self._x)
            bound = time.perf_counter()
            launches += [self._bound(implementation, *one) for one in self.sets[1:]]
            for batch in self._batches:  # only now, since binding could write what the launch does not
                batch.poison()
            wait(self._x)
            run = time.perf_counter()
            _run(launches[0])
            wait(self._x)
            first_call = time.perf_counter() - run + bound - started
            for launch in launches[1:]:
                _run(launch)
            wait(self._x)
            self._check_metadata()
            for batch in self._batches:
                batch.check()
            fill(self._first, self._outs)
            for fresh in reversed(self._values(special)):
                self._check_values(self._launched(launches[0], fresh.inputs), fresh)
            self._check_again(launches[0])
            self._check_guards(implementation)
            args = self.problem.arguments(self._inputs)
            probe_all_elements(self.problem.operation, args, launches[0], self._outs, self._generator)
            self._check_one_element(launches[0], special)
            if self._x.is_cuda:
                self._check_stream(launches[0], special)
            self._check_metadata()
        return Admitted(launches, first_call)

    def check_timed(self, sampler: Callable[[], float], *, special: bool = True) -> None:
        """Check what was timed: sample again over poisoned outputs, with fresh data in the first set.

        Raises AssertionError, which says what is wrong.
        """
        import torch

        with self._undone():
            fresh = self._values(special)[0]
            for batch in self._batches:
                batch.poison()
            fill(self._inputs, fresh.inputs)
            self.stirring.hold()
            heads = [outs[0].view(-1)[:1] for batch in self._batches for outs in batch.outs]
            before = bits(torch.cat(heads))
            for _ in self.sets:  # one sample of the wall clock may miss some sets
                sampler()
                if not bool((bits(torch.cat(heads)) == before).any()):
                    break
            wait(self._x)
            self._check_metadata()
            self._check_values(self._outs, fresh)
            for batch in self._batches[1:]:
                batch.check()

    def _values(self, special: bool) -> list[_Fresh]:
        """Fresh data with special values, or without any. The latter is drawn on first use."""
        if special:
            return self._fresh
        if self._plain is None:
            self._plain = [self._expected(self.problem.inputs(self._generator), {})]
        return self._plain

    def _expected(self, inputs: Tensors, rules: dict[Index, str]) -> _Fresh:
        return _Fresh(inputs, self.problem.operation.expect(self.problem.arguments(inputs)), rules)

    def _draw(self, generator: torch.Generator) -> list[_Fresh]:
        """Fresh data with special values in at most every other row. For each companion input of floats, fresh data
        with a NaN in it."""
        operation = self.problem.operation
        first = next(iter(operation.inputs.values()))
        rules = list(special_rows(self.problem.dtype).items()) if first.low is None and first.high is None else []
        fresh, elements = [], self._x.numel()
        if self._rows is not None and rules:
            count = self._rows.count
            at_once = min(len(rules), (count + 1) // 2)
            # Few rows take several passes. Long rows get too few passes for every rule; those that matter most come
            # first.
            passes = min(-(-len(rules) // at_once), max(1 if elements > 2**26 else 4, 2**24 // elements))
            length = elements // count
            for i in range(passes):
                inputs = self.problem.inputs(generator)
                chosen = rules[i * at_once : (i + 1) * at_once]
                names = {}
                for j, (name, write) in enumerate(chosen):
                    index = self._rows.index(j * (count - 1) // max(1, len(chosen) - 1))
                    self._rows.write(inputs[0], index, write)
                    names[index] = name
                operation.confined(0, inputs[0], length)
                fresh.append(self._expected(inputs, names))
        for number, declared in enumerate(operation.inputs.values()):
            inputs = self.problem.inputs(generator)
            if (number == 0 and self._rows is not None) or not inputs[number].numel():
                continue
            if declared.low is None and declared.high is None and inputs[number].is_floating_point():
                flat = inputs[number].view(-1)
                flat[self.seed % flat.numel()] = math.nan
                fresh.append(self._expected(inputs, {}))
        return fresh or [self._expected(self.problem.inputs(generator), {})]

    def _check_values(self, results: Tensors, fresh: _Fresh) -> None:
        try:
            fresh.expected.check(results)
        except AssertionError as error:
            rows = self._rows
            wrong = [name for i, name in fresh.rules.items() if rows and not rows.right(fresh.expected, results, i)]
            told = f", in rows of {' / '.join(wrong)}" if 0 < len(wrong) < len(fresh.rules) else ""
            raise retold(error, f"right at first, wrong on fresh data in the same memory{told}: {error}") from None
        if not same(self._inputs, fresh.inputs):
            raise ContractError("the input was changed while it held fresh data", "changes its input")

    def _bound(self, implementation: registry.Implementation, inputs: Tensors, outs: Tensors) -> Launch:
        try:
            with _its_own():
                return self.problem.launch(implementation, inputs, outs)
        except LaunchError as error:
            raise ContractError(str(error), "returns no launch") from None

    def _check_guards(self, implementation: registry.Implementation) -> None:
        """Check the first data in memory between guard bytes."""
        inputs, outs = (tuple(g.inner for g in guarded) for guarded in (self._guarded_inputs, self._guarded_outs))
        fill(outs, map(poison_like, self._first))
        try:
            _run(self._bound(implementation, inputs, outs))
            wait(self._x)
        finally:
            operation = self.problem.operation
            names, guards = (*operation.inputs, *operation.outputs), (*self._guarded_inputs, *self._guarded_outs)
            written = {name: guard.mend() for name, guard in zip(names, guards, strict=True)}
            changed = not same(inputs, self._inputs)  # they hold the first data again
            fill(inputs, self._inputs)
        for name, count in written.items():
            if count:
                raise ContractError(
                    f"wrote outside its output: {count} of the bytes beside {name} have changed",
                    "writes outside its output",
                )
        if changed:
            raise ContractError("the input was changed where it lay elsewhere in memory", "changes its input")
        try:
            self._batches[0].check_results(outs)
        except AssertionError as error:
            raise retold(
                error, f"right in one place, wrong elsewhere in memory, between random bytes: {error}"
            ) from None

    def _check_one_element(self, launch: Launch, special: bool) -> None:
        """Change one element of the first data. Its row must change, and no other."""
        place, rows, operation = self._place, self._rows, self.problem.operation
        fill(self._inputs, self._original)
        self._x[place] = self._telling(special)
        inputs, index = self._inputs, rows.of(place) if rows else ()
        if rows:
            axes = operation.axes[: len(self._inputs)]
            inputs = tuple(
                rows.x(x, index) if names == ROW else rows.out(x, index) if names == ("outer", "inner") else x
                for names, x in zip(axes, self._inputs, strict=True)
            )

        def part(tensors: Tensors) -> Tensors:
            return tuple(rows.out(tensor, index) for tensor in tensors) if rows else tensors

        expected = operation.expect(self.problem.arguments(inputs))
        fill(self._outs, self._first)
        _run(launch)
        wait(self._x)
        try:
            expected.check(part(self._outs))
        except AssertionError as error:
            raise retold(error, f"wrong after the one element at {place} was changed: {error}") from None
        fill(part(self._outs), part(self._first))
        if not same(self._outs, self._first):
            raise ContractError(
                f"the one element at {place} was changed, and the results of other rows with it", "wrong value"
            )

    def _telling(self, special: bool) -> float | bool:
        """A value for one element that decides the result of its row."""
        import torch

        operation, kind = self.problem.operation, self._x.dtype
        if kind.is_floating_point:  # an ordinary value that decides its row
            return math.nan if special else operation.decisive
        declared = next(iter(operation.inputs.values()))
        if declared.low is not None or declared.high is not None:  # another element's value, which is legal
            return self._original[0].view(-1)[self.seed % self._x.numel()].item()
        return kind != torch.bool and torch.iinfo(kind).min

    def _check_again(self, launch: Launch) -> None:
        fill(self._inputs, self._original)
        fill(self._outs, map(poison_like, self._first))
        _run(launch)
        wait(self._x)
        if not same(self._outs, self._first):
            raise ContractError(
                "launched again, the same input gave other bits, or not all was written", "not repeatable"
            )

    def _check_stream(self, launch: Launch, special: bool) -> None:
        """Check a launch on another stream, with other inputs and outputs until it runs."""
        import torch

        fill(self._inputs, self._values(special)[0].inputs)
        fill(self._outs, map(poison_like, self._first))
        stream: Any = torch.cuda.Stream  # torch has no type for it
        if not same(self._launched(launch, self._original, stream(self._x.device)), self._first):
            raise ContractError("under another current stream, the same input gave other bits", "not repeatable")

    def _launched(self, launch: Launch, values: Tensors, stream: object = None) -> Tensors:
        """The outputs for a reader on the current stream, right after the inputs were filled on it.

        The stream is delayed, so that work on another stream comes too early. A launch that does nothing, or comes
        late, leaves the old outputs. The results lie in the guarded outputs.
        """
        results = tuple(guarded.inner for guarded in self._guarded_outs)
        wait(self._x)
        with held_up(self._x, stream):
            fill(self._inputs, values)
            _run(launch)
            fill(results, self._outs)
        wait(self._x)
        return results

    def _check_metadata(self) -> None:
        for tensor, before, _ in self._metadata:
            now = metadata(tensor)
            if now != before:
                name = "an output" if any(tensor is out for _, outs in self.sets for out in outs) else "an input"
                changes = ", ".join(f"{key} was {before[key]}, is {now[key]}" for key in now if now[key] != before[key])
                raise ContractError(
                    f"a launch must not change the tensors themselves: of {name}, {changes}",
                    "changes its tensors",
                )

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """A context that restores the sets, except outputs. An error gets the seed."""
        failed = True
        try:
            with on_device_of(self._x):
                yield
            failed = False
        except AssertionError as error:
            raise retold(error, f"{error} (gate seed {self.seed})") from error
        finally:
            for tensor, before, alias in self._metadata if failed else ():
                if metadata(tensor) != before:
                    tensor.__class__ = before["type"]
                    tensor.data = alias
            for batch in self._batches if failed else self._batches[:1]:
                batch.restore()


@dataclass(frozen=True)
class _Fresh:
    """Data that an implementation has not seen."""

    inputs: Tensors
    expected: operations.Expected
    rules: dict[Index, str]
    """The special values by row."""


@contextmanager
def _its_own() -> Iterator[None]:
    """Turns an assertion inside an implementation into its failure, not a finding of the gate."""
    try:
        yield
    except AssertionError as error:
        raise RuntimeError(f"an assertion of its own failed: {error}") from error


def _run(launch: Launch) -> None:
    with _its_own():
        result: object = launch()  # type: ignore[func-returns-value]  # which is what is checked here
    if result is not None:
        raise ContractError(
            f"a launch writes into out and returns None; this one returned {type(result)}",
            "wrong kind of result",
        )
