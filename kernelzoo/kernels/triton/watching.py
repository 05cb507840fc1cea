"""Recording of a user's own Triton launches for a device that is described, not present."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from kernelzoo.device import Device
from kernelzoo.errors import InspectionError
from kernelzoo.kernels.shared.absent import with_stubs
from kernelzoo.kernels.shared.jit import describe_code
from kernelzoo.kernels.triton.inspection import target
from kernelzoo.launch import LaunchStep, recording


@contextmanager
def record_user_launches(device: Device) -> Iterator[None]:
    """Compile the user's Triton launches for a device within this context, and record them instead of running them."""
    compiling = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        try:
            program = compiling(self, *args, grid=grid, warmup=True, **named)
        except Exception as error:  # the compiler raises any type
            words = " ".join(str(error).split())
            raise InspectionError(f"Triton can't compile {self.fn.__name__} for {device.arch}: {words}") from error
        if warmup or (rec := recording.get()) is None:
            return program
        known = {p.name: p.default for p in self.params if p.has_default}
        known |= dict(zip(self.arg_names, args, strict=False)) | named
        options = {name: value for name, value in named.items() if name not in self.arg_names}
        values = tuple(known[name] for name in self.arg_names)
        blocks = tuple(grid(known) if callable(grid) else grid)
        ctas, warps = program.metadata.num_ctas, program.metadata.num_warps
        rec.steps.append(
            LaunchStep(
                kernel=self.fn.__qualname__,
                grid=(blocks[0] * ctas, *blocks[1:]),
                threads=warps * device.warp_size,
                cluster=ctas,
                cooperative=program.metadata.launch_cooperative_grid,
                build=lambda: describe_code(self, program, values, options, device),
                constants=(program.hash,),
            )
        )
        return program

    def bench(self: Any, *args: Any, config: Any, **named: Any) -> Any:
        name = self.base_fn.__name__
        raise InspectionError(f"{name} is tuned by triton.autotune, which tries {len(self.configs)} configs on a GPU")

    with target(device), with_stubs(JITFunction, run=run), with_stubs(Autotuner, _bench=bench):
        yield
