"""From a kernel written in Helion to one in Triton's language, which Helion makes of it, once for each configuration.

Helion looks at example tensors, whose sizes and strides it takes for numbers that a launch brings. They lie on the
host, where nothing touches their memory, and have no size of one, which Helion would take for a constant. Its autotuner
is never asked: each form says its configuration.
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

from kernelzoo.device import current_kept
from kernelzoo.kernels.shared import code_cache, programs
from kernelzoo.kernels.shared.jit import INTERPRETED

SIZES = (11, 65537, 7)
"""Of the axes outer, n and inner of examples, and..."""
PARTS = 19
"""...of parts of n, and..."""
ALL = 720899
"""...of a tensor as one axis: no two alike, which Helion would take for one."""

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
"""What changes what is made, and Helion else takes from the environment."""

NUMBER = 1021
"""An integer's example."""


@dataclass(frozen=True)
class Example:
    """A tensor as a kernel is made for it: its dtype, and its axes by name."""

    dtype: torch.dtype
    axes: str = "outer n inner"

    @property
    def tensor(self) -> torch.Tensor:
        sizes = dict(zip(("outer", "n", "inner"), SIZES, strict=True), parts=PARTS, all=ALL)
        return torch.empty([sizes[axis] for axis in self.axes.split()], dtype=self.dtype, device="cpu")


@dataclass(frozen=True)
class Program:
    """A kernel before it is made, for tensors of some dtypes. Integers and constants follow them."""

    kernel: Any
    tensors: tuple[Example, ...]
    integers: int
    constants: tuple[Any, ...]
    blocks: tuple[int, ...]
    """Elements of a program's block along the tiles, in the order in which the kernel names them."""
    order: tuple[int, ...]
    """Axes of the grid, the fastest first; empty where there is one."""
    warps: int
    far: bool
    """Whether offsets need 64 bits."""

    @property
    def config(self) -> helion.Config:
        """All that Helion would search for."""
        return helion.Config(
            block_sizes=list(self.blocks),
            loop_orders=[list(self.order)] if self.order else [],
            num_warps=self.warps,
            num_stages=1,
            indexing="pointer",
            pid_type="flat",
        )


@dataclass(frozen=True)
class Made:
    """What Helion makes of a kernel: a function of the kernel's arguments and of what is to launch it."""

    host: Callable[..., None]
    source: str

    def submitted(self, *arguments: Any) -> tuple[Any, int, tuple[Any, ...], dict[str, Any]]:
        """The Triton kernel that it would launch for these arguments, over how many programs, with which arguments and
        options."""
        found: list[tuple[Any, int, tuple[Any, ...], dict[str, Any]]] = []

        def launcher(kernel: Any, grid: tuple[int, ...], *given: Any, **options: Any) -> None:
            found.append((kernel, grid[0], given, options))

        self.host(*arguments, _launcher=launcher)
        (one,) = found
        return one


def made(program: Program) -> Made:
    """What Helion makes of a program, on first use, and kept. Safe from several threads."""
    found = _made.get(program)
    if found is None:
        with _lock:
            found = _made.get(program)
            if found is None:
                with current_kept():  # Helion leaves the last of several GPUs current
                    found = _made[program] = _loaded(program, _kept(program))
    return found


def _kept(program: Program) -> str:
    """The source as Helion made it of these very kernels and arguments, kept on disk; else as it makes it now."""
    kernel = program.kernel.fn
    what = (_compiler(), inspect.getsource(kernel), kernel.__qualname__, replace(program, kernel=None))
    return programs.on_disk("helion", what, lambda: source_of(program).encode()).decode()


@cache
def _compiler() -> str:
    """What makes the sources: our kernels with what they share, Helion and torch."""
    texts = map(code_cache.text_of, (Path(__file__).parent, Path(programs.__file__).parent))
    return repr((*texts, *map(version, ("helion", "torch", "triton"))))


def source_of(program: Program) -> str:
    """The Triton source that Helion makes of a program. Needs no GPU, and finds it the same where there is one."""
    index = torch.int64 if program.far else torch.int32
    kernel = helion.kernel(program.kernel.fn, config=program.config, index_dtype=index, **SETTINGS)
    examples = [example.tensor for example in program.tensors]
    bound = kernel.bind((*examples, *[NUMBER] * program.integers, *program.constants))
    return str(bound.to_triton_code(program.config))


def _loaded(program: Program, source: str) -> Made:
    """Run what Helion has made, which is a module's source; Triton reads it again, from where tracebacks find it."""
    name = program.kernel.fn.__name__
    file = f"<{name} of helion, {len(_made)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module: dict[str, Any] = {"__name__": f"{program.kernel.fn.__module__}.made"}
    exec(compile(source, file, "exec", dont_inherit=True), module)
    if INTERPRETED:
        module["libdevice"] = tl  # the device's library is machine code, and Triton's own words have these names too
    return Made(module[name], source)


_lock = threading.RLock()
_made: dict[Program, Made] = {}
