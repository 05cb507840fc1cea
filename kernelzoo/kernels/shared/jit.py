"""Binds kernels of Triton and Gluon: arguments, compiling, launching and recording.

Both languages have the same compiler, cache and launcher.
"""

import functools
import math
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo import device as devices
from kernelzoo.device import KIB, MIB, Device, on_device_of
from kernelzoo.errors import GridTooLargeError
from kernelzoo.kernels.shared import code_cache, cubin, triton_key
from kernelzoo.kernels.shared.shown import describe_source
from kernelzoo.launch import Compiled, Launch, LaunchStep, RebindableLaunch, Recording, WorkspaceLaunch, recording
from kernelzoo.layout import Columns, Rows, Strides
from kernelzoo.torch_private import current_stream

MAX_PROGRAMS = 2**31 - 1
"""The largest one-dimensional grid of either vendor."""

# --- The device ------------------------------------------------------------------------------------------------------

INTERPRETED: bool = triton.knobs.runtime.interpret
"""Whether Triton interprets kernels. The value is stored, because the knob reads the environment at each access."""

INTERPRETER = Device(
    arch="",
    name="Triton's interpreter",
    multiprocessors=2,  # few, so that a persistent program loops over several rows even of a small problem
    l2_bytes=MIB,
    bandwidth=0.0,
    threads=2048,
    blocks=32,
    shared_bytes=228 * KIB,
    shared_per_block=227 * KIB,
)

CDNA = ("gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
"""AMD architectures that also have accumulation registers: twice the vector registers that the driver reports."""


def device_of(x: torch.Tensor) -> Device:
    """Return the device that a kernel on x would run on, or a stand-in for Triton's interpreter."""
    return INTERPRETER if INTERPRETED else devices.of(x)


@functools.cache
def resident(device: Device, registers: int, warps: int, shared_bytes: int) -> int:
    """Return how many programs can be resident on one multiprocessor, at least one, to size a persistent grid.

    registers (per thread), warps and shared_bytes describe the compiled program. The rule is from Triton's tutorial on
    the fused softmax (python/tutorials/02-fused-softmax.py)."""
    registers = max(1, registers)
    if device.vendor == "hip":
        total = device.registers_per_block * (2 if device.arch in CDNA else 1)
        waves = min(total // device.warp_size // registers, device.threads // device.warp_size)
        return max(1, waves // warps)
    programs = device.registers_per_block // (registers * device.warp_size * warps)
    if shared_bytes:
        programs = min(programs, device.shared_per_block // shared_bytes)
    return max(1, programs)


# --- Arguments -------------------------------------------------------------------------------------------------------
#
# A stride that has no effect gets a value that Triton specialises on: 1 folds away, and 0 keeps the common alignment.
# So fewer kernels are compiled.


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the accumulator dtype: float32 for half precision, int32 for narrow integers, else ``dtype`` itself."""
    if dtype.itemsize >= 4:
        return dtype
    return torch.float32 if dtype.is_floating_point else torch.int32


def wide_type(dtype: torch.dtype) -> tl.dtype:
    """Return ``wide_dtype`` as a type of Triton's language."""
    return getattr(tl, str(wide_dtype(dtype)).removeprefix("torch."))


def row_arguments(rows: Rows, *others: Strides) -> tuple[int, ...]:
    """Return a kernel's arguments for the layout of rows. Some are divided by the argument MULTIPLE, called m.

    They are rows, n / m, inner, x_outer / m, x_n, x_inner / m, out_outer / m, out_n, out_inner / m, m. A reduction's
    output strides are not divided. Then follow outer / m, n, inner / m of each other tensor with n elements per row.

    m is the largest power of two, up to 8, that divides the row length and all row offsets. If 16 does, m is 1. Triton
    only tests whether an integer is a multiple of 16. So without m, a row of 1000 floats would be loaded one by one."""
    m = rows.offset_gcd(*others)
    m = m if m < 16 else 1
    divisor = m if rows.out_n else 1
    x = rows.total, rows.n // m, rows.inner, rows.x_outer // m, rows.x_n, rows.x_inner // m
    rest = [stride for other in others for stride in (other.outer // m, other.n, other.inner // m)]
    return *x, rows.out_outer // divisor, rows.out_n, rows.out_inner // divisor, m, *rest


def column_arguments(columns: Columns, *others: Strides) -> tuple[int, ...]:
    """Return a kernel's arguments for the layout of columns. Some are divided by the argument MULTIPLE, called m.

    They are outer, n, inner / m, x_outer / m, x_n / m, x_inner, out_outer / m, out_n / m, out_inner, m. A reduction's
    output strides are not divided. Then follow outer / m, n / m, inner of each other tensor with n elements per column.
    """
    m = math.gcd(columns.stride_gcd, *(stride for other in others for stride in (other.outer, other.n)))
    divisor = m if columns.out_n else 1
    x = columns.outer, columns.n, columns.inner // m, columns.x_outer // m, columns.x_n // m, columns.x_inner
    rest = [stride for other in others for stride in (other.outer // m, other.n // m, other.inner)]
    return *x, columns.out_outer // divisor, columns.out_n // divisor, columns.out_inner, m, *rest


def to_column_strides(rows: Rows, strides: Strides) -> Strides:
    """Convert another tensor's strides from strided rows (``Rows.is_strided``) to columns."""
    return strides if rows.inner > 1 else strides._replace(outer=0, inner=strides.outer)


def edge_vector_size(rows: Rows, *others: Strides) -> int:
    """Return the elements per 16-byte vector if rows have an unaligned head and tail around vectors, else 0.

    It is also 0 unless a row starts at the same position within a vector in x, out and other tensors of n elements per
    row. A reduction's output does not matter."""
    vector = rows.vector_elements
    if rows.offset_gcd(*others) >= vector or rows.n < 2 * vector or rows.x_n != 1 or rows.is_strided or rows.x_phase:
        return 0
    out = Strides(rows.out_outer, rows.out_n, rows.out_inner, rows.out_phase)
    for one in (*others, out) if out.n else others:
        if one.n != 1 or one.phase or (rows.x_outer - one.outer) % vector or (rows.x_inner - one.inner) % vector:
            return 0
    return vector


def can_pack(rows: Rows, *others: Strides) -> bool:
    """Whether rows of half precision can be loaded as vectors of packed pairs, apart from unaligned heads and tails."""
    whole = rows.itemsize == 2 and rows.x_n == rows.out_n == 1 and not rows.is_strided
    aligned = rows.aligned and not any(other.phase or other.n != 1 for other in others)
    return whole and ((rows.offset_gcd(*others) >= 8 and aligned) or edge_vector_size(rows, *others) > 0)


def num_overreads(rows: Rows) -> int:
    """Return how many rows' last vector may reach into the next row: all rows but the last, or 0 if rows overlap."""
    steps = [step for step, many in ((rows.x_outer, rows.outer > 1), (rows.x_inner, rows.inner > 1)) if many]
    return rows.total - 1 if all(step >= rows.n for step in steps) else 0


# --- Compiling -------------------------------------------------------------------------------------------------------


def compile_program(
    x: torch.Tensor, kernel: Any, args: tuple[Any, ...], options: dict[str, Any], *, loads: bool = False
) -> Any:
    """Compile a kernel for its arguments and constants. If ``loads``, also load it.

    Kernels are compiled at bind time, under a lock. So a launch never compiles, and first launches can't race."""
    with _lock, on_device_of(x), triton_key.use_cached_key():
        try:
            program = kernel.warmup(*args, grid=(1,), **options)
        except (OSError, ValueError, KeyError) as error:  # from damaged or unreadable files of Triton's cache
            code_cache.use_scratch("TRITON_CACHE_DIR", Path(triton.knobs.cache.dir), f"{type(error).__name__}: {error}")
            program = kernel.warmup(*args, grid=(1,), **options)
        if loads:
            program.run  # noqa: B018  # the property loads the binary, which is when registers are known
        return program


OWN_OPTIONS = ("enable_fp_fusion", "num_warps", "num_stages", "launch_pdl")
"""The options that every kernel is compiled with."""


def compiler_options(device: Device, warps: int, stages: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return all options for Triton's compiler."""
    # Stated explicitly, since Triton's default changes with 3.10, and 3.9 warns of that.
    said = {**options, "enable_fp_fusion": True, "num_warps": warps, "num_stages": stages}
    return {**said, "launch_pdl": True} if device.allows_dependent_launches else said


def resources(program: Any, device: Device) -> cubin.Resources:
    """Return a compiled kernel's registers, local memory and shared memory, read from its cubin or hsaco. On AMD,
    the registers are vector registers."""
    if device.is_nvidia:
        found = cubin.resources(program.kernel, program.name, device.capability)
        return cubin.Resources(found.registers, found.local_bytes, found.shared_bytes + program.metadata.shared)
    registers, scratch = (_msgpack_int(program.kernel, key) for key in (b".vgpr_count", b".private_segment_fixed_size"))
    return cubin.Resources(registers, scratch, program.metadata.shared)


def _msgpack_int(binary: bytes, key: bytes) -> int:
    """Return the integer that follows a key in the metadata of an AMD binary."""
    at = binary.index(key) + len(key)
    width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(binary[at], 0)
    return int.from_bytes(binary[at + 1 : at + 1 + width], "big") if width else binary[at]


def describe_code(
    kernel: Any, program: Any, args: tuple[Any, ...], options: dict[str, Any], device: Device
) -> Compiled:
    """Return a compiled kernel as ``Compiled``, for a recording."""
    constants = {p.name: value for p, value in zip(kernel.params, args, strict=False) if p.is_constexpr}
    constants |= {name: value for name, value in options.items() if name != "enable_fp_fusion"}
    return Compiled(
        name=kernel.fn.__name__,
        language="gluon" if kernel.is_gluon() else "triton",
        constants={name: v.value if isinstance(v, tl.constexpr) else v for name, v in constants.items()},
        symbol=program.name,
        binary=program.kernel,
        ptx=program.asm.get("ptx"),
        stages={stage: str(program.asm[stage]) for stage in ("ttir", "ttgir", "llir") if stage in program.asm},
        assembly=program.asm.get("amdgcn"),
        **describe_source(kernel.fn),
        **vars(resources(program, device)),
    )


# --- Launching -------------------------------------------------------------------------------------------------------


def bind_grid(
    implementation: str,
    kernel: Any,
    programs: int | Callable[[int], int],
    args: tuple[Any, ...],
    warps: int,
    stages: int = 1,
    tensors: int = 2,
    **options: Any,
) -> Launch:
    """Compile a kernel for its arguments, and return its launch. Raises GridTooLargeError.

    args: the kernel's arguments. The first ``tensors`` are the caller's, with merged axes; others are workspaces.
    programs: the grid's size, or a function of the number of programs that can be resident per multiprocessor."""
    rec = recording.get()
    if INTERPRETED and rec is None:
        return interpreted_launch(kernel, programs(1) if callable(programs) else programs, args)
    device = device_of(args[0])
    told = compiler_options(device, warps, stages, options)
    if rec is not None:
        return record_launch(implementation, rec, kernel, programs, args, told, device)
    program = compile_program(args[0], kernel, args, told, loads=True)
    if callable(programs):
        programs = programs(resident(device, program.n_regs, warps, program.metadata.shared))
    check_grid(implementation, programs)
    return launch_of(kernel, program, programs, args, tensors)


def record_launch(
    implementation: str,
    rec: Recording,
    kernel: Any,
    programs: int | Callable[[int], int],
    args: tuple[Any, ...],
    chosen: dict[str, Any],
    device: Device,
) -> Launch:
    """Return a launch that adds a step to the recording ``rec``, instead of running the kernel."""
    if callable(programs):
        at_once = 1
        if rec.can_compile:
            found = resources(compile_program(args[0], kernel, args, chosen), device)
            at_once = resident(device, found.registers, chosen["num_warps"], found.shared_bytes)
        programs = programs(at_once)
    check_grid(implementation, programs)
    constants: list[str] = []
    arguments: list[str] = []
    fixed = [p.is_constexpr for p in getattr(kernel, "params", ())] or [False] * len(args)  # interpreted
    for constant, arg in zip(fixed, args, strict=False):
        if not isinstance(arg, torch.Tensor):
            (constants if constant else arguments).append(str(arg))
    options = {name: value for name, value in chosen.items() if name not in OWN_OPTIONS}
    return rec.make_launch(
        LaunchStep(
            kernel=f"{kernel.__name__}, {chosen['num_warps']} warps, {chosen['num_stages']} stages, {options}",
            grid=(programs,),
            threads=chosen["num_warps"] * device.warp_size,
            cooperative=bool(options.get("launch_cooperative_grid")),
            constants=tuple(constants),
            arguments=tuple(arguments),
            build=(lambda: describe_code(kernel, compile_program(args[0], kernel, args, chosen), args, chosen, device))
            if rec.can_compile
            else None,
        )
    )


def check_grid(implementation: str, programs: int) -> None:
    if programs > MAX_PROGRAMS:
        raise GridTooLargeError(implementation, programs, MAX_PROGRAMS)


def launch_of(kernel: Any, program: Any, programs: int, args: tuple[Any, ...], tensors: int = 2) -> Launch:
    """Return the launch of a loaded kernel with a grid of ``programs``; see ``bind_grid``."""
    x = args[0]
    # Call the compiled kernel's launcher directly: the argument handling of Triton's own call takes longer than a short
    # kernel. The launcher takes addresses in place of tensors, which spares a query of the driver.
    call, fixed, together = make_launcher_call(program)
    device: int = x.get_device()
    stream = current_stream
    rest, workspace = list(args[tensors:]), []
    for i, arg in enumerate(rest):
        if isinstance(arg, torch.Tensor):
            rest[i] = arg.data_ptr()
            workspace.append(arg)

    def launch_at(x: int, out: int) -> None:
        if together:
            call(programs, 1, 1, stream(device), *fixed, (x, out, *rest))
        else:
            call(programs, 1, 1, stream(device), *fixed, x, out, *rest)

    def launch_all_at(*addresses: int) -> None:
        if together:
            call(programs, 1, 1, stream(device), *fixed, (*addresses, *rest))
        else:
            call(programs, 1, 1, stream(device), *fixed, *addresses, *rest)

    place = launch_at if tensors == 2 else launch_all_at
    canonical = args[:tensors]
    return WorkspaceLaunch(place, *canonical, workspace=workspace) if workspace else RebindableLaunch(place, *canonical)


def interpreted_launch(kernel: Any, programs: int, args: tuple[Any, ...]) -> Launch:
    def interpret() -> None:
        # Triton's interpreter patches the language while it runs, so it runs one launch at a time. NumPy warns of
        # inf - inf and of a row of NaN, which are legal here.
        with _lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            kernel[(programs, 1, 1)](*args)

    return interpret


class TritonLauncherCall(NamedTuple):
    """The call that launches a compiled kernel: ``call(programs, 1, 1, stream, *fixed, *arguments)``. If
    ``together`` is true, the arguments are passed as one tuple."""

    call: Callable[..., None]
    fixed: tuple[Any, ...]
    together: bool


def make_launcher_call(program: Any) -> TritonLauncherCall:
    """Return the call that launches a compiled kernel, without hooks.

    In Triton 3.6 and 3.7, each call of a CUDA launcher computes all arguments of its ``launch``. Unless the kernel
    needs scratch memory, only the stream and the tensors change, so the other arguments are computed here once."""
    run, hooks, scratch = program.run, (None, None, None), (None, None)
    known = triton.__version__.startswith(("3.6.", "3.7.")) and type(run).__name__ == "CudaLauncher"
    if not known or run.global_scratch_size or run.profile_scratch_size:
        return TritonLauncherCall(run, (program.function, program.packed_metadata, *hooks), together=False)
    kind = (program.function, run.launch_cooperative_grid, run.launch_pdl)
    if hasattr(run, "kernel_signature"):  # from 3.7 on, one launch for all kernels
        rest = (program.packed_metadata, *hooks, *scratch, run.arg_annotations, run.kernel_signature)
        return TritonLauncherCall(run.launch, (*kind, *rest), together=True)
    return TritonLauncherCall(run.launch, (*kind, *scratch, program.packed_metadata, *hooks), together=False)


_lock = threading.RLock()
