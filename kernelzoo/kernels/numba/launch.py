"""Launches of kernels written in Numba, on torch's stream. The bind plans, compiles and packs them once.

Numba's own ``kernel[grid, block, stream](tensors)`` asks each tensor for its array interface at every call. Here a
launch is one ``cuLaunchKernelEx``, see :mod:`kernelzoo.kernels.shared.driver`. bench/test_submit.py measures both.
Under a recording (:mod:`kernelzoo.launch`) nothing runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any, TypeVar

import torch

from kernelzoo import device as devices
from kernelzoo import tables
from kernelzoo.device import Device, is_batch_invariant, make_gpu_current, occupancy
from kernelzoo.errors import GridTooLargeError, UnsupportedProblemError
from kernelzoo.kernels.numba.source import Source, capability_pair, compiling, inspect_kernel, load_or_build, make_once
from kernelzoo.kernels.numba.tiling import RowView, Tiling, make_row_view
from kernelzoo.kernels.shared import driver, programs
from kernelzoo.kernels.shared.driver import LaunchShape, Parameters
from kernelzoo.launch import Bind, Launch, LaunchStep, Recording, recording
from kernelzoo.layout import cdiv

__all__ = ["BindView", "RowView", "Source", "Tiling", "bind_over_rows", "make_once", "plan_once"]
"""Names that every form's file imports."""

_STATIC = 2048
"""Bytes of shared memory that a kernel may declare statically, which are not available as dynamic shared memory."""


def has_clusters(device: Device) -> bool:
    """Whether the device has thread-block clusters: compute capability 9.0 or later."""
    return device.capability >= 90


def shared_bytes(device: Device) -> int:
    """Return how many bytes of dynamic shared memory a block can have, in addition to ``_STATIC`` bytes."""
    return device.shared_per_block - _STATIC


# --- Plans ----------------------------------------------------------------------------------------------------------

T = TypeVar("T")
BindView = Callable[..., Launch]
"""A function that takes canonical tensors of one layout, and returns a launch."""
Plan = Callable[..., BindView]
"""A function that decides how a form launches, from a view, launch-table knobs if any, and named scalars."""
KernelOf = Callable[[str, Tiling], Source]


def plan_once(knobs_class: type[Any] | None = None) -> Callable[[Plan], Bind]:
    """Turn a plan into a function from tensors to a launch. It calls the plan only once per layout of the tensors."""

    def decorate(plan: Plan) -> Bind:
        @wraps(plan)
        def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
            return cached_decision(plan, knobs_class, *tensors, **scalars)(*tensors)

        return bind

    return decorate


def chooser_by_layout(knobs_class: type[Any] | None = None) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Turn a function of a row view (and knobs) that names a form into one of tensors. It is called once per layout."""

    def decorate(decide: Callable[..., str]) -> Callable[..., str]:
        @wraps(decide)
        def choose(*tensors: torch.Tensor, **scalars: Any) -> str:
            return cached_decision(decide, knobs_class, *tensors)

        return choose

    return decorate


def cached_decision(rule: Callable[..., T], knobs_class: type[Any] | None, *tensors: torch.Tensor, **scalars: Any) -> T:
    """Return ``rule(view of the tensors, knobs if it has any, **scalars)``. Results are cached per layout."""
    *inputs, out = tensors
    device = devices.of(out)
    index = device.index
    knobs = () if knobs_class is None else (tables.of(knobs_class, index),)
    if recording.get() is not None or index < 0:
        return rule(make_row_view(device, *inputs, out=out), *knobs, **scalars)
    layout = [(tensor.stride(), tensor.data_ptr() % 16) for tensor in tensors]
    dtypes = inputs[0].dtype, out.dtype
    key = rule, knobs, index, dtypes, is_batch_invariant(), inputs[0].shape, *layout, *scalars.items()
    found: T | None = _decisions.get(key)
    if found is None:
        with compiling, make_gpu_current(index):
            found = _decisions.get(key)
            if found is None:
                if len(_decisions) >= MOST_DECISIONS:
                    _decisions.clear()
                found = _decisions[key] = rule(make_row_view(device, *inputs, out=out), *knobs, **scalars)
    return found


MOST_DECISIONS = 4096
"""The most cached decisions, of some hundred bytes each."""
_decisions: dict[tuple[object, ...], Any] = {}


# --- Kernels --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """A kernel for a device: loaded, or only recorded."""

    source: Source

    def count_resident_blocks(self, threads: int) -> int:
        """Return how many blocks of ``threads`` threads can be resident on the device at once."""
        raise NotImplementedError

    def bind_shape(self, shape: LaunchShape, integer_args: tuple[int, ...]) -> BindView:
        """Return a function of tensors that returns a launch. The kernel gets their addresses, then the integers."""
        raise NotImplementedError

    def bind(
        self, grid: int, *numbers: int, threads: int = 0, shared: int = 0, cluster: int = 1, cooperative: bool = False
    ) -> BindView:
        """Return a function of tensors that returns a launch of ``grid`` blocks. ``threads``: per block, by default as
        compiled. ``shared``: bytes of dynamic shared memory. ``cooperative``: whether blocks wait for each other."""
        return self.bind_shape(LaunchShape(grid, threads or self.source.threads, shared, cluster, cooperative), numbers)

    def bind_with_workspace(self, number_count: int, counter_count: int, *arguments: int, **options: Any) -> BindView:
        """Do the same as ``bind`` for a kernel that takes a workspace of numbers and zeroed counters before out."""
        bind_all = self.bind(*arguments, **options)
        *_, number, counter, _ = (getattr(torch, str(kind), None) for kind in self.source.pointees)

        def bind(*tensors: torch.Tensor) -> Launch:
            *inputs, out = tensors
            workspace = torch.empty(number_count, dtype=number, device=out.device)
            zeros = torch.zeros(counter_count, dtype=counter, device=out.device)
            return bind_all(*inputs, workspace, zeros, out)

        return bind


@dataclass(frozen=True)
class LoadedKernel(Kernel):
    """A kernel on a device that is present."""

    device: Device
    function: int
    """The driver's handle."""

    def count_resident_blocks(self, threads: int) -> int:
        """Return the number of SMs times the number of blocks that fit on an SM."""
        return driver.max_resident_blocks(self.function, threads, 0, self.device)

    def bind_shape(self, shape: LaunchShape, integer_args: tuple[int, ...]) -> BindView:
        """Pass tensors by address. The launch keeps the tensors alive."""
        driver.raise_launch_limits(self.function, shape)
        pointers, inputs = len(self.source.pointees), self.source.inputs
        # The words are the addresses of inputs and output, then those of the workspace, then the integers.
        starts = (*range(inputs), *range(inputs + 1, pointers), inputs, *range(pointers, pointers + len(integer_args)))

        def bind(*tensors: torch.Tensor) -> Launch:
            *canonical, out = *tensors[:inputs], tensors[-1]
            workspace = tensors[inputs:-1]
            words = *[0] * (inputs + 1), *(tensor.data_ptr() for tensor in workspace), *integer_args
            launched = self.function, shape, Parameters(words, starts)
            return programs.make_launch(*launched, (*canonical, out), workspace, self.device)

        return bind


@dataclass(frozen=True)
class RecordedKernel(Kernel):
    """A kernel that is not loaded. Its launches are recorded instead of run."""

    device: Device
    recording: Recording

    def count_resident_blocks(self, threads: int) -> int:
        """Return the number of resident blocks from the compiled kernel's occupancy, or 1 if nothing is compiled."""
        if not self.recording.can_compile:
            return 1
        taken = inspect_kernel(self.source, capability_pair(self.device))
        blocks = occupancy(self.device, taken.registers or 0, threads, taken.shared_bytes).blocks
        return self.device.multiprocessors * max(1, blocks)

    def bind_shape(self, shape: LaunchShape, integer_args: tuple[int, ...]) -> BindView:
        build = partial(inspect_kernel, self.source, capability_pair(self.device))
        how = shape.threads, shape.shared_bytes, shape.cluster, shape.cooperative, integer_args
        step = LaunchStep(self.source.name, (shape.grid,), *how, build if self.recording.can_compile else None)
        return lambda *tensors: self.recording.make_launch(step)


def prepare_kernel(source: Source, device: Device) -> Kernel:
    """Return a kernel for a device, compiled on first use and cached. Safe to call from several threads."""
    recorder = recording.get()
    if recorder is not None:
        return RecordedKernel(source, device, recorder)
    with compiling:
        return _load_kernel(source, device)


@cache
def _load_kernel(source: Source, device: Device) -> LoadedKernel:
    name, binary = load_or_build(source, capability_pair(device))
    return LoadedKernel(source, device, driver.load_function(binary, name, device.index))


def check_grid(id: str, blocks: int) -> int:
    """Return ``blocks``. Raises GridTooLargeError if a launch can't have so many."""
    if blocks > driver.MAX_GRID_X:
        raise GridTooLargeError(id, blocks, driver.MAX_GRID_X)
    return blocks


SPREAD_BLOCKS = 4
"""How many blocks per SM must remain if a thread processes several rows."""


def bind_over_rows(
    id: str, kernel: KernelOf, tiling: Tiling | None, v: RowView, spread: bool = False, resident: bool = False
) -> BindView:
    """Return a function of tensors that returns a launch of a kernel, with as many blocks as cover the rows.
    ``spread``: whether threads process fewer rows if blocks would be too few. ``resident``: whether to launch at most
    as many blocks as can be resident at once. Raises UnsupportedProblemError if ``tiling`` is None."""
    if tiling is None:
        raise UnsupportedProblemError(id, f"rows of {v.n} elements are more than registers hold")
    if spread:
        tiling = tiling.spread_over(v.planned, SPREAD_BLOCKS * v.device.multiprocessors)
    loaded, threads = prepare_kernel(kernel(v.dtype, tiling), v.device), tiling.count_lanes(v.n) * tiling.rows
    grid = cdiv(v.total, tiling.rows * tiling.stack)
    if resident:
        grid = min(grid, loaded.count_resident_blocks(threads))
    return loaded.bind(check_grid(id, grid), *v.kernel_args, threads=threads)
