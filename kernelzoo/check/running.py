"""Running a case through an implementation, as a user's call would, and holding the result to the operation's
tolerance."""

from __future__ import annotations

import importlib
from functools import partial

from kernelzoo.backend import get
from kernelzoo.check.bits import bits, poison_like
from kernelzoo.check.cases import Case
from kernelzoo.operations.memory import overlap
from kernelzoo.packages import packages
from kernelzoo.registry import Implementation


def slow_to_bind(id: str) -> bool:
    """Whether an implementation takes seconds to bind each problem, as its backend's package says: it is checked on the
    core cases alone."""
    backend, _, variant = id.split("/")
    package = packages().get(backend)
    return package is not None and variant in getattr(importlib.import_module(package), "SLOW_TO_BIND", ())


def largest(implementation: Implementation) -> int:
    """Elements of the largest input to try: few where kernels are interpreted or simulated, many on a GPU."""
    backend = get(implementation.backend)
    if backend.devices[-1] == "cuda":
        return 2**27
    return 2**14 if backend.emulator else 2**23


def check(implementation: Implementation, case: Case, device: str) -> None:
    """Run one case through one implementation, as a user's call would; AssertionError says what is wrong.

    Raises UnsupportedProblemError where the variant refuses the problem, NoRoomError where the machine can't hold it.
    """
    import torch

    x = case.input(device)
    before = bits(x).clone()
    operation = implementation.operation
    method = getattr(get(implementation.backend), case.op)
    keepdim = {"keepdim": case.keepdim} if operation.reduces else {}
    call_on = partial(method, dim=case.dim, **keepdim, variant=implementation.variant)
    call = partial(call_on, x)
    first = call()
    operation.assert_close(first, x, case.dim, case.keepdim)
    if not first.is_contiguous():
        raise AssertionError(f"the result must be contiguous, has strides {first.stride()}")
    if first.numel() and overlap(first, x):
        raise AssertionError("the result shares memory with the input")
    if not first.numel():
        return
    # A launch runs again and again. A NaN poison would hide in a row that must be NaN, any other in a row that happens
    # to hold it: bits that differ from the first result's everywhere show every element that is not written.
    out = case.place(first) if case.place else torch.empty_like(first)
    launch = implementation.launch(x, dim=case.dim, out=out)
    expected = bits(first)
    if case.place:  # for an out of another layout there may be another way, which rounds in its own order
        out.copy_(poison_like(first))
        launch()
        operation.assert_close(out, x, case.dim, case.keepdim)
        expected = bits(out).clone()
    for time in ("first", "second"):
        out.copy_(poison_like(first))
        launch()
        if not torch.equal(bits(out), expected):
            raise AssertionError(
                f"launched for the {time} time, the same input gave other bits, or not all was written"
            )
    # By now the layout is known, and a backend may take a shorter way on a GPU: other memory, the same bits.
    if x.is_cuda and not torch.equal(bits(call_on(case.input(device))), bits(first)):
        raise AssertionError("the same values elsewhere in memory gave other bits")
    if not torch.equal(bits(x), before):
        raise AssertionError("the input was changed")
