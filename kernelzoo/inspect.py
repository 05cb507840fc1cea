"""What an implementation really runs: its kernels, compiled for any listed architecture, with a GPU here or without.

Each language says how in a module ``inspection`` of its package, beside ``probe``: ``kernels(request)``. It runs in a
process of its own, where no device is visible and one is *described* instead: the real bind functions ask it for what
they always ask, choose the tiling that they would choose on it, compile for it, and launch into a list.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from kernelzoo import errors, ops, registry, tables
from kernelzoo.errors import (
    BackendUnavailableError,
    InputTypeError,
    InspectionError,
    KernelZooError,
    UnknownNameError,
)

if TYPE_CHECKING:
    import torch

KIB, MIB = 1024, 1024**2


@dataclass(frozen=True)
class Architecture:
    """A multiprocessor (SM, or compute unit) of one architecture, and the device of it that is assumed.

    Registers are 32 bits wide, memory is in bytes; all but the device's own are for one multiprocessor.
    """

    name: str
    device: str
    """The product that a launch table is told it runs on."""
    multiprocessors: int
    """Of that product."""
    l2_bytes: int
    """Of that product, as its driver reports it."""
    bandwidth: float
    """Of that product's memory by its data sheet, in bytes per second: more than any kernel reaches."""
    threads: int
    blocks: int
    shared_bytes: int
    shared_per_block: int
    """What one block may ask for."""
    registers: int = 65536
    registers_per_block: int = 65536
    """As the driver reports it."""
    register_unit: int = 256
    """Registers are given to a warp in multiples of this, out of its quarter of the registers."""
    shared_unit: int = 128
    """Shared memory is given to a block in multiples of this."""
    shared_reserved: int = 1024
    """Shared memory that the system takes for itself of each block."""
    warp_size: int = 32

    @property
    def is_nvidia(self) -> bool:
        return self.name.startswith("sm_")

    @property
    def capability(self) -> int:
        """Compute capability as one number, 90 for 9.0. NVIDIA only."""
        return int(self.name.removeprefix("sm_"))

    def __str__(self) -> str:
        return f"{self.device}, {self.multiprocessors} multiprocessors, {self.l2_bytes / MIB:g} MiB of L2"


# NVIDIA: the table of technical specifications per compute capability in the CUDA C++ programming guide; the same in
# cuda/__device/arch_traits.h of NVIDIA's CCCL; units from cuda_occupancy.h of the CUDA runtime. Devices: NVIDIA's data
# sheets; the H200's L2 as its driver reports it (seen), those of B200 and B300 as others have published them.
# AMD: the ISA documents of CDNA 2 to 4, and LLVM's AMDGPU back end (getTotalNumVGPRs, getMaxWavesPerEU,
# getVGPRAllocGranule): four SIMDs of 512 vector registers by 64 lanes, in eights; eight waves each. The driver reports
# half of those registers, and the L2 of one die.
_NVIDIA = (
    Architecture(
        "sm_75", "Tesla T4", 40, 4 * MIB, 320e9, 1024, 16, 64 * KIB, 64 * KIB, shared_unit=256, shared_reserved=0
    ),
    Architecture("sm_80", "NVIDIA A100 80 GB", 108, 40 * MIB, 2039e9, 2048, 32, 164 * KIB, 163 * KIB),
    Architecture("sm_86", "NVIDIA A10", 72, 6 * MIB, 600e9, 1536, 16, 100 * KIB, 99 * KIB),
    Architecture("sm_87", "NVIDIA Jetson AGX Orin 64 GB", 16, 4 * MIB, 204.8e9, 1536, 16, 164 * KIB, 163 * KIB),
    Architecture("sm_89", "NVIDIA L40S", 142, 96 * MIB, 864e9, 1536, 24, 100 * KIB, 99 * KIB),
    Architecture("sm_90", "NVIDIA H200", 132, 60 * MIB, 4.8e12, 2048, 32, 228 * KIB, 227 * KIB),
    Architecture("sm_100", "NVIDIA B200", 148, 132644864, 8e12, 2048, 32, 228 * KIB, 227 * KIB),
    Architecture("sm_103", "NVIDIA B300", 148, 132644864, 8e12, 2048, 32, 228 * KIB, 227 * KIB),
    Architecture("sm_120", "NVIDIA GeForce RTX 5090", 170, 96 * MIB, 1792e9, 1536, 24, 100 * KIB, 99 * KIB),
)
_CDNA = {"registers": 131072, "register_unit": 512, "shared_unit": 512, "shared_reserved": 0, "warp_size": 64}
_CDNA_4 = {**_CDNA, "shared_unit": 1280}
_AMD = (
    Architecture("gfx90a", "AMD Instinct MI250X, one die", 110, 8 * MIB, 1638e9, 2048, 32, 64 * KIB, 64 * KIB, **_CDNA),
    Architecture("gfx942", "AMD Instinct MI300X", 304, 4 * MIB, 5.3e12, 2048, 32, 64 * KIB, 64 * KIB, **_CDNA),
    Architecture("gfx950", "AMD Instinct MI350X", 256, 4 * MIB, 8e12, 2048, 32, 160 * KIB, 160 * KIB, **_CDNA_4),
)
ARCHITECTURES = {architecture.name: architecture for architecture in (*_NVIDIA, *_AMD)}

_PARTITIONS = 4
"""Parts of a multiprocessor that own a quarter of its registers each, on every architecture above."""


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of a kernel one multiprocessor holds at once."""

    blocks: int
    fraction: float
    """Of the threads that it may hold."""
    limited_by: tuple[str, ...]
    """What stands in the way of one block more: ``threads``, ``blocks``, ``registers``, ``shared memory``."""


def occupancy(architecture: Architecture, registers: int, threads: int, shared_bytes: int) -> Occupancy:
    """Occupancy of a kernel with so many registers a thread, threads a block, and bytes of shared memory a block.

    NVIDIA's own rule (cuda_occupancy.h), which is the driver's; 0 blocks if a single one is too much. Clusters and
    cooperative launches may leave fewer.
    """
    a = architecture
    warps = -(-threads // a.warp_size)
    warp_registers = _round_up(max(1, registers) * a.warp_size, a.register_unit)
    limits = {
        "threads": a.threads // (warps * a.warp_size),
        "blocks": a.blocks,
        "registers": a.registers // _PARTITIONS // warp_registers * _PARTITIONS // warps,
    }
    taken = _round_up(shared_bytes + a.shared_reserved, a.shared_unit)
    if taken:
        limits["shared memory"] = a.shared_bytes // taken if shared_bytes <= a.shared_per_block else 0
    blocks = min(limits.values())
    limited_by = tuple(what for what, limit in limits.items() if limit == blocks)
    return Occupancy(blocks, blocks * warps * a.warp_size / a.threads, limited_by)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


@dataclass(frozen=True)
class Kernel:
    """One kernel of a launch, in the order of their first launches. ``dataclasses.asdict`` makes JSON of it.

    Where a language has no such thing, a field is None: a step that torch's library runs (a fill, a copy) has a name
    alone, and a host's kernel has source and assembly.
    """

    name: str
    """As the source calls it, with its template's arguments if it is one."""
    language: str
    implementation: str
    """The id that launches it: of ``auto``, the sibling that it hands this problem to."""
    arch: str
    device: str
    """The device that is assumed, in words."""
    source: str | None = None
    source_file: str | None = None
    """``path:line``, the path from the folder that holds the package."""
    ptx: str | None = None
    sass: str | None = None
    """Machine code as text: SASS for NVIDIA, the ISA's assembly for AMD, the host's for a host."""
    sass_missing: str | None = None
    """Why there is no ``sass``."""
    registers: int | None = None
    """Per thread; vector registers for AMD."""
    local_bytes: int | None = None
    """Local memory (scratch for AMD) per thread. The kernels here keep no array in it: it is spilled registers."""
    shared_bytes: int | None = None
    """Per block, static and dynamic together."""
    grid: tuple[int, ...] | None = None
    """In blocks, as in CUDA, clusters or not."""
    block: tuple[int, ...] | None = None
    cluster: tuple[int, ...] | None = None
    """Blocks to a cluster, (1, 1, 1) without."""
    cooperative: bool = False
    """Whether all blocks must run at once."""
    launches: int = 1
    """How often the launch runs it, on this grid."""
    occupancy: Occupancy | None = None
    constants: dict[str, int | float | str | bool] = field(default_factory=dict)
    """What the launch table chose, by the source's own names."""


@dataclass(frozen=True)
class Step:
    """One launch as a described device received it; how the language knows its kernel is its own matter."""

    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...] = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    cooperative: bool = False


@dataclass(frozen=True)
class Request:
    """What an ``inspection`` module is asked: an implementation on a contiguous tensor, for an architecture."""

    backend: str
    op: str
    variant: str
    shape: tuple[int, ...]
    dtype: str
    dim: int
    arch: str

    @property
    def id(self) -> str:
        return f"{self.backend}/{self.op}/{self.variant}"

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.arch]

    def input(self, device: str) -> torch.Tensor:
        """The tensor to bind, on a device; on ``meta`` it has no memory."""
        import torch

        return torch.empty(self.shape, dtype=getattr(torch, self.dtype), device=device)

    def require_nvidia(self, language: str, least: int = 0) -> None:
        """Raise InspectionError unless the architecture is NVIDIA's, and of that compute capability at least."""
        can = [name for name, a in ARCHITECTURES.items() if a.is_nvidia and a.capability >= least]
        if self.arch not in can:
            raise InspectionError(f"{self.id} is {language}, which is not for {self.arch}; allowed: {', '.join(can)}")


def inspect(id: str, shape: tuple[int, ...], dtype: str, dim: int = -1, arch: str = "sm_90") -> tuple[Kernel, ...]:
    """The kernels that one call of an implementation launches for a contiguous tensor, compiled for ``arch``.

    arch: a name in ARCHITECTURES, whose device is assumed; a backend for the host compiles for this host instead, and
    says so. Needs the language's compiler and no GPU, and touches none.

    Raises UnknownNameError, InputTypeError, AxisError, EmptyReductionError, UnsupportedProblemError as a call does,
    BackendUnavailableError if the language is not installed, and InspectionError where there is nothing to show or its
    compiler fails.
    """
    implementation = registry.implementation(id)
    if arch not in ARCHITECTURES:
        raise UnknownNameError("architecture", arch, ARCHITECTURES)
    if dtype not in implementation.operation.dtypes:
        raise InputTypeError(f"{implementation.op} takes {', '.join(implementation.operation.dtypes)}; got {dtype!r}")
    request = Request(implementation.backend, implementation.op, implementation.variant, shape, dtype, dim, arch)
    (answer,) = ask([request])
    if isinstance(answer, KernelZooError):
        raise answer
    return answer


def ask(requests: list[Request]) -> list[tuple[Kernel, ...] | KernelZooError]:
    """Kernels or an error for each of several requests of one backend and one architecture, from one process.

    Raises BackendUnavailableError if its language can't be imported, and InspectionError if the backend has no module
    ``inspection`` or its process dies.
    """
    ((backend, _),) = {(request.backend, request.arch) for request in requests}  # a process keeps what it compiles
    id = requests[0].id
    package = registry._packages().get(backend)
    module = f"{package}.inspection"
    if package is None or importlib.util.find_spec(module) is None:
        raise InspectionError(f"{id} can't be inspected: backend {backend!r} has no module 'inspection' in its package")
    here = Path(__file__).parents[1]
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(here), os.environ.get("PYTHONPATH")))),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", module],  # -P: a file of the current folder's must not pass for a module
        input=json.dumps([asdict(request) for request in requests]),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        error: KernelZooError = InspectionError(f"{id} can't be inspected here: {last}")
        if last.startswith(("ImportError:", "ModuleNotFoundError:")):
            error = BackendUnavailableError(backend, last, "install what its row of the README's table names")
        error.add_note(done.stderr)
        raise error
    return [_received(answer) for answer in json.loads(done.stdout)]


def _received(answer: dict[str, Any]) -> tuple[Kernel, ...] | KernelZooError:
    if "error" not in answer:
        return tuple(map(_kernel, answer["kernels"]))
    kind: type[KernelZooError] = getattr(errors, answer["error"])
    error = kind.__new__(kind)
    Exception.__init__(error, answer["message"])
    error.__dict__.update(answer["attributes"])
    for note in answer["notes"]:
        error.add_note(note)
    return error


def _kernel(fields: dict[str, Any]) -> Kernel:
    found = fields.pop("occupancy")
    held = Occupancy(found["blocks"], found["fraction"], tuple(found["limited_by"])) if found is not None else None
    plain: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in fields.items()}
    return Kernel(**plain, occupancy=held)


def answer(kernels: Callable[[Request], tuple[Kernel, ...]]) -> None:
    """The process of an ``inspection`` module: requests from standard input, answers to standard output, as JSON."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a compiler prints is no answer
    answers: list[dict[str, Any]] = []
    for fields in json.load(sys.stdin):
        request = Request(**{**fields, "shape": tuple(fields["shape"])})
        try:
            answers.append({"kernels": [asdict(kernel) for kernel in kernels(request)]})
            continue
        except KernelZooError as raised:
            error = raised
        except Exception as raised:  # of the compiler, whose errors are of any type
            words = " ".join(str(raised).strip("\n\0").splitlines()[:2])  # a log may have hundreds of lines
            error = InspectionError(f"{request.id} fails for {request.arch}: {type(raised).__name__}: {words}")
            error.add_note(traceback.format_exc())
        answers.append(
            {
                "error": type(error).__name__,
                "message": str(error),
                "attributes": {name: value for name, value in vars(error).items() if name != "__notes__"},
                "notes": getattr(error, "__notes__", []),
            }
        )
    json.dump(answers, replies)
    replies.close()


@contextmanager
def described(architecture: Architecture) -> Iterator[None]:
    """Within the context torch speaks of the architecture's device as the current one, as far as a bind function asks.

    Kernel modules are to be imported within it: they may keep what torch gives them.
    """
    import torch

    a = architecture

    def stream(device: int) -> int:
        return 0

    properties = SimpleNamespace(
        name=a.device,
        multi_processor_count=a.multiprocessors,
        L2_cache_size=a.l2_bytes,
        max_threads_per_multi_processor=a.threads,
        regs_per_multiprocessor=a.registers_per_block,
        shared_memory_per_multiprocessor=a.shared_bytes,
        shared_memory_per_block_optin=a.shared_per_block,
        warp_size=a.warp_size,
    )
    if a.is_nvidia:
        properties.major, properties.minor = divmod(a.capability, 10)
    with ExitStack() as stack:
        for name, value in {
            "current_device": lambda: 0,
            "set_device": lambda device: None,
            "get_device_properties": lambda device=None: properties,
            "get_device_capability": lambda device=None: (properties.major, properties.minor),
        }.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        tables.forget_loaded()  # those in force are kept by a device's index
        stack.callback(tables.forget_loaded)
        stack.enter_context(mock.patch.object(torch._C, "_cuda_getCurrentRawStream", stream, create=True))
        yield


def launched(request: Request, steps: list[Any], sibling: str = "{}", device: str = "meta") -> str:
    """Bind a request's problem, launch it once, and return the id of the implementation that really launched.

    What torch itself runs in the launch is appended to ``steps`` as a Kernel, in its turn among what the described
    device appends. ``auto`` hands on to a sibling by calling a function of its module: ``sibling`` is that function's
    name, given the name of the variant's own. On the device ``meta`` tensors have no memory.
    """
    module = importlib.import_module(f"{registry._packages()[request.backend]}.{request.op}")
    binds = {
        variant: bind
        for (backend, op, variant), bind in registry._registered.items()
        if (backend, op) == (request.backend, request.op)
    }
    if request.variant not in binds:
        raise InspectionError(f"{request.id} is registered outside its backend's package; only those in it are shown")
    operation = ops.OPERATIONS[request.op]
    x = request.input(device)
    dims = operation.check(x, request.dim)
    out = operation.allocate(x, dims, keepdim=False)
    if not out.numel():
        raise InspectionError(f"{request.id} launches nothing for the empty shape {request.shape}; give one without 0")
    names = {sibling.format(bind.__name__): variant for variant, bind in binds.items() if variant != "auto"}
    picked: list[str] = []
    with ExitStack() as stack:
        if request.variant == "auto":
            stack.enter_context(_watching(module, names, picked))
        launch = operation.launch(binds[request.variant], x, dims, out)
    ran = f"{request.backend}/{request.op}/{picked[-1] if picked else request.variant}"
    with _torch_steps(lambda name: steps.append(Kernel(name, "torch", ran, request.arch, str(request.architecture)))):
        launch()
    return ran


@contextmanager
def _watching(module: Any, names: dict[str, str], picked: list[str]) -> Iterator[None]:
    """Within the context, what the outermost of the named functions returns makes its variant the one picked."""
    depth = 0

    def watched(function: Callable[..., Any], variant: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                result = function(*args, **options)
            finally:
                depth -= 1
            if not depth:
                picked.append(variant)
            return result

        return call

    with ExitStack() as stack:
        for name, variant in names.items():
            if hasattr(module, name):
                stack.enter_context(mock.patch.object(module, name, watched(getattr(module, name), variant)))
        yield


@contextmanager
def _torch_steps(record: Callable[[str], None]) -> Iterator[None]:
    """Within the context, the name of each operation that torch runs is recorded."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own base class
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> torch.Tensor:
            record(str(func))
            result: torch.Tensor = func(*args, **(kwargs or {}))
            return result

    with Recorder():  # type: ignore[no-untyped-call]
        yield


def counted(steps: list[Any]) -> Iterator[tuple[Any, int]]:
    """Each different step once, in the order of their first, with how many there are of it."""
    different: list[Any] = []
    for step in steps:
        if step not in different:
            different.append(step)
    return ((step, steps.count(step)) for step in different)


def plain(value: Any) -> int | float | str | bool:
    """A constant as JSON can hold it: a finite number as it is, a type by its name, infinity as ``"inf"``."""
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value)) else str(value)


def place(file: str | Path, line: int) -> str:
    """``path:line`` of a source, from the folder that holds its package where the package is ours."""
    path, here = Path(file), Path(__file__).parents[1]
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{line}"
