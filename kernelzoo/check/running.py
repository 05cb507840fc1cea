"""Runs a case through an implementation as a user's call would, and compares the result with the right one."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING

from kernelzoo.backend import get
from kernelzoo.check.bits import bits, poison_like
from kernelzoo.check.cases import Case
from kernelzoo.errors import ContractError
from kernelzoo.launch import Launch
from kernelzoo.operations.memory import overlap
from kernelzoo.packages import packages
from kernelzoo.registry import Implementation

if TYPE_CHECKING:
    import torch


def slow_to_bind(id: str) -> bool:
    """Whether an implementation takes seconds to bind a problem, as its backend's package says; if so it is checked on
    the core cases alone."""
    backend, _, variant = id.split("/")
    package = packages().get(backend)
    return package is not None and variant in getattr(importlib.import_module(package), "SLOW_TO_BIND", ())


def largest(implementation: Implementation) -> int:
    """Elements of the largest input to try: few in an interpreter or a simulator, many on a GPU."""
    backend = get(implementation.backend)
    if backend.devices[-1] == "cuda":
        return 2**27
    return 2**14 if backend.emulator else 2**23


def check(implementation: Implementation, case: Case, device: str) -> None:
    """Run one case through one implementation, as a user's call would; ContractError says what is wrong.

    Raises UnsupportedProblemError where the variant refuses the problem, NoRoomError where the machine can't hold it.
    """
    check_on(implementation, case, case.input(device))


def check_on(implementation: Implementation, case: Case, x: torch.Tensor) -> None:
    """The same for the case's input, made already."""
    import torch

    before = bits(x).clone()
    operation = implementation.operation
    method = getattr(get(implementation.backend), case.op)
    keepdim = {"keepdim": case.keepdim} if operation.reduces else {}
    call_on = partial(method, dim=case.dim, **keepdim, variant=implementation.variant)
    first = call_on(x)
    _check_input(x, before)
    try:
        operation.assert_close(first, x, case.dim, case.keepdim)
    except ContractError as error:
        raise _cause(error, implementation, case, x, first) from None
    if not first.is_contiguous():
        raise ContractError(f"the result must be contiguous, has strides {first.stride()}", "wrong kind of result")
    if first.numel() and overlap(first, x):
        raise ContractError("the result shares memory with the input", "wrong kind of result")
    if not first.numel():
        return
    # A launch runs again and again. A NaN poison would hide in a row that must be NaN, any other in a row that happens
    # to hold it: bits that differ from the first result's everywhere show every element that is not written.
    out = case.place(first) if case.place else torch.empty_like(first)
    launch = implementation.launch(x, dim=case.dim, out=out)
    right = bits(first)
    if case.place:  # an out of another layout may be written in another order, and so be rounded otherwise
        out.copy_(poison_like(first))
        _run(launch)
        operation.assert_close(out, x, case.dim, case.keepdim)
        right = bits(out).clone()
    for time in ("first", "second"):
        poison = poison_like(first)
        out.copy_(poison)
        _run(launch)
        if not torch.equal(bits(out), right):
            unwritten = (bits(out) != right) & (bits(out) == bits(poison))
            if bool(unwritten.any()):
                raise _unwritten(unwritten, first.shape, f"launched for the {time} time: ")
            raise ContractError(f"launched for the {time} time, the same input gave other bits", "not repeatable")
    # By now the layout is known, and a backend may take a shorter way on a GPU: other memory, the same bits.
    if x.is_cuda and not torch.equal(bits(call_on(case.input(str(x.device)))), bits(first)):
        raise ContractError("the same values elsewhere in memory gave other bits", "not repeatable")
    _check_input(x, before)


def _check_input(x: torch.Tensor, before: torch.Tensor) -> None:
    import torch

    if not torch.equal(bits(x), before):
        raise ContractError("the input was changed", "changes its input")


def _run(launch: Launch) -> None:
    result: object = launch()  # type: ignore[func-returns-value]  # which is what is checked here
    if result is not None:
        raise ContractError(
            f"a launch returns nothing, and writes its result into out; this one returned {type(result)}",
            "wrong kind of result",
        )


def _cause(
    error: ContractError, implementation: Implementation, case: Case, x: torch.Tensor, result: torch.Tensor
) -> ContractError:
    """Why a result is wrong, where that can be told: elements of out that no launch writes, over two different fills,
    or a launch that returns its result. Else the error itself."""
    import torch

    if error.place is None:
        return error
    out = torch.empty_like(result)
    kept = torch.ones(result.shape, dtype=torch.bool, device=result.device)
    try:
        launch = implementation.launch(x, dim=case.dim, out=out)
        for fill in (torch.zeros_like(result), poison_like(torch.zeros_like(result))):
            out.copy_(fill)
            _run(launch)
            kept &= (bits(out) == bits(fill)).view(kept.shape)
    except ContractError as cause:
        return cause
    except Exception:  # it ran once, and what it raises now is not what is told
        return error
    return _unwritten(kept, result.shape, "") if bool(kept.any()) else error


def _unwritten(kept: torch.Tensor, shape: torch.Size, words: str) -> ContractError:
    """The finding for elements that still hold what they held before."""
    import torch

    place = tuple(int(i) for i in torch.unravel_index(kept.flatten().view(torch.uint8).argmax(), shape))
    return ContractError(
        f"{words}not all was written: {int(kept.sum())} of {kept.numel()} elements of out still hold what they held "
        f"before; first at {place}",
        "leaves out unwritten",
        place=place,
    )
