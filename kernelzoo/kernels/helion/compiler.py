"""Compile kernels written in Helion to Triton source, once for each configuration.

Helion compiles a kernel for example tensors. Their sizes and strides become arguments of the kernel. The examples are
on the CPU, and their contents are never read. No axis has size 1, because Helion would compile that in as a constant.
The autotuner does not run, because each form sets its configuration.
"""

import inspect
import linecache
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import helion
import torch
import triton.language as tl
from helion.runtime.ref_mode import RefMode

from kernelzoo.device import keep_current_gpu
from kernelzoo.kernels.shared import code_cache, programs
from kernelzoo.kernels.shared.jit import INTERPRETED

SIZES = (11, 65537, 7)
"""The sizes of the axes outer, n and inner of example tensors."""
PARTS = 19
"""The size of the axis ``parts`` of example tensors. It stands for the parts into which rows are cut."""
ALL = 720899
"""The size of an example tensor with one axis. All these sizes differ, because Helion identifies axes of equal size."""

SETTINGS: dict[str, Any] = {
    "static_shapes": False,
    "backend": "triton",
    "ref_mode": RefMode.OFF,
    "fast_math": False,
    "debug_dtype_asserts": False,
    "distributed": False,
    "ignore_warnings": [],
    "disable_autotuner_heuristics": True,
}
"""Settings that change the generated code. Helion would otherwise read them from environment variables."""

NUMBER = 1021
"""The value of every integer argument in an example."""


@dataclass(frozen=True)
class ExampleTensor:
    """An example tensor for which a kernel is compiled: its dtype, and the names of its axes."""

    dtype: torch.dtype
    axes: str = "outer n inner"

    @property
    def tensor(self) -> torch.Tensor:
        sizes = dict(zip(("outer", "n", "inner"), SIZES, strict=True), parts=PARTS, all=ALL)
        return torch.empty([sizes[axis] for axis in self.axes.split()], dtype=self.dtype, device="cpu")


@dataclass(frozen=True)
class KernelProgram:
    """A kernel before compilation. Its arguments are the tensors, then ``integers`` integers, then the constants."""

    kernel: Any
    tensors: tuple[ExampleTensor, ...]
    integers: int
    constants: tuple[Any, ...]
    blocks: tuple[int, ...]
    """Block sizes of a program along the tiled axes, in the order in which the kernel names them."""
    order: tuple[int, ...]
    """The axes of the grid, fastest-varying first. Empty if the grid has only one axis."""
    warps: int
    needs_int64: bool
    """Whether offsets need 64 bits."""

    @property
    def config(self) -> helion.Config:
        """The configuration that Helion's autotuner would otherwise search for."""
        return helion.Config(
            block_sizes=list(self.blocks),
            loop_orders=[list(self.order)] if self.order else [],
            num_warps=self.warps,
            num_stages=1,
            indexing="pointer",
            pid_type="flat",
        )


@dataclass(frozen=True)
class TritonCode:
    """Generated Triton code: its source, and a host function that takes the kernel's arguments and a launcher."""

    host: Callable[..., None]
    source: str

    def launch_arguments(self, *arguments: Any) -> tuple[Any, int, tuple[Any, ...], dict[str, Any]]:
        """Return (Triton kernel, number of programs, arguments, options), with which the host function would launch."""
        found: list[tuple[Any, int, tuple[Any, ...], dict[str, Any]]] = []

        def record_launch(kernel: Any, grid: tuple[int, ...], *passed: Any, **options: Any) -> None:
            found.append((kernel, grid[0], passed, options))

        self.host(*arguments, _launcher=record_launch)
        (one,) = found
        return one


def to_triton(program: KernelProgram) -> TritonCode:
    """Return a program's Triton code. It is generated on first use and cached. Safe to call from several threads."""
    found = _made.get(program)
    if found is None:
        with _lock:
            found = _made.get(program)
            if found is None:
                with keep_current_gpu():  # if there are several GPUs, Helion makes the last one current
                    found = _made[program] = _run_source(program, _cached_source(program))
    return found


def _cached_source(program: KernelProgram) -> str:
    """Return a program's source from the disk cache, or generate it. The key includes the kernel and its arguments."""
    kernel = program.kernel.fn
    what = (_compiler_identity(), inspect.getsource(kernel), kernel.__qualname__, replace(program, kernel=None))
    return programs.load_or_build("helion", what, lambda: generate_source(program).encode()).decode()


@cache
def _compiler_identity() -> str:
    """Return a text for cache keys: our kernels and shared code, and the versions of Helion, torch and Triton."""
    texts = map(code_cache.digest_sources, (Path(__file__).parent, Path(programs.__file__).parent))
    return repr((*texts, *map(version, ("helion", "torch", "triton"))))


def generate_source(program: KernelProgram) -> str:
    """Return the Triton source that Helion generates for a program, whether or not a GPU is present."""
    index = torch.int64 if program.needs_int64 else torch.int32
    kernel = helion.kernel(program.kernel.fn, config=program.config, index_dtype=index, **SETTINGS)
    examples = [example.tensor for example in program.tensors]
    bound = kernel.bind((*examples, *[NUMBER] * program.integers, *program.constants))
    return str(bound.to_triton_code(program.config))


def _run_source(program: KernelProgram, source: str) -> TritonCode:
    """Run generated source as a module. ``linecache`` stores the source too, because Triton reads it again."""
    name = program.kernel.fn.__name__
    file = f"<{name} of helion, {len(_made)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module: dict[str, Any] = {"__name__": f"{program.kernel.fn.__module__}.made"}
    exec(compile(source, file, "exec", dont_inherit=True), module)
    if INTERPRETED:
        module["libdevice"] = tl  # libdevice is machine code; triton.language has functions of the same names
    return TritonCode(module[name], source)


_lock = threading.RLock()
_made: dict[KernelProgram, TritonCode] = {}
