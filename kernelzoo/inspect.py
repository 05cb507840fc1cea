"""The kernels of an implementation, compiled for any listed architecture, with or without a GPU.

Another process, which sees no GPU, works on a *simulated* device (:func:`kernelzoo.device.plan_launches_for_device`).
Bind functions plan for that device, and *record* the launch's steps (:class:`kernelzoo.launch.Recording`), each of
which can be compiled. A language's module ``inspection`` says what it can't compile (``refusal``), and sets up the
compiler (``target``). A user's kernel can't record its steps. Its launch is *followed*: it runs on tensors without
memory, while each language's launch function is replaced (``record_user_launches`` in a module ``watching``).
"""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernelzoo import children, errors, operations, registry, tables
from kernelzoo.device import ARCHITECTURES, Device, Occupancy, occupancy, plan_launches_for_device
from kernelzoo.errors import (
    BackendUnavailableError,
    GridTooLargeError,
    InputTypeError,
    InspectionError,
    KernelZooError,
    ShapeError,
    UnknownNameError,
)
from kernelzoo.kernels.shared import cubin
from kernelzoo.launch import Compiled, Launch, LaunchStep, record_binds
from kernelzoo.lazy import torch
from kernelzoo.operations.canonical import split_in_two
from kernelzoo.operations.known import register_signature
from kernelzoo.packages import BUILT_IN, backend_packages, files, how_to_install


@dataclass(frozen=True)
class Kernel:
    """One kernel of a launch. Kernels are in the order of first launches. ``dataclasses.asdict`` makes JSON of one.

    A field is None where the language has no such thing. A step of torch's library (a fill, a copy) has only a name. A
    host kernel has source and assembly.
    """

    name: str
    """The name in the source, with template arguments if any."""
    language: str
    implementation: str
    """The id of the implementation that launches it; for ``auto``, that of the variant that it chooses."""
    arch: str
    device: str
    """The simulated device's name."""
    source: str | None = None
    source_file: str | None = None
    """``path:line``, with the path from the package's parent folder."""
    ptx: str | None = None
    sass: str | None = None
    """Machine code as text: SASS for NVIDIA, the ISA's assembly for AMD, the host's for a host."""
    sass_missing: str | None = None
    """The reason why there is no ``sass``."""
    registers: int | None = None
    """Registers per thread; vector registers for AMD."""
    local_bytes: int | None = None
    """Bytes of local memory (scratch for AMD) per thread. Kernels here have no local arrays, so these are spills."""
    shared_bytes: int | None = None
    """Shared memory per block, static and dynamic."""
    grid: tuple[int, ...] | None = None
    """The number of blocks along each axis, with or without clusters."""
    block: tuple[int, ...] | None = None
    cluster: tuple[int, ...] | None = None
    """The number of blocks of a cluster along each axis; (1, 1, 1) without clusters."""
    cooperative: bool = False
    """Whether all blocks must run at once."""
    launches: int = 1
    """How many times the launch runs this kernel with this grid."""
    occupancy: Occupancy | None = None
    constants: dict[str, int | float | str | bool] = field(default_factory=dict)
    """The launch table's numbers, by their names in the source."""
    stages: dict[str, str] = field(default_factory=dict)
    """The code of Triton's stages before PTX, in order: ``ttir``, ``ttgir`` and ``llir``."""


@dataclass(frozen=True)
class Request:
    """A request to an ``inspection`` module: an implementation, contiguous inputs, an architecture."""

    backend: str
    op: str
    variant: str
    shape: tuple[int, ...]
    dtype: str
    dim: int
    arch: str
    sizes: tuple[tuple[str, int], ...] = ()
    """Sizes of axes that the first input does not have."""

    @property
    def id(self) -> str:
        return f"{self.backend}/{self.op}/{self.variant}"

    @property
    def device(self) -> Device:
        return ARCHITECTURES[self.arch]

    def arguments(self, device: str) -> operations.Arguments:
        """Return the arguments to bind, on a device; on ``meta`` they have no memory."""
        op = operations.OPERATIONS[self.op]
        found = op.meta_arguments(self.shape, self.dtype, self.dim, dict(self.sizes))
        return op.arguments(op.allocate_arbitrary_inputs(found, device), self.dim)


def inspect(
    id: str,
    shape: tuple[int, ...],
    dtype: str,
    dim: int = -1,
    arch: str = "sm_90",
    *,
    modules: Sequence[str | Path] = (),
    sizes: Mapping[str, int] | None = None,
) -> tuple[Kernel, ...]:
    """Return the kernels that one call of an implementation launches for contiguous tensors, compiled for ``arch``.

    ``shape`` and ``dtype`` are those of the first input; ``dtype`` may be abbreviated (fp16, bf16). ``sizes``: those of
    axes that the first input lacks. ``modules``: files that register your own kernels, as for ``--module``. The
    compiling process **runs them**. The shipped launch tables are used. ``arch`` is a name in ARCHITECTURES, whose
    device is simulated. A host backend compiles for this host, and each kernel's ``device`` says so. No GPU is used or
    needed.

    >>> from kernelzoo.inspect import inspect
    >>> for kernel in inspect("triton/softmax/fused", (4096, 4096), "fp16", arch="sm_90"):
    ...     print(kernel.name, kernel.registers, kernel.occupancy)  # doctest: +SKIP

    Raises UnknownNameError, InputTypeError, ShapeError, AxisError, EmptyReductionError, UnsupportedProblemError as a
    call does. Raises BackendUnavailableError if the language is missing, and InspectionError if there is nothing to
    show, a launch can't be followed, or the compiler fails.
    """
    if arch not in ARCHITECTURES:
        raise UnknownNameError("architecture", arch, ARCHITECTURES)
    backend, op, variant = (*id.split("/"), "", "")[:3]
    axes = tuple((sizes or {}).items())
    request = Request(backend, op, variant, tuple(shape), operations.expand_dtype_name(dtype), dim, arch, axes)
    if not modules:  # modules may register other ids
        check_request(request)
        if not files(id.removesuffix(registry.BATCH_INVARIANT)):
            raise InspectionError(
                f"{id} is registered in this process alone, and another one compiles it: name the file that registers "
                "it with --module, or modules=[...]"
            )
    (answer,) = ask_child([request], modules)
    if isinstance(answer, KernelZooError):
        raise answer
    return answer


def find_registered_ids(modules: Sequence[str | Path]) -> dict[str, str]:
    """Return the ids that your files register, each with its file. Also declare the files' operations in this process.

    Another process runs the files. Raises InspectionError if one fails there.
    """
    told = _ask_inspecting_process("the module", modules, [])
    for one in told["operations"]:
        register_signature(one)
    found: dict[str, str] = told["files"]
    return found


def ask_child(requests: list[Request], modules: Sequence[str | Path] = ()) -> list[tuple[Kernel, ...] | KernelZooError]:
    """Return the kernels, or an error, for each request. All must have one backend and architecture.

    One process compiles them all. Raises BackendUnavailableError if the language can't be imported, and InspectionError
    if a file of ``modules`` fails or the process dies.
    """
    ((backend, _),) = {(request.backend, request.arch) for request in requests}  # a process caches compiled kernels
    told = _ask_inspecting_process(requests[0].id, modules, requests, backend)
    return [_as_error(one) if "error" in one else tuple(map(_as_kernel, one["kernels"])) for one in told["answers"]]


def _ask_inspecting_process(
    subject: str, modules: Sequence[str | Path], requests: Sequence[Request], backend: str = ""
) -> dict[str, Any]:
    known = [importlib.import_module(backend_packages()[name]) for name in {*BUILT_IN, backend} & {*backend_packages()}]
    environment = {
        **children.child_env(package_first=True),
        **{key: value for package in known for key, value in getattr(package, "COMPILES_WITH", {}).items()},
        "CUDA_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
        tables.ENVIRONMENT: "shipped",
    }
    asked = {"modules": [str(path) for path in modules], "requests": [asdict(request) for request in requests]}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kernelzoo.inspecting"],  # -P: imports no file of the current folder
        input=json.dumps(asked),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        error: KernelZooError = InspectionError(f"{subject} can't be inspected here: {last}")
        if last.startswith(("ImportError:", "ModuleNotFoundError:")):
            error = BackendUnavailableError(backend, last, how_to_install(backend))
        error.add_note(done.stderr)
        raise error
    told: dict[str, Any] = json.loads(done.stdout)
    if "error" in told:
        raise _as_error(told)
    return told


def _as_error(answer: dict[str, Any]) -> KernelZooError:
    kind: type[KernelZooError] = getattr(errors, answer["error"], InspectionError)
    error = kind.__new__(kind)
    Exception.__init__(error, answer["message"])
    error.__dict__.update(answer["attributes"])
    for note in answer["notes"]:
        error.add_note(note)
    return error


def _as_kernel(fields: dict[str, Any]) -> Kernel:
    found = fields.pop("occupancy")
    held = Occupancy(found["blocks"], found["fraction"], tuple(found["limited_by"])) if found is not None else None
    plain: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in fields.items()}
    return Kernel(**plain, occupancy=held)


@contextmanager
def simulate_device(backend: str, device: Device) -> Iterator[None]:
    """A context in which this thread binds and compiles a backend's kernels for a simulated device.

    The backend's kernels are imported, but it is not probed. Raises BackendUnavailableError without the language.
    """
    package = backend_packages()[backend]
    inspection = importlib.import_module(f"{package}.inspection")
    registry.import_kernels(backend, package)
    with inspection.target(device), plan_launches_for_device(device):
        yield


def check_request(request: Request) -> None:
    """Raise UnknownNameError, InputTypeError or ShapeError for a request that the operation does not take."""
    operation = registry.implementation(request.id).operation
    if request.dtype not in operation.dtypes:
        raise InputTypeError(f"{request.op} takes {', '.join(operation.dtypes)}; got {request.dtype!r}")
    given, axes = dict(request.sizes), operation.axes[0]
    if {*given} != {*operation.extra_axes} or not (operation.by_rows or len(axes) == len(request.shape)):
        wanted = f"a shape ({', '.join(axes)})" + "".join(f" and a size of {axis}" for axis in operation.extra_axes)
        raise ShapeError(f"{request.op} takes {wanted}; got {request.shape} and {given or 'no sizes'}")


def record_kernels(request: Request, input_device: str, simulation: AbstractContextManager[None]) -> tuple[Kernel, ...]:
    """Bind and run a launch within ``simulation``, a context, on inputs on ``input_device``. Return its kernels."""
    operation, implementation = operations.OPERATIONS[request.op], registry.implementation(request.id)
    ran = request.id

    def bind(*tensors: torch.Tensor, **scalars: Any) -> Launch:
        nonlocal ran
        form = registry.choose_variant(request.backend, request.op, implementation.registered, *tensors, **scalars)
        ran = f"{request.backend}/{request.op}/{form}"
        registered = partial(registry._registered[request.backend, request.op, form], **scalars)
        try:
            return registry.make_bound_launch(ran, registered, *tensors)
        except GridTooLargeError:
            if not operation.by_rows:
                raise
            return split_in_two(registered, tensors, operation.axes)

    with simulation, record_binds(can_compile=True) as steps:
        args = request.arguments(input_device)
        outs = operation.allocate(args)
        if not any(out.numel() for out in outs):
            raise InspectionError(
                f"{request.id} launches nothing for the empty shape {request.shape}; give one without 0"
            )
        invariant = partial(operation.make_batch_invariant_launch, request.id)
        made = invariant if implementation.batch_invariant else operation.make_launch
        launch = made(bind, args, outs)
        steps.clear()  # the bind's own steps are no part of the launch
        with _record_torch_operations(lambda name: steps.append(name)):
            launch()
        if not steps:
            raise InspectionError(f"{request.id} launches nothing that can be followed: it may call a library")
        return tuple(_kernel_from_step(step, count, ran, request) for step, count in _distinct_steps(steps))


def _kernel_from_step(step: Any, launches: int, impl: str, request: Request) -> Kernel:
    device = request.device
    if isinstance(step, str):  # a torch operation
        return Kernel(step, "torch", impl, request.arch, str(device), launches=launches)
    made: Compiled = step.build()
    sass, missing = made.assembly, None
    if sass is None:
        functions, missing = cubin.disassembly(made.binary)
        sass = functions.get(made.symbol)
    path, here = Path(made.file), Path(__file__).parents[1]
    plain = Kernel(
        made.name,
        made.language,
        impl,
        *made.host,
        made.source,
        f"{path.relative_to(here) if path.is_relative_to(here) else path}:{made.line}",
        sass=sass,
        launches=launches,
        constants={name: _json_constant(value) for name, value in made.constants.items()},
    )
    if made.registers is None:  # a host kernel
        return plain
    shared = made.shared_bytes + step.shared_bytes
    return replace(
        plain,
        arch=device.arch,
        device=str(device),
        ptx=made.ptx,
        stages=made.stages,
        sass_missing=missing,
        registers=made.registers,
        local_bytes=made.local_bytes,
        shared_bytes=shared,
        grid=(*step.grid, 1, 1)[:3],
        block=(*(step.block or (step.threads,)), 1, 1)[:3],
        cluster=(step.cluster, 1, 1),
        cooperative=step.cooperative,
        occupancy=occupancy(device, made.registers, step.threads, shared),
    )


@contextmanager
def _record_torch_operations(add_name: Callable[[str], None]) -> Iterator[None]:
    """A context that calls ``add_name`` with the name of each operation that torch runs."""
    from kernelzoo.torch_private import dispatch_mode_class

    class Recorder(dispatch_mode_class()):  # type: ignore[misc]  # torch's own base class
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> torch.Tensor:
            if not (getattr(func, "is_view", False) or "empty" in str(func)):  # these run nothing
                add_name(str(func))
            result: torch.Tensor = func(*args, **(kwargs or {}))
            return result

    with Recorder():
        yield


def _distinct_steps(steps: list[Any]) -> Iterator[tuple[Any, int]]:
    """Return each distinct step once, in order, with its count. Arguments are not compared."""
    alike = [replace(step, arguments=()) if isinstance(step, LaunchStep) else step for step in steps]
    return ((step, alike.count(step)) for i, step in enumerate(alike) if step not in alike[:i])


def _json_constant(value: Any) -> int | float | str | bool:
    """Return a constant for JSON: a finite number as it is, a type by its name, infinity as ``"inf"``."""
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value)) else str(value)
