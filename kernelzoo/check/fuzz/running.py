"""Runs the cases of fuzzing through an implementation, the way a user's call goes, and holds them to the contract.

Each case is called twice, over memory that holds something else. The results must be right to the operation's own
tolerance and the same to the bit; every byte around x and out, and between their elements, must stay as it was; what is
wrong with a call must raise its documented error, and nothing else may raise any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelzoo import errors
from kernelzoo.backend import get
from kernelzoo.check.cases import NoRoomError
from kernelzoo.check.fuzz import values
from kernelzoo.check.fuzz.case import FAULTS, Case, Layout, contiguous, span
from kernelzoo.check.fuzz.faulty import FAULTY
from kernelzoo.device import device_lives
from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError
from kernelzoo.operations import Expected
from kernelzoo.operations.memory import overlaps_itself
from kernelzoo.registry import Implementation

if TYPE_CHECKING:
    import torch

_GUARD = 256
"""Elements on either side of a tensor that must not be written, whole 16-byte vectors of any dtype."""

_BELOW = 2**31
"""Elements in front of a case that is far, for offsets that wrap around to a negative number."""

AT_ONCE = 32
"""Cases that are queued on a GPU before its results are read."""

SLOW = 0.02
"""Seconds that a first call takes longer than the second if something was compiled or loaded for it."""

Check = tuple[str, "torch.Tensor"]
"""What is wrong if the tensor, a bool on the device, is true."""


@dataclass
class Found:
    """The results of some cases."""

    right: int = 0
    """Cases with the right result, to the bit twice."""
    refused: int = 0
    """Cases that this variant refused, as it may, with UnsupportedProblemError."""
    faults: int = 0
    """Calls that were wrong, and got their documented error."""
    no_room: int = 0
    """Cases for which this machine has no memory."""
    compiled: int = 0
    """Calls that took SLOW longer the first time than the second."""
    wrong: list[tuple[int, str]] = field(default_factory=list)
    """The number of each case that failed, and why."""
    unavailable: str = ""
    """Why the implementation can't run here; nothing is counted then."""


def run(
    implementation: Implementation,
    cases: Sequence[Case],
    device: torch.device,
    *,
    one_by_one: bool = False,
    progress: Callable[[int, int], None] = lambda waiting, number: None,
) -> Found:
    """Run cases through one implementation.

    ``progress`` is told the number of the case that comes next, and of the first that the device may still be at work
    on. On a GPU that is another one, unless ``one_by_one``.
    """
    import torch

    runner = _Runner(implementation, device, in_words=len(cases) == 1)
    at_once = 1 if one_by_one or device.type == "cpu" else AT_ONCE
    waiting = 0
    try:
        for number, case in enumerate(cases):
            progress(waiting, number)
            runner.add(number, case)
            if runner.found.unavailable:
                break
            if number + 1 - waiting >= at_once or case.far:
                runner.settle()
                waiting = number + 1
            if case.far and device.type == "cuda":
                torch.cuda.empty_cache()  # gigabytes that other processes on the device may need
        runner.settle()
    except RuntimeError as error:  # a GPU tells of what a kernel did whenever it is next asked for anything
        runner.survives(str(error))
        raise
    return runner.found


class _Runner:
    def __init__(self, implementation: Implementation, device: torch.device, *, in_words: bool) -> None:
        """``in_words``: wait for the device after each call, and say which element is wrong."""
        import torch

        self.found = Found()
        self._implementation, self._device, self._in_words = implementation, device, in_words
        self._backend = get(implementation.backend)
        self._operation = implementation.operation
        self._generator = torch.Generator(device)
        self._pending: list[tuple[int, list[Check]]] = []

    def add(self, number: int, case: Case) -> None:
        """Start a case; what can be known without waiting for the device is counted at once."""
        import torch

        found = self.found
        try:
            checks = self._checks(case)
        except BackendUnavailableError as error:
            found.unavailable = str(error)
        except UnsupportedProblemError as error:
            if self._implementation.variant == "auto":
                found.wrong.append((number, f"auto takes every legal input, and refused this: {error.reason}"))
            else:
                found.refused += 1
        except (NoRoomError, MemoryError, torch.OutOfMemoryError):
            found.no_room += 1
        except AssertionError as error:
            found.wrong.append((number, str(error)))
        except _RaisedError as error:
            found.wrong.append((number, str(error)))
            self.settle()
            self.survives(str(error))
        else:
            if case.fault or not checks:
                found.faults += bool(case.fault)
                found.right += not case.fault
            else:
                self._pending.append((number, checks))

    def settle(self) -> None:
        """Wait for the device, and count what is pending."""
        import torch

        if not self._pending:
            return
        flags = torch.stack([wrong for _, checks in self._pending for _, wrong in checks]).tolist()
        for number, checks in self._pending:
            words = [words for (words, _), wrong in zip(checks, flags, strict=False) if wrong]
            flags = flags[len(checks) :]
            if words:
                self.found.wrong.append((number, "; ".join(words)))
            else:
                self.found.right += 1
        self._pending.clear()

    def survives(self, words: str) -> None:
        """Raise DeviceLostError if the device answers no more."""
        device_lives(self._device, self._implementation.id, words)

    def _checks(self, case: Case) -> list[Check]:
        import torch

        op = self._operation
        with torch.no_grad():
            memory, x = self._input(case)
        if case.fault:
            self._expect_error(case, x, FAULTY[case.fault](op.name, case, x), FAULTS[case.fault])
            return []
        if op.needs_element and any(case.shape[d] == 0 for d in case.axes if d < len(case.shape)):
            self._expect_error(case, x, {}, "EmptyReductionError")
            return []
        before = None if case.far else _bits(memory).clone()
        expected = op.expect(x, case.dim, case.keepdim)
        shape = tuple(expected.lower.shape)
        results = []
        seconds = []
        checks: list[Check] = []
        for turn, pattern in enumerate((0x5A, 0xA5)):
            own = case.out is None and turn == 0
            layout = case.out or Layout(contiguous(shape))
            board, out = (None, None) if own else self._output(shape, layout, x.dtype, pattern)
            tensors = [x, memory] if board is None or out is None else [x, memory, out, board]
            were = [_identity(tensor) for tensor in tensors]
            started = time.perf_counter()
            result = self._call(case, x, {} if own else {"out": out})
            seconds.append(time.perf_counter() - started)
            if [_identity(tensor) for tensor in tensors] != were:
                raise AssertionError("a call writes into out, and leaves the tensors themselves as they are")
            self._check_result(result, x, shape, out)
            if self._in_words:
                expected.check(result)
            checks.append((f"{op.name}: wrong elements{'' if own else ' in out'}", _wrong(expected, result)))
            if board is not None and out is not None:
                # out, copied onto an untouched board, must give this board: nothing else has changed.
                clean, place = self._output(shape, layout, x.dtype, pattern)
                place.copy_(out)
                checks.append(("bytes around out, or between its elements, have changed", _differ(board, clean)))
            results.append(result)
        if seconds[0] - seconds[1] > SLOW:
            self.found.compiled += 1
        checks.append(("called twice, the same input gave other bits, or not all was written", _differ(*results)))
        if before is not None:
            checks.append(("x, or bytes around it, have changed", (_bits(memory) != before).any()))
        return checks

    def _call(self, case: Case, x: Any, arguments: dict[str, Any]) -> Any:
        """Call as a user does. Raises _RaisedError for what no call of this kind may raise."""
        import torch

        named = {"dim": case.dim, "variant": self._implementation.variant, **arguments}
        if self._operation.reduces:
            named.setdefault("keepdim", case.keepdim)
        try:
            return getattr(self._backend, self._operation.name)(x, **named)
        except (UnsupportedProblemError, BackendUnavailableError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise _RaisedError(f"raised {type(error).__name__}: {error}", error) from error

    def _expect_error(self, case: Case, x: torch.Tensor, arguments: dict[str, Any], name: str) -> None:
        """Make a call with other arguments, which must raise that error and nothing else. Raises AssertionError."""
        import torch

        before = _bits(x.contiguous()).clone()
        try:
            self._call(case, arguments.pop("x", x), arguments)
        except (UnsupportedProblemError, _RaisedError) as error:
            raised = error.error if isinstance(error, _RaisedError) else error
            if type(raised) is not getattr(errors, name):
                raise AssertionError(f"must raise {name}, raised {type(raised).__name__}: {raised}") from error
        else:
            raise AssertionError(f"must raise {name}, and raised nothing")
        if not torch.equal(_bits(x.contiguous()), before):
            raise AssertionError(f"raised {name}, and changed x")

    def _input(self, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
        """Memory with x in it, and x. All else in it is NaN, or the least integer, so that reading it gives a wrong
        result.

        Raises NoRoomError.
        """
        import torch

        kind = getattr(torch, case.dtype)
        if case.far:
            return self._far_input(case)
        extent = span(case.shape, case.x.strides)
        memory = torch.empty(2 * _GUARD + case.x.offset + extent, dtype=kind, device=self._device)
        memory.fill_(math.nan if kind.is_floating_point else kind != torch.bool and torch.iinfo(kind).min)
        start = _GUARD + case.x.offset
        x = memory.as_strided(case.shape, case.x.strides, start)
        if not case.elements:
            return memory, x
        # Each element once: expanded axes have one, and windows that overlap are one stretch of memory.
        sizes = [size if stride else 1 for size, stride in zip(case.shape, case.x.strides, strict=True)]
        core = memory.as_strided(sizes, case.x.strides, start)
        if overlaps_itself(core):
            core = memory[start : start + extent]
        core.copy_(self._values(case, tuple(core.shape)))
        return memory, torch._neg_view(x) if case.negated else x

    def _far_input(self, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows too far apart for 32 bits, and decoys where their offsets wrap around to; the rest is never touched."""
        import torch

        kind = getattr(torch, case.dtype)
        extent = span(case.shape, case.x.strides)
        try:
            memory = torch.empty(_BELOW + extent + _GUARD, dtype=kind, device=self._device)
        except RuntimeError as error:
            raise NoRoomError(str(error)) from error
        rows, width = case.shape
        for row in range(rows):
            wrapped = (row * case.x.strides[0] + _BELOW) % 2**32
            memory[wrapped : wrapped + width] = -128
        x = memory.as_strided(case.shape, case.x.strides, _BELOW)
        x.copy_(self._values(case, case.shape))
        return memory, x

    def _values(self, case: Case, shape: tuple[int, ...]) -> torch.Tensor:
        self._generator.manual_seed(case.seed)
        drawn = values.draw(case.values, shape, case.dtype, self._generator)
        if case.specials:
            drawn = drawn.contiguous()
            flat = _bits(drawn.view(-1))
            for name, place in case.specials:
                flat[place % flat.numel()] = values.special(name, case.dtype)
        return drawn

    def _output(
        self, shape: tuple[int, ...], layout: Layout, dtype: torch.dtype, pattern: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """A board of one pattern, and an out of that layout in the middle of it."""
        import torch

        extent = span(shape, layout.strides)
        board = torch.empty(2 * _GUARD + layout.offset + extent, dtype=dtype, device=self._device)
        if dtype == torch.bool:
            board.fill_(pattern == 0x5A)
        else:
            board.view(torch.uint8).fill_(pattern)
        return board, board.as_strided(shape, layout.strides, _GUARD + layout.offset)

    def _check_result(self, result: object, x: torch.Tensor, shape: tuple[int, ...], out: torch.Tensor | None) -> None:
        import torch

        if out is not None and result is not out:
            raise AssertionError("a call with out= returns out itself")
        if not isinstance(result, torch.Tensor):
            raise AssertionError(f"the result is {type(result).__name__}, must be a tensor")
        told = {"shape": tuple(result.shape), "dtype": result.dtype, "device": result.device}
        for what, want in {"shape": shape, "dtype": x.dtype, "device": x.device}.items():
            if told[what] != want:
                raise AssertionError(f"the result has {what} {told[what]}, must have {want}")
        if out is None and not result.is_contiguous():
            raise AssertionError(f"the result must be contiguous, has strides {result.stride()}")
        if out is None and result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and result.numel():
            raise AssertionError("the result shares memory with the input")


class _RaisedError(Exception):
    """A call raised what it may not, for all that is known of it."""

    def __init__(self, words: str, error: Exception) -> None:
        super().__init__(words)
        self.error = error


def _identity(x: torch.Tensor) -> tuple[object, ...]:
    """What a tensor is, apart from its values."""
    storage = x.untyped_storage()
    return type(x), x.dtype, x.shape, x.stride(), x.data_ptr(), storage.data_ptr(), storage.nbytes()


def _bits(x: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's elements as integers, in the same memory."""
    import torch

    if x.dtype == torch.bool:
        return x.view(torch.uint8)
    return x.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def _differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Whether two tensors differ in a bit."""
    return (_bits(a.contiguous()) != _bits(b.contiguous())).any()


def _wrong(expected: Expected, actual: torch.Tensor) -> torch.Tensor:
    """Whether an element is wrong: as ``expected.check`` says it in words, without waiting for the device."""
    right = (actual >= expected.lower).logical_and_(actual <= expected.upper)
    return (right.logical_or_((actual != actual).logical_and_(expected.lower != expected.lower))).all().logical_not_()
