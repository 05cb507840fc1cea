"""What a launch hands to Triton's own ``launch`` is what its launcher would hand on, where that is known."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from triton.backends.nvidia.driver import CudaLauncher

from kernelzoo.kernels.shared import jit
from kernelzoo.kernels.shared.jit import make_launcher_call
from kernelzoo.launch import RebindableLaunch, WorkspaceLaunch

PROBES = {
    "num_ctas": 1, "global_scratch_size": 0, "global_scratch_align": 1, "profile_scratch_size": 0,
    "profile_scratch_align": 1, "launch_cooperative_grid": True, "launch_pdl": False,
}  # fmt: skip
GIVEN = (33, 1, 1, 5, 7, (4, 1), None, None, None, 100, 200, 3)
"""What a launcher is called with: grid, stream 5, function 7, metadata, no hooks, two addresses and a number."""


def hands_on(self: Any, x: int, y: int, z: int, stream: int, function: int, *args: Any) -> None:
    """The order in which a launcher of Triton 3.6 hands on what it is given."""
    self.launch(x, y, z, stream, function, self.launch_cooperative_grid, self.launch_pdl, None, None, *args)


def refuses(self: Any, *args: Any) -> None:
    pytest.fail("the launcher's own work is what is to be spared")


def launcher(kind: type, **attributes: Any) -> tuple[Any, list[tuple[Any, ...]]]:
    """One that was not made by compiling a kernel, and what its launch has been given."""
    made, given = kind.__new__(kind), []
    for name, value in {**PROBES, **attributes, "launch": lambda *args: given.append(args)}.items():
        setattr(made, name, value)
    return made, given


def submit(run: Any) -> None:
    program = SimpleNamespace(run=run, function=7, packed_metadata=(4, 1))
    call, fixed, together = make_launcher_call(program)
    arguments = (100, 200, 3)
    call(33, 1, 1, 5, *fixed, *((arguments,) if together else arguments))


@pytest.mark.parametrize("before", [False, True])
def test_the_same_as_by_the_launcher(before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of this Triton, and of 3.6."""
    if before:
        monkeypatch.setattr(triton, "__version__", "3.6.0")
    elif not triton.__version__.startswith(("3.6.", "3.7.")):
        pytest.skip("of another Triton none is spared")
    signature = {} if triton.__version__.startswith("3.6.") else {"arg_annotations": ("a",), "kernel_signature": b"s"}
    run, given = launcher(type("CudaLauncher", (), {"__call__": hands_on}) if before else CudaLauncher, **signature)
    run(*GIVEN)
    monkeypatch.setattr(type(run), "__call__", refuses)
    submit(run)
    assert len(given) == 2 and given[0] == given[1]


@pytest.mark.parametrize(
    ("name", "version", "attributes"),
    [
        ("CudaLauncher", "3.6.0", {"global_scratch_size": 8}),
        ("CudaLauncher", "3.6.0", {"profile_scratch_size": 8}),
        ("CudaLauncher", "3.8.0", {}),
        ("HIPLauncher", "3.6.0", {}),
    ],
)
def test_any_other_launcher_is_called(name, version, attributes, monkeypatch) -> None:
    monkeypatch.setattr(triton, "__version__", version)
    called: list[tuple[Any, ...]] = []
    run, given = launcher(type(name, (), {"__call__": lambda self, *args: called.append(args)}), **attributes)
    submit(run)
    assert called == [GIVEN] and not given


def test_a_launch_hands_on_all_canonical_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "current_stream", lambda device: 5)
    given: list[tuple[Any, ...]] = []
    program = SimpleNamespace(run=lambda *args: given.append(args), function=7, packed_metadata=(4, 1))
    one, two, three, own = (torch.empty(4) for _ in range(4))
    for tensors, canonical in ((2, (one, two)), (3, (one, two, three))):
        for workspace in ((), (own,)):
            args = (*canonical, *workspace, 12)
            made = jit.launch_of(None, program, 33, args, tensors)
            assert isinstance(made, WorkspaceLaunch if workspace else RebindableLaunch)
            made()
            assert isinstance(made, RebindableLaunch) and len(made.tensors) == tensors
            made.at(*range(100, 100 + tensors))
            rest = [t.data_ptr() for t in workspace]
            addresses, moved = given
            assert addresses == (
                33, 1, 1, 5, 7, (4, 1), None, None, None, *(t.data_ptr() for t in canonical), *rest, 12,
            )  # fmt: skip
            assert moved == (33, 1, 1, 5, 7, (4, 1), None, None, None, *range(100, 100 + tensors), *rest, 12)
            given.clear()
