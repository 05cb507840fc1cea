"""Fuzzing cases run through an implementation as user calls, and checked against the contract.

Each case is called twice, with outputs in memory that held another pattern. Both results must be within the
operation's tolerance, and have the same bits. Bytes around and between the elements of every tensor must not change.
A fault must raise its documented error, and no other call may raise. A third call works in place, if that is allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelzoo import errors
from kernelzoo.check.bits import bits
from kernelzoo.check.case import NoRoomError
from kernelzoo.check.fuzz import placing
from kernelzoo.check.fuzz.case import Case, Layout, dense_strides
from kernelzoo.check.fuzz.faulty import FAULTS, FaultMaker
from kernelzoo.check.fuzz.placing import Placed
from kernelzoo.check.running import call_case
from kernelzoo.device import raise_if_device_lost
from kernelzoo.errors import (
    BackendUnavailableError,
    ContractError,
    OperationError,
    PicklableErrorMixin,
    UndecidableError,
    UnsupportedProblemError,
)
from kernelzoo.operations import Arguments, Expected
from kernelzoo.operations.expected import why_unlike
from kernelzoo.operations.memory import overlaps_itself
from kernelzoo.registry import Implementation

AT_ONCE = 32
"""Cases queued on a GPU before their results are read."""

SLOW = 0.02
"""A first call that takes this many seconds longer than the second compiled or loaded something."""

_WRONG = "wrong elements"

Check = tuple[str, "torch.Tensor"]
"""A message, and a bool tensor on the device that says whether it applies."""


@dataclass
class FuzzCounts:
    """The number of cases with each kind of result."""

    right: int = 0
    """Cases with the right result, twice with the same bits."""
    refused: int = 0
    """Cases that the variant refused with UnsupportedProblemError, as it may."""
    faults: int = 0
    """Faulty calls that raised their documented error."""
    no_room: int = 0
    """Cases that do not fit into this machine's memory."""
    compiled: int = 0
    """Cases whose first call took more than SLOW seconds longer than the second."""
    undecidable: int = 0
    """Cases with wrong elements in which the operation's own reference exceeds its bounds. No kernel is at fault."""
    wrong: list[tuple[int, str]] = field(default_factory=list)
    """The number of each failed case, and why."""
    unavailable: str = ""
    """Why the implementation can't run here, or the fault of its operation. Later cases are not counted."""


def run(
    implementation: Implementation,
    cases: Sequence[Case],
    device: torch.device,
    *,
    one_by_one: bool = False,
    progress: Callable[[int, int], None] = lambda waiting, number: None,
) -> FuzzCounts:
    """Run cases through one implementation.

    ``progress`` gets the numbers of the oldest case still running and of the next. On a GPU, these may differ.
    """
    if "draws" in implementation.operation.hooks:
        words = (
            f"the inputs of {implementation.op} belong together, and fuzzing draws each by itself; verify draws them"
        )
        return FuzzCounts(unavailable=words)
    runner = _Runner(implementation, device, in_words=len(cases) == 1)
    at_once = 1 if one_by_one or device.type == "cpu" else AT_ONCE
    waiting = 0
    try:
        for number, case in enumerate(cases):
            progress(waiting, number)
            runner.start_case(number, case)
            if runner.found.unavailable:
                break
            if number + 1 - waiting >= at_once or case.has_far_rows:
                runner.count_pending()
                waiting = number + 1
            if case.has_far_rows and device.type == "cuda":
                torch.cuda.empty_cache()  # other processes on the device may need the gigabytes
        runner.count_pending()
    except RuntimeError as error:  # a GPU reports a kernel's error at a later call
        runner.check_device(str(error))
        raise
    return runner.found


class _Runner:
    def __init__(self, implementation: Implementation, device: torch.device, *, in_words: bool) -> None:
        """``in_words``: wait for the device after each call, and report the wrong element."""
        self.found = FuzzCounts()
        self._implementation, self._device, self._in_words = implementation, device, in_words
        self._operation = implementation.operation
        self._generator = torch.Generator(device)
        self._pending: list[tuple[int, Case, list[Check]]] = []

    def start_case(self, number: int, case: Case) -> None:
        """Start a case. A result that is known without waiting for the device is counted at once."""
        found = self.found
        try:
            checks = self._call_twice(case)
        except BackendUnavailableError as error:
            found.unavailable = str(error)
        except OperationError as error:
            found.unavailable = f"{error}, in the case {case}"
        except UnsupportedProblemError as error:
            if self._implementation.variant == "auto":
                found.wrong.append((number, f"auto takes every legal input, and refused this: {error.reason}"))
            else:
                found.refused += 1
        except (NoRoomError, MemoryError, torch.OutOfMemoryError):
            found.no_room += 1
        except UndecidableError:
            found.undecidable += 1
        except ContractError as error:
            self._count_wrong(number, case, str(error))
        except AssertionError as error:
            found.wrong.append((number, str(error)))
        except _RaisedError as error:
            found.wrong.append((number, str(error)))
            self.count_pending()
            self.check_device(str(error))
        else:
            if case.fault or not checks:
                found.faults += bool(case.fault)
                found.right += not case.fault
            else:
                self._pending.append((number, case, checks))

    def count_pending(self) -> None:
        """Wait for the device, and count the pending cases."""
        if not self._pending:
            return
        flags = torch.stack([wrong for _, _, checks in self._pending for _, wrong in checks]).tolist()
        for number, case, checks in self._pending:
            words = [words for (words, _), wrong in zip(checks, flags, strict=False) if wrong]
            flags = flags[len(checks) :]
            if words and all(_WRONG in one for one in words):
                self._count_wrong(number, case, "; ".join(words))
            elif words:
                self.found.wrong.append((number, "; ".join(words)))
            else:
                self.found.right += 1
        self._pending.clear()

    def _count_wrong(self, number: int, case: Case, words: str) -> None:
        """Count a case with wrong elements as wrong, or as undecidable if the operation's bounds can't decide."""
        op = self._operation
        with torch.no_grad():
            inputs = [x for _, x in placing.place_inputs(op, case, self._generator)]
        args = op.arguments(inputs, -1 if case.dim is None else case.dim, case.keepdim, dict(case.scalars))
        if op.undecidable(args, op.expect(args)):
            self.found.undecidable += 1
        else:
            self.found.wrong.append((number, words))

    def check_device(self, words: str) -> None:
        """Raise DeviceLostError if the device no longer responds."""
        raise_if_device_lost(self._device, self._implementation.id, words)

    def _call_twice(self, case: Case) -> list[Check]:
        op = self._operation
        with torch.no_grad():
            placed = placing.place_inputs(op, case, self._generator)
        inputs = [x for _, x in placed]
        if case.fault:
            error, change = FAULTS[case.fault]
            self._expect_error(case, inputs, change(FaultMaker(op, case, inputs)), error)
            return []
        if op.needs_element and any(case.shape[d] == 0 for d in case.axes if d < len(case.shape)):
            self._expect_error(case, inputs, {}, "EmptyReductionError")
            return []
        before = [
            None if case.has_far_rows and not index else bits(board).clone() for index, (board, _) in enumerate(placed)
        ]
        args = op.arguments(inputs, -1 if case.dim is None else case.dim, case.keepdim, dict(case.scalars))
        expected = op.expect(args)
        results = []
        seconds = []
        checks: list[Check] = []
        for turn, pattern in enumerate((0x5A, 0xA5)):
            own = not case.outs and turn == 0
            boards = [] if own else self._new_outs(case, args, pattern)
            tensors = [tensor for both in (*placed, *boards) for tensor in both]
            were = [_tensor_identity(tensor) for tensor in tensors]
            started = time.perf_counter()
            result = self._call(case, inputs, {} if own else {"out": _single_or_tuple([out for _, out in boards])})
            seconds.append(time.perf_counter() - started)
            if [_tensor_identity(tensor) for tensor in tensors] != were:
                raise AssertionError("a call must not change the tensors themselves")
            found = self._check_results(result, args, [out for _, out in boards])
            if self._in_words:
                expected.check(found)
            checks += _check_wrong(expected, found, "" if own else " in out")
            for name, (board, out), clean in zip(op.outputs, boards, self._new_outs(case, args, pattern), strict=False):
                # Copying out into clean memory must give this memory: nothing else has changed.
                clean[1].copy_(out)
                whose = name if len(op.outputs) > 1 else "out"
                checks.append(
                    (f"bytes around {whose}, or between its elements, have changed", _bits_differ(board, clean[0]))
                )
            results.append(found)
        if seconds[0] - seconds[1] > SLOW:
            self.found.compiled += 1
        again = "called twice, the same input gave other bits, or not all was written"
        checks += [(again, _bits_differ(*outs)) for outs in zip(*results, strict=True)]
        for name, (memory, _), were_bits in zip(op.inputs, placed, before, strict=True):
            if were_bits is not None:
                checks.append((f"{name}, or bytes around it, have changed", (bits(memory) != were_bits).any()))
        return checks + self._call_in_place(case, placed, expected)

    def _call_in_place(self, case: Case, placed: Sequence[Placed], expected: Expected) -> list[Check]:
        """Call with an input as ``out``, if the operation allows that; returns the checks."""
        op = self._operation
        (declared, *more) = op.outputs.values()
        if more or not declared.inplace or case.has_far_rows:
            return []
        place = list(op.inputs).index(declared.inplace)
        memory, x = placed[place]
        if x.is_neg() or overlaps_itself(x):
            return []
        inputs = [x for _, x in placed]
        board, clean = memory.clone(), memory.clone()
        inputs[place] = out = board.as_strided(x.shape, x.stride(), x.storage_offset())
        result = self._call(case, inputs, {"out": out})
        if result is not out:
            raise AssertionError("a call with out= returns out itself")
        if self._in_words:
            expected.check((out,))
        clean.as_strided(x.shape, x.stride(), x.storage_offset()).copy_(out)
        words = f"bytes around {declared.inplace} as out, or between its elements, have changed"
        return [*_check_wrong(expected, [out], f" with {declared.inplace} as out"), (words, _bits_differ(board, clean))]

    def _new_outs(self, case: Case, args: Arguments, pattern: int) -> list[Placed]:
        """Return memory for each output, filled with the byte ``pattern``, and the output in it."""
        shapes, dtypes = self._operation.out_shapes(args), self._operation.out_dtypes(args)
        layouts = case.outs or [Layout(dense_strides(shape)) for shape in shapes]
        return [
            placing.place_out(shape, layout, dtype, pattern, self._device)
            for shape, layout, dtype in zip(shapes, layouts, dtypes, strict=True)
        ]

    def _call(self, case: Case, inputs: Sequence[Any], arguments: dict[str, Any]) -> Any:
        """Call as a user does, with ``arguments`` in place of the case's. Raises _RaisedError for an illegal error."""
        try:
            return call_case(self._implementation, case, inputs, arguments)
        except (
            UnsupportedProblemError,
            BackendUnavailableError,
            UndecidableError,
            MemoryError,
            torch.OutOfMemoryError,
        ):
            raise
        except Exception as error:
            raise _RaisedError(f"raised {type(error).__name__}: {error}", error) from error

    def _expect_error(self, case: Case, inputs: Sequence[torch.Tensor], arguments: dict[str, Any], name: str) -> None:
        """Make a faulty call, which must raise the error ``name``. Raises AssertionError if it does not."""
        before = [bits(x).clone() for x in inputs]
        try:
            self._call(case, inputs, arguments)
        except (UnsupportedProblemError, _RaisedError) as error:
            raised = error.error if isinstance(error, _RaisedError) else error
            if type(raised) is not getattr(errors, name):
                raise AssertionError(f"must raise {name}, raised {type(raised).__name__}: {raised}") from error
        else:
            raise AssertionError(f"must raise {name}, and raised nothing")
        for input_name, x, were in zip(self._operation.inputs, inputs, before, strict=True):
            if not torch.equal(bits(x), were):
                raise AssertionError(f"raised {name}, and changed {input_name}")

    def _check_results(self, result: object, args: Arguments, outs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Check a call's result; returns it as a tuple. ``outs``: the outputs that the caller passed."""
        op = self._operation
        several = len(op.outputs) > 1
        found = result if several else (result,)
        if not isinstance(found, tuple) or len(found) != len(op.outputs):
            raise AssertionError(f"the result is {type(result).__name__}, must be a tuple of {len(op.outputs)} tensors")
        if outs and any(one is not out for one, out in zip(found, outs, strict=True)):
            raise AssertionError("a call with out= returns out itself")
        own, memory = not outs, {x.untyped_storage().data_ptr() for x in args.inputs}
        wanted = zip(op.outputs, found, op.out_shapes(args), op.out_dtypes(args), strict=True)
        for name, one, shape, dtype in wanted:
            what = f"the result {name}" if several else "the result"
            if not isinstance(one, torch.Tensor):
                raise AssertionError(f"{what} is {type(one).__name__}, must be a tensor")
            if words := why_unlike(one, shape, dtype, args.x.device):
                raise AssertionError(f"{what} {words}")
            if own and not one.is_contiguous():
                raise AssertionError(f"{what} must be contiguous, has strides {one.stride()}")
            if own and one.untyped_storage().data_ptr() in memory and one.numel():
                raise AssertionError(f"{what} shares memory with the input")
        return found


class _RaisedError(PicklableErrorMixin, Exception):
    """A call raised an error that its case does not allow."""

    def __init__(self, words: str, error: Exception) -> None:
        super().__init__(words)
        self.error = error


def _tensor_identity(x: torch.Tensor) -> tuple[object, ...]:
    """Return everything about a tensor except its values."""
    storage = x.untyped_storage()
    return type(x), x.dtype, x.shape, x.stride(), x.data_ptr(), storage.data_ptr(), storage.nbytes()


def _bits_differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a tensor of one bool: whether two tensors differ in any bit."""
    return (bits(a) != bits(b)).any()


def _check_wrong(expected: Expected, outs: Sequence[torch.Tensor], where: str) -> list[Check]:
    """Return a check for wrong elements of each output, without waiting for the device."""
    return [
        (f"{bounds.name}: {_WRONG}{where}", bounds.correct_elements(out).all().logical_not_())
        for bounds, out in zip(expected.outputs, outs, strict=True)
    ]


def _single_or_tuple(outs: Sequence[torch.Tensor]) -> Any:
    return outs[0] if len(outs) == 1 else tuple(outs)
