"""The CUDA driver as far as a bind and a launch need one, for a device that is described and not there.

Backends reach the driver through CuPy, through cuda.bindings, and in C through ctypes; their modules ``inspection``
lead all of these ways here. Kernels are loaded into one list and launched into another.
"""

from __future__ import annotations

import ctypes
import math
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from kernelzoo.errors import InspectionError
from kernelzoo.inspect import Architecture, Kernel, Step, counted, occupancy
from kernelzoo.kernels.shared import cubin


@dataclass(frozen=True, eq=False)
class Loaded:
    """A kernel in machine code, and what it was compiled from as its language knows it."""

    origin: Any
    ptx: str
    cubin: bytes
    symbol: str
    """Its entry in ptx and cubin."""

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks to a cluster where the kernel itself says so, and not its launch."""
        found = re.search(rf"{self.symbol}\([^{{]*\.reqnctapercluster (\d+)(?:, (\d+), (\d+))?", self.ptx)
        return (int(found[1]), int(found[2] or 1), int(found[3] or 1)) if found else (1, 1, 1)


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: its value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_uint), ("padding", ctypes.c_uint), ("value", ctypes.c_uint * 16))


_COOPERATIVE, _CLUSTER_DIMENSION = 2, 4  # of CUlaunchAttributeID
_SHARED_LEAVE, _CLUSTER_LEAVE = 8, 14  # of CUfunction_attribute
# Without leave: bytes of shared memory, those that a kernel declares itself among them, and blocks to a cluster.
_SHARED_UNASKED, _CLUSTER_UNASKED = 48 * 1024, 8
_FAILED = 999  # CUDA_ERROR_UNKNOWN
_Launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Driver:
    """The driver of one architecture's device. A kernel's handle is one more than its place in ``loaded``."""

    def __init__(self, architecture: Architecture) -> None:
        a = self._architecture = architecture
        self.loaded: list[Loaded] = []
        self._leave: dict[tuple[int, int], int] = {}
        """What was asked for of a kernel, by its handle and the number of the CUfunction_attribute."""
        self.steps: list[Any] = []
        """Launches, and what torch runs between them, since they were last cleared."""
        # By their number, which is the same in the driver (CUdevice_attribute) and in the runtime (cudaDeviceAttr).
        self._attributes = {
            10: a.warp_size,  # WARP_SIZE
            16: a.multiprocessors,  # MULTIPROCESSOR_COUNT
            38: a.l2_bytes,  # L2_CACHE_SIZE
            39: a.threads,  # MAX_THREADS_PER_MULTIPROCESSOR
            75: a.capability // 10,  # COMPUTE_CAPABILITY_MAJOR
            76: a.capability % 10,
            81: a.shared_bytes,  # MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
            82: a.registers,  # MAX_REGISTERS_PER_MULTIPROCESSOR
            97: a.shared_per_block,  # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            106: a.blocks,  # MAX_BLOCKS_PER_MULTIPROCESSOR
        }
        self.library = SimpleNamespace(cuLaunchKernelEx=_Launch(_status(self.launch_extended)))
        """Its functions in C."""

    def attribute(self, number: int) -> int:
        """An attribute of the device."""
        if int(number) not in self._attributes:
            raise InspectionError(f"a bind asks for device attribute {int(number)}, which no architecture describes")
        return self._attributes[int(number)]

    def load(self, kernel: Loaded) -> int:
        """Load a kernel; return its handle."""
        self.loaded.append(kernel)
        return len(self.loaded)

    def allow(self, function: int, attribute: int, value: int) -> None:
        """``cuFuncSetAttribute``: give a kernel leave for what it isn't granted unasked."""
        self._leave[function, int(attribute)] = value

    def granted(self, function: int, attribute: int) -> int:
        """``cuFuncGetAttribute``, of what leave can be asked for."""
        kept = self._leave.get((function, int(attribute)))
        if kept is None and attribute == _SHARED_LEAVE:
            return max(0, _SHARED_UNASKED - self._resources(self.loaded[function - 1]).shared_bytes)
        return kept or 0

    def blocks(self, function: int, threads: int, shared_bytes: int) -> int:
        """Blocks of a kernel that one SM holds at once, with so much dynamic shared memory."""
        found = self._resources(self.loaded[function - 1])
        return occupancy(self._architecture, found.registers, threads, found.shared_bytes + shared_bytes).blocks

    def launch_extended(self, config: int, function: int, *_: object) -> None:
        """``cuLaunchKernelEx``, of the configuration at that address."""
        c = _Config.from_address(config)
        attributes = (_Attribute * c.count).from_address(c.attributes) if c.count else ()
        values = {attribute.id: tuple(attribute.value) for attribute in attributes}
        cluster = values.get(_CLUSTER_DIMENSION, self.loaded[function - 1].cluster)[:3]
        cooperative = values.get(_COOPERATIVE, (0,))[0] != 0
        self.steps.append(Step(function, tuple(c.grid), tuple(c.block), cluster, c.shared_bytes, cooperative))

    def kernels(self, facts: Callable[[Loaded], dict[str, Any]]) -> tuple[Kernel, ...]:
        """What was launched, in order, each kernel with what its language says of it."""
        return tuple(
            step if isinstance(step, Kernel) else self._kernel(step, count, facts)
            for step, count in counted(self.steps)
        )

    def _kernel(self, step: Step, count: int, facts: Callable[[Loaded], dict[str, Any]]) -> Kernel:
        self._require_leave(step)
        kernel = self.loaded[step.kernel - 1]
        found = self._resources(kernel)
        functions, missing = cubin.disassembly(kernel.cubin)
        shared = found.shared_bytes + step.dynamic_shared_bytes
        threads = step.block[0] * step.block[1] * step.block[2]
        return Kernel(
            arch=self._architecture.name,
            device=str(self._architecture),
            ptx=kernel.ptx,
            sass=functions.get(kernel.symbol),
            sass_missing=missing,
            registers=found.registers,
            local_bytes=found.local_bytes,
            shared_bytes=shared,
            grid=step.grid,
            block=step.block,
            cluster=step.cluster,
            cooperative=step.cooperative,
            launches=count,
            occupancy=occupancy(self._architecture, found.registers, threads, shared),
            **facts(kernel),
        )

    def _require_leave(self, step: Step) -> None:
        """Raise InspectionError for a launch that a driver would refuse for want of leave."""
        shared, blocks = step.dynamic_shared_bytes, math.prod(step.cluster)
        symbol, leave = self.loaded[step.kernel - 1].symbol, self.granted(step.kernel, _SHARED_LEAVE)
        if shared > leave:
            raise InspectionError(
                f"{symbol} is launched with {shared} bytes of dynamic shared memory, and has leave for {leave}"
            )
        if blocks > _CLUSTER_UNASKED and not self._leave.get((step.kernel, _CLUSTER_LEAVE)):
            raise InspectionError(f"{symbol} is launched in clusters of {blocks}, without leave for more than 8")

    def _resources(self, kernel: Loaded) -> cubin.Resources:
        return cubin.resources(kernel.cubin, kernel.symbol, self._architecture.capability)


def _status(function: Callable[..., None]) -> Callable[..., int]:
    """A function as C calls it: what it raises, which C can't take, is printed, and told by the status."""

    def call(*arguments: Any) -> int:
        try:
            function(*arguments)
        except Exception:
            traceback.print_exc()
            return _FAILED
        return 0

    return call
