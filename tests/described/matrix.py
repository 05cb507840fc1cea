"""Every kernel for every architecture: ``python tests/described/matrix.py -o bench/results/architectures.json``.

A kernel is at fault if it asks for more than the device has, a problem if it is neither taken nor refused properly.
Exits with 1 on any fault.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import kernelzoo
from kernelzoo import inspecting, measure, operations, tables
from kernelzoo.device import ARCHITECTURES, Device, occupancy
from kernelzoo.errors import InspectionError, KernelZooError, UnsupportedProblemError
from kernelzoo.files import write_atomically
from kernelzoo.inspect import Kernel, Request
from kernelzoo.kernels.shared import cubin

if TYPE_CHECKING:
    import torch

FORMAT = "kernelzoo-architectures/1"
BACKENDS = ("triton", "gluon", "cupy", "numba")
HERE = Path(__file__)


@dataclass(frozen=True)
class Problem:
    """A shape, the axis that is reduced, and how it lies in memory."""

    shape: tuple[int, ...]
    dim: int = -1
    layout: str = "contiguous"
    """A layout: ``contiguous``, ``unaligned`` (odd start), ``padded`` rows, or ``stepped`` (every second element)."""

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} over {self.dim} {self.layout}"


# One of each class of the launch tables: rows so short that many share a block, even and odd; a warp's; a block's, up
# to the most that one holds, with edges and without; longer ones, few and many; one giant row; the same across rows.
SHAPES = (
    Problem((1 << 20, 5)), Problem((100003, 200)), Problem((4096, 781)), Problem((4096, 1024)), Problem((3001, 5003)),
    Problem((4096, 12672)), Problem((512, 32768)), Problem((777, 50257)), Problem((64, 131072)),
    Problem((16, 262144)), Problem((5, 3000017)), Problem((64, 100), 0), Problem((512, 4096), 0),
    Problem((1100, 4099), 0), Problem((64, 512, 96), 1), Problem((1 << 20, 33)), Problem((4096, 64)),
    Problem((4096, 4096)), Problem((1009, 16384)), Problem((1, 1 << 28)), Problem((4096, 4096), 0),
    Problem((65536, 33), 0),
)  # fmt: skip
LAYOUTS = (
    Problem((4096, 64), -1, "unaligned"), Problem((777, 50257), -1, "unaligned"), Problem((4096, 1024), -1, "padded"),
    Problem((16, 262144), -1, "padded"), Problem((4096, 1024), -1, "stepped"), Problem((777, 50257), -1, "stepped"),
)  # fmt: skip
FEW = (SHAPES[1], SHAPES[4], SHAPES[9], SHAPES[12], LAYOUTS[0])


def problems(dtype: str) -> tuple[Problem, ...]:
    """Fewer of dtypes whose kernels are another's with other conversions."""
    if dtype == "float32":
        return (*SHAPES, *LAYOUTS)
    if dtype == "bfloat16":
        return (*SHAPES[1:15:2], *FEW, LAYOUTS[3])
    return FEW if dtype in ("float16", "float64", "int8", "int64") else FEW[:1]


@dataclass(frozen=True)
class Laid(Request):
    """A request for a tensor of another layout."""

    layout: str = "contiguous"

    def arguments(self, device: str) -> operations.Arguments:
        """The first input in that layout, and those of its shape; others are contiguous."""
        first, *others = super().arguments(device).inputs
        laid = [self.input(device) if x.shape == first.shape else x for x in others]
        return operations.OPERATIONS[self.op].arguments((self.input(device), *laid), self.dim)

    def input(self, device: str) -> torch.Tensor:
        """A tensor in that layout."""
        import torch

        def empty(*shape: int) -> torch.Tensor:
            return torch.empty(shape, dtype=getattr(torch, self.dtype), device=device)

        *rows, n = self.shape
        if self.layout == "unaligned":
            return empty(1 + math.prod(self.shape))[1:].view(self.shape)
        if self.layout == "padded":
            return empty(*rows, n + 3)[..., :n]
        if self.layout == "stepped":
            return empty(*rows, 2 * n)[..., ::2]
        return empty(*self.shape)


def requests(backend: str, arch: str, few: bool = False) -> list[Laid]:
    """All of one backend for one architecture, or a few of each implementation."""
    return [
        Laid(backend, i.op, i.variant, problem.shape, dtype, problem.dim, arch, layout=problem.layout)
        for i in kernelzoo.implementations(backend)
        if i.variant == "auto" or not i.chooses
        for dtype in i.operation.dtypes
        for problem in (problems(dtype) if not few else FEW if dtype in ("float32", "bfloat16") else FEW[:1])
    ]


# --- what a launch may ask for -------------------------------------------------------------------------------------

MOST_THREADS = 1024
MOST_BLOCKS = (2**31 - 1, 65535, 65535)
LARGE_CLUSTERS = ("sm_90", "sm_100", "sm_103")
"""Where a cluster may have 16 blocks, with leave, and not 8: Hopper, and data-centre Blackwell (its tuning guide)."""


def most_registers(device: Device) -> int:
    """Of one thread; on AMD vector and accumulation registers together."""
    return 255 if device.is_nvidia else 512


def faults(kernel: Kernel, device: Device) -> Iterator[str]:
    """What a launch asks for that the device hasn't."""
    a = device
    assert kernel.grid and kernel.block and kernel.cluster
    assert kernel.registers is not None and kernel.shared_bytes is not None
    threads, cluster = math.prod(kernel.block), math.prod(kernel.cluster)
    if not 1 <= threads <= MOST_THREADS or threads % a.warp_size:
        yield f"{threads} threads a block"
    if kernel.registers > most_registers(a):
        yield f"{kernel.registers} registers a thread"
    if kernel.shared_bytes > a.shared_per_block:
        yield f"{kernel.shared_bytes} bytes of shared memory, of {a.shared_per_block}"
    if any(not 1 <= blocks <= most for blocks, most in zip(kernel.grid, MOST_BLOCKS, strict=False)):
        yield f"a grid of {kernel.grid}"
    held = occupancy(a, kernel.registers, threads, kernel.shared_bytes)
    if not held.blocks:
        yield f"a block that no multiprocessor holds: {kernel.registers} registers by {threads} threads"
    if kernel.cooperative and math.prod(kernel.grid) > held.blocks * a.multiprocessors:
        yield f"{math.prod(kernel.grid)} blocks at once, of {held.blocks * a.multiprocessors}"
    if cluster > 1:
        most = 0 if a.capability < 90 else 16 if a.arch in LARGE_CLUSTERS else 8
        if cluster > most:
            yield f"a cluster of {cluster}, of {most}"
        if kernel.grid[0] % kernel.cluster[0]:
            yield f"a grid of {kernel.grid} in clusters of {kernel.cluster}"


# --- one backend for one architecture, in a process of its own -----------------------------------------------------


Findings = tuple[dict[str, Any], list[str], list[str]]
"""A row of the record; what is at fault; what spills registers."""


def examine(asked: Sequence[Laid]) -> Findings:
    """Bind and compile what is asked, of one backend and one architecture."""
    (backend,), (arch,) = {r.backend for r in asked}, {r.arch for r in asked}
    device = ARCHITECTURES[arch]
    start = time.perf_counter()
    seen: dict[tuple[object, ...], Kernel] = {}
    wrong: list[str] = []
    taken, refused, largest, spilling = 0, 0, 0, set()
    # Machine code is not read here.
    with mock.patch.object(cubin, "disassembly", return_value=({}, "not asked for")):
        for request in asked:
            what = f"{request.id} {request.dtype} {Problem(request.shape, request.dim, request.layout)}"
            try:
                kernels = inspecting.compiled_kernels(request)
            except KernelZooError as error:
                if is_documented(error, request):
                    refused += 1
                else:
                    wrong.append(f"{what}: {error}")
                continue
            except Exception as error:  # of a compiler, whose errors are of any type
                wrong.append(f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
                continue
            taken += 1
            for kernel in kernels:
                if kernel.registers is None:  # a step that torch runs
                    continue
                name = (kernel.name, request.dtype, *sorted(kernel.constants.items()), kernel.registers)
                seen[name] = kernel
                largest = max(largest, kernel.shared_bytes or 0)
                if kernel.local_bytes:
                    spilling.add(name)
                wrong += [f"{what}: {kernel.name}: {fault}" for fault in faults(kernel, device)]
    return (
        {
            "backend": backend,
            "architecture": arch,
            "problems": len(asked),
            "taken": taken,
            "refused": refused,
            "faults": len(wrong),
            "kernels": len(seen),
            "spilling": len(spilling),
            "largest_shared_bytes": largest,
            "shared_bytes_limit": device.shared_per_block,
            "seconds": round(time.perf_counter() - start, 1),
        },
        sorted(wrong),
        sorted(described_spill(*name[:2], seen[name]) for name in spilling),
    )


def is_documented(error: KernelZooError, request: Request) -> bool:
    """Whether a refusal is one that the contract knows: of a problem by a variant, of an architecture by a language."""
    if isinstance(error, UnsupportedProblemError):
        return request.variant != "auto"
    return isinstance(error, InspectionError) and f"is not for {request.arch}; allowed: " in str(error)


def described_spill(name: str, dtype: str, kernel: Kernel) -> str:
    constants = " ".join(f"{key}={value}" for key, value in kernel.constants.items() if key in SAID)
    return f"{name} {dtype} {constants}: {kernel.local_bytes} bytes of a thread's {kernel.registers} registers"


SAID = ("COLS", "BLOCK", "ROWS", "EDGES", "PACKED", "WORDS", "STACK", "num_warps", "V", "ITEMS", "CLUSTER")
"""Constants that tell kernels of a name apart."""


def examined(asked: Sequence[Laid]) -> Findings:
    """The same in a process of its own, without a device, with empty caches."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "HIP_VISIBLE_DEVICES": "",
            "TRITON_INTERPRET": "0",
            "NUMBA_ENABLE_CUDASIM": "0",
            tables.ENVIRONMENT: "shipped",
            "TRITON_CACHE_DIR": empty,
            "XDG_CACHE_HOME": empty,
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(Path(kernelzoo.__file__).parents[1]), os.environ.get("PYTHONPATH")))
            ),
        }
        done = subprocess.run(
            [sys.executable, HERE, "--run"],
            input=json.dumps([asdict(request) for request in asked]),
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    row, wrong, spilled = json.loads(done.stdout)
    return row, wrong, spilled


def answer() -> None:
    """The process of its own: requests from standard input, a row to standard output."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a compiler prints is no answer
    asked = [Laid(**{**fields, "shape": tuple(fields["shape"]), "sizes": ()}) for fields in json.load(sys.stdin)]
    json.dump(examine(asked), replies)
    replies.close()


# --- the record ----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tests/described/matrix.py", description="Compile every kernel.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json", help="rows in it are replaced")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="by default all")
    parser.add_argument("--architectures", default=",".join(ARCHITECTURES), help="by default all")
    parser.add_argument("--few", action="store_true", help="a quarter of the problems, which the record says")
    options = parser.parse_args(argv)
    found = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    rows, faulty, spilling = found.get("rows", []), found.get("faults", {}), found.get("spilling", {})
    document = {
        "format": FORMAT,
        "command": " ".join(["python", "tests/described/matrix.py", *sys.argv[1:]]),
        "environment": {"device": measure.device_name("cpu"), "versions": measure.versions("cpu")},
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    for backend in options.backends.split(","):
        for arch in options.architectures.split(","):
            row, wrong, spilled = examined(requests(backend, arch, options.few))
            row |= {"date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"}
            print(json.dumps(row), *wrong, sep="\n    ", flush=True)
            rows = [r for r in rows if (r["backend"], r["architecture"]) != (backend, arch)] + [row]
            faulty[f"{backend} {arch}"], spilling[f"{backend} {arch}"] = wrong, spilled
            document |= {
                "seconds": round(sum(r["seconds"] for r in rows), 1),
                "rows": rows,
                "faults": {name: said for name, said in faulty.items() if said},
                "spilling": {name: said for name, said in spilling.items() if said},
            }
            write_atomically(options.output, (json.dumps(document, indent=1) + "\n").encode())
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    if "--run" in sys.argv:
        answer()
    else:
        sys.exit(main())
