"""Runs the CUDA C++ kernels on the host: their own source, compiled by the host's C++ compiler, a fiber to each thread.

``install()`` makes that the backend's ``stand_in``, for this process; tensors are on the CPU then. Of the
source only what C++ does not have is replaced (``translated``): inline PTX by calls, instruction by instruction (PTX),
and shared memory by references. emulator.hpp is what the kernels see, emulator.cpp what runs them; it says what it
checks, and in what order threads run: in another one at each launch.

What it can't show: that a fence is missing, or a volatile, since the host's memory has one order for all threads; what
the compiler for the device makes of the source; and time.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import host_compiler

import kernelzoo.kernels.cupy as backend
from kernelzoo import tables
from kernelzoo.device import ARCHITECTURES, Device
from kernelzoo.errors import BackendUnavailableError
from kernelzoo.kernels.cupy import compiler as cuda
from kernelzoo.kernels.cupy.launch import PROBLEM, At, Plan, Step
from kernelzoo.kernels.shared.driver import Parameters, Shape, grid_axes

HERE = Path(__file__).parent

DEVICES = {
    capability: replace(ARCHITECTURES[f"sm_{capability}"], name="emulated", multiprocessors=6)
    for capability in (90, 80)
}
"""By compute capability. Few multiprocessors, so that small problems are many for them."""

PTX = {
    "": "",  # a word to the compiler alone
    "griddepcontrol.wait;": "wait_for_launches_before(%*)",
    "ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];": "load(%4, %0, %1, %2, %3)",
    "{.reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;"
    " ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;}": "load(%4, %0, %1, %2, %3)",
    "{.reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;"
    " .reg .pred wanted; setp.ne.u32 wanted, %5, 0;"
    " @wanted ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;}": "load_if(%5, %4, %0, %1, %2, %3)",
    "{.reg .pred wanted; setp.ne.u32 wanted, %5, 0;"
    " @wanted ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];}": "load_if(%5, %4, %0, %1, %2, %3)",
    "st.global.v4.u32 [%0], {%1, %2, %3, %4};": "store(%0, %1, %2, %3, %4)",
    "st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};": "store(%0, %1, %2, %3, %4)",
    "ld.relaxed.gpu.global.u64 %0, [%1];": "%0 = peek(%1)",
    "ld.acquire.gpu.global.u64 %0, [%1];": "%0 = peek(%1)",
    "st.relaxed.gpu.global.u64 [%0], %1;": "send(%0, %1)",
    "atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;": "%0 = count_up_to(%1, %2)",
    "atom.add.acq_rel.gpu.global.u64 %0, [%1], 1;": "%0 = add(%1, 1)",
    "bar.sync 1, %0;": "sync(1, %0)",
    # Copies that a thread waits for.
    "cp.async.cg.shared.global [%0], [%1], 16;": "copy(%0, %1, 16)",
    "cp.async.ca.shared.global [%0], [%1], %2;": "copy(%0, %1, %2)",
    "cp.async.commit_group;": "commit_copies()",
    "cp.async.wait_group %0;": "wait_for_copies(%0)",
    "cp.async.wait_all;": "wait_for_copies()",
    "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];": "arrive_behind_copies(%0)",
    # Barriers in shared memory, and copies that are counted there.
    "mbarrier.init.shared::cta.b64 [%0], %1;": "make_barrier(%0, %1)",
    "fence.mbarrier_init.release.cluster;": "fence_barriers()",
    "mbarrier.arrive.shared::cta.b64 _, [%0];": "arrive(%0)",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;": "arrive_expecting(%0, %1)",
    "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
    " selp.u32 %0, 1, 0, p;}": "%0 = try_wait(%1, %2)",
    "{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;"
    " selp.u32 %0, 1, 0, p;}": "%0 = test_wait(%1, %2)",
    "createpolicy.fractional.L2::evict_last.b64 %0, 1.0;": "%0 = 0",
    "createpolicy.fractional.L2::evict_first.b64 %0, 1.0;": "%0 = 0",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
    " [%0], [%1], %2, [%3], %4;": "copy_bulk(%0, %1, %2, %3)",
    # Clusters.
    "barrier.cluster.arrive.relaxed.aligned;": "cluster_arrive()",
    "barrier.cluster.wait.acquire.aligned;": "cluster_wait()",
    "mov.u32 %0, %%cluster_ctarank;": "%0 = cluster_rank()",
    "mov.u32 %0, %%cluster_nctarank;": "%0 = cluster_size()",
    "mapa.shared::cluster.u32 %0, %1, %2;": "%0 = in_block(%1, %2)",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];": "store_remote(%0, %1, %2)",
    # Numbers.
    "{.reg .f32 x, y; mov.b32 x, %0; mov.b32 y, %1; min.NaN.f32 x, x, y; mov.b32 %0, x;}": "%0 = least_float(%0, %1)",
    "min.NaN.f16x2 %0, %0, %1;": "%0 = least_halves(%0, %1)",
    "min.NaN.bf16x2 %0, %0, %1;": "%0 = least_bfloats(%0, %1)",
    "max.f16x2 %0, %0, %1;": "%0 = largest_halves(%0, %1)",
    "max.bf16x2 %0, %0, %1;": "%0 = largest_bfloats(%0, %1)",
    "cvt.f32.f16 %0, %1;": "%0 = half_to_float(%1)",
    "cvt.rn.f16.f32 %0, %1;": "%0 = float_to_half(%1)",
    "cvt.rn.bf16.f32 %0, %1;": "%0 = float_to_bfloat(%1)",
    "cvt.rn.f16x2.f32 %0, %1, %2;": "%0 = two_halves(%1, %2)",
    "cvt.rn.bf16x2.f32 %0, %1, %2;": "%0 = two_bfloats(%1, %2)",
    "ex2.approx.ftz.f32 %0, %1;": "%0 = power_of_two(%1)",
    "rcp.approx.ftz.f32 %0, %1;": "%0 = reciprocal(%1)",
    "mul.rn.f32 %0, %1, %2;": "%0 = product(%1, %2)",
    "sub.rn.f32 %0, %1, %2;": "%0 = difference(%1, %2)",
    "set.eq.u32.f32 %0, %1, %2;": "%0 = equal_floats(%1, %2)",
}
"""What each piece of inline PTX does, in functions of namespace ptx in emulator.hpp; ``%*`` is all operands. Another
one is an error."""


class EmulatorError(RuntimeError):
    """A kernel did what it may not; or the source can't be translated, or compiled."""


# --- From CUDA C++ to C++ --------------------------------------------------------------------------------------------


def translated(source: str) -> str:
    """The source with what C++ does not have replaced. Raises EmulatorError for PTX that is not known."""
    source = re.sub(r"//[^\n]*", "", source)
    source = re.sub(r"^\s*#pragma unroll.*$", "", source, flags=re.MULTILINE)
    source = re.sub(r"^#include .*$", "", source, flags=re.MULTILINE)
    source = re.sub(r"extern __shared__ (\w+) (\w+)\[\];", r"\1* const \2 = (\1*)emulator::dynamic_shared();", source)
    numbers = itertools.count()

    def variables(found: re.Match[str]) -> str:
        kind, declared = found[1], found[2]
        made = ""
        for variable in re.split(r",\s*", declared):
            name, *sizes = re.split(r"[\[\]]+", variable.strip().rstrip("]"))
            array = "".join(f"[({size})]" for size in sizes)
            made += f"auto& {name} = emulator::shared<{kind}{array}>({next(numbers)}); "
        return made

    source = re.sub(r"__shared__ (?:alignas\(16\) )?(\w+(?:<[^;\[]*>)?)\s+(\w[^;]*);", variables, source)
    made, at = "", 0
    for found in re.finditer(r"\basm\s*(?:volatile)?\s*\(", source):
        end = _closing(source, found.end())
        made += source[at : found.start()] + _instruction(source[found.end() : end])
        at = end + 1
    return made + source[at:]


def _closing(text: str, at: int) -> int:
    """Where the parenthesis closes that was opened before ``at``."""
    depth = 1
    for found in re.compile(r'"(?:[^"\\]|\\.)*"|[()]').finditer(text, at):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            return found.start()
    raise EmulatorError(f"a parenthesis stays open: {text[at : at + 80]}")


def _instruction(inside: str) -> str:
    """The C++ of what stands between the parentheses of an ``asm``."""
    strings = re.match(r'(?:\s*"(?:[^"\\]|\\.)*")*', inside)
    assert strings is not None
    template = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings[0]))
    if template not in PTX:
        raise EmulatorError(f"PTX that the emulator does not know: {template!r}")
    operands = []
    at = strings.end()
    while found := re.compile(r'"[=+]?[rlhfdn]"\s*\(').search(inside, at):
        at = _closing(inside, found.end())
        operands.append(inside[found.end() : at])
    used = PTX[template]
    call = re.sub(r"\b([a-z_]+)\(", r"ptx::\1(", used).replace("%*", ", ".join(f"%{k}" for k in range(len(operands))))
    return re.sub(r"%(\d)", lambda number: f"({operands[int(number[1])]})", call) or "(void)0"


# --- The host's compiler ---------------------------------------------------------------------------------------------

# Of the kernels: their own pointers into the same memory, no symbol of one in another, and a trap where an index or an
# address is not what its type allows.
_KERNEL_FLAGS = ("-fno-strict-aliasing", "-fvisibility=hidden", "-ffp-contract=off",
                 "-fsanitize=alignment,bounds", "-fsanitize-undefined-trap-on-error")  # fmt: skip


def _visible(code: str) -> str:
    """The code behind the header, whose text is a part of what it is known by."""
    return f"{(HERE / 'emulator.hpp').read_text(encoding='utf-8')}\n{code}"


@functools.cache
def runtime() -> ctypes.CDLL:
    """emulator.cpp, whose functions the kernels' libraries find."""
    code = (HERE / "emulator.cpp").read_text(encoding="utf-8")
    path = host_compiler.compiled(_visible(code.replace('#include "emulator.hpp"\n', "")))
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@functools.cache
def _entry(source: str, kernel: str, capability: int) -> Any:
    """The kernel of that name as a function of an array of pointers to its parameters."""
    code = (
        f"#define __CUDA_ARCH__ {capability}0\n{_visible(translated(source))}\n"
        'extern "C" __attribute__((visibility("default"))) void entry(void** parameters) {'
        f" emulator::call(&{cuda.known(kernel)}, parameters); }}\n"
    )
    runtime()
    return ctypes.CDLL(str(host_compiler.compiled(code, *_KERNEL_FLAGS))).entry


# --- Launches --------------------------------------------------------------------------------------------------------


class _Memory(ctypes.Structure):
    """``Memory`` of emulator.cpp."""

    _fields_ = (
        ("pointer", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("fill", ctypes.c_uint32),
        ("kept", ctypes.c_uint32),
        ("written", ctypes.c_uint32),
    )


class _Launch(ctypes.Structure):
    """``Launch`` of emulator.cpp."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 2),
        *(
            (name, ctypes.c_uint32)
            for name in (
                "threads",
                "cluster",
                "cooperative",
                "shared_bytes",
                "capability",
                "flush_subnormals",
                "tensors",
            )
        ),
        ("seed", ctypes.c_uint64),
        ("memories", ctypes.c_void_p),
        ("memory_count", ctypes.c_uint32),
    )


_UNGUARDED = 2**28
"""Bytes from the first element to the last, from which a tensor is left where it is: rows that lie far apart."""


class Machine:
    """What launch.py asks in place of CuPy and the driver: a described device, whose kernels run here."""

    name = "the emulator of tests/cupy"

    def __init__(self, device: Device, edit: Callable[[str], str] = str) -> None:
        self.device, self.edit = device, edit
        self.seeds = itertools.count()
        self.launched: list[tuple[Path, str]] = []
        """Files and names of the kernels that ran."""

    def probe(self) -> tuple[str, ...]:
        if not host_compiler.compiler():
            raise BackendUnavailableError("cupy", "there is no C++ compiler", "install g++, or the package ziglang")
        return ("cpu",)

    def device_of(self, x: object) -> Device:
        return self.device

    def loaded(self, file: Path, plan: Plan, step: Step, device: Device) -> _Kernel:
        entry = _entry(self.edit(cuda.source(file)), step.kernel, device.capability)
        return _Kernel(self, file, entry, step, plan, device)


_lock = threading.Lock()


@dataclass(frozen=True)
class _Kernel:
    """A step of a plan, ready to run."""

    machine: Machine
    file: Path
    entry: Any
    step: Step
    plan: Plan
    device: Device

    def blocks_at_once(self, threads: int, shared_bytes: int) -> int:
        return 2 * self.device.multiprocessors

    def launcher(self, shape: Shape, tensors: int) -> Callable[[Parameters], At]:
        return lambda parameters: partial(self._launch, shape, parameters)

    def _launch(self, shape: Shape, parameters: Parameters, *addresses: int) -> None:
        values = (ctypes.c_uint64 * len(parameters.words))(*addresses, *parameters.words[len(addresses) :])
        places = [ctypes.addressof(values) + 8 * start for start in parameters.starts]
        pointers = (ctypes.c_void_p * len(places))(*places)
        memories = self._memories(values, places, len(addresses))
        held = (_Memory * len(memories))(*memories)
        message = ctypes.create_string_buffer(2048)
        launch = _Launch(
            ctypes.cast(self.entry, ctypes.c_void_p),
            ctypes.addressof(pointers),
            grid_axes(shape),
            shape.threads,
            shape.cluster,
            shape.cooperative,
            shape.shared_bytes,
            self.device.capability,
            "double" not in self.step.kernel,
            len(addresses),
            next(self.machine.seeds),
            ctypes.addressof(held),
            len(memories),
        )
        self.machine.launched.append((self.file, self.step.kernel))
        with _lock:
            failed = runtime().emulator_launch(ctypes.byref(launch), message, len(message))
        if failed:
            raise EmulatorError(f"{self.step.kernel}: {message.value.decode()}")

    def _memories(self, values: Any, places: list[int], tensors: int) -> list[_Memory]:
        plan, dtype, size = self.plan, self.plan.layout.dtype, self.plan.layout.itemsize
        # What is read by mistake must be noticed: NaN, the least integer.
        fill = 0xFF if "float" in dtype else 0 if dtype in ("uint8", "bool") else 0x80
        g = dict(zip(PROBLEM, (ctypes.c_int64 * len(PROBLEM)).from_buffer(values, 8 * tensors), strict=True))
        sizes = g["rows"] // g["inner"], g["n"], g["inner"]
        first, last = ([g[f"{name}_{axis}"] for axis in ("outer", "n", "inner")] for name in ("x", "out"))
        between = [tensor[:3] for tensor in plan.others]
        found = []
        for at, strides in enumerate((first, *between, last)):
            span = (1 + sum((length - 1) * stride for length, stride in zip(sizes, strides, strict=True))) * size
            if span < _UNGUARDED:
                found.append(_Memory(places[0] + 8 * at, span, fill, True, at == tensors - 1))
        for place, argument in zip(places[1:], self.step.arguments, strict=True):
            count = {"partial": plan.partial_bytes, "counters": plan.counter_bytes}.get(str(argument), 0)
            if count:
                kept = argument == "counters" or self.step != plan.steps[0]
                found.append(_Memory(place, count, fill, kept, True))
        return found


# --- In the place of CuPy --------------------------------------------------------------------------------------------


def install(capability: int = 90) -> None:
    """Run the kernels here from now on, in this process. Harmless if done twice."""
    os.environ.setdefault(tables.ENVIRONMENT, "shipped")
    backend.stand_in = Machine(DEVICES[capability])
    backend.compiled_elements = 2**17


@contextlib.contextmanager
def device(described: Device, edit: Callable[[str], str] = str) -> Iterator[Machine]:
    """Within the context that device is the one, and the kernels' source is as ``edit`` makes it."""
    before = backend.stand_in
    backend.stand_in = Machine(described, edit)
    try:
        yield backend.stand_in
    finally:
        backend.stand_in = before
