"""From a kernel written in Helion to a launch: made and compiled once, its arguments packed at bind.

Helion's own call looks at every argument, finds the configuration and works out the grid each time; here that is done
in the bind, and a launch goes straight to the compiled kernel, as Triton's do.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.helion import compiler
from kernelzoo.kernels.helion.compiler import Made, Program
from kernelzoo.kernels.shared import jit
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Compiled, Launch, Movable, Step, WithWorkspace, recording
from kernelzoo.torch_private import current_stream


def bound(
    id: str,
    program: Program,
    tensors: Sequence[torch.Tensor],
    taken: Sequence[torch.Tensor],
    integers: Sequence[int] = (),
) -> Launch:
    """Make and compile a kernel for its arguments, and return its launch.

    tensors: the canonical ones, as the bind takes them. taken: those that the kernel takes, of these and of a
    workspace; integers, and the program's constants, follow them. Raises GridTooLargeError.
    """
    made = compiler.made(program)
    kernel, programs, args, options = made.submitted(*taken, *integers, *program.constants)
    jit.check_grid(id, programs)
    device, recorder = device_of(tensors[0]), recording.get()
    told = jit.compiler_options(device, options["num_warps"], options["num_stages"], {})
    if device.dependent_launches:
        told["launch_pdl"] = False  # Helion has no word for waiting until the launch before has ended
    if recorder is not None:
        step = Step(
            kernel=f"{kernel.__name__}, {program.warps} warps",
            grid=(programs,),
            threads=program.warps * device.warp_size,
            constants=(program.blocks, program.order, program.far, *map(str, program.constants)),
            arguments=tuple(str(arg) for arg in args if not isinstance(arg, torch.Tensor)),
            build=(lambda: _described(program, made, kernel, args, told, device)) if recorder.compiles else None,
        )
        return recorder.launch(step)
    compiled = jit.compiled(tensors[0], kernel, args, told, loads=True)
    if compiled is None:
        return jit.interpreted(kernel, programs, args)
    return launch_of(compiled, programs, tensors, args)


def launch_of(compiled: Any, programs: int, tensors: Sequence[torch.Tensor], args: tuple[Any, ...]) -> Launch:
    """The launch of a loaded kernel, which has the canonical tensors in places of its own, or not at all."""
    call, fixed, together = jit.submission(compiled)
    device: int = tensors[0].get_device()
    stream = current_stream
    places: list[tuple[int, int]] = []
    given, workspace = list(args), []
    for place, arg in enumerate(args):
        if isinstance(arg, torch.Tensor):
            given[place] = arg.data_ptr()
            which = next((i for i, tensor in enumerate(tensors) if tensor is arg), None)
            if which is None:
                workspace.append(arg)
            else:
                places.append((place, which))

    def at(*addresses: int) -> None:
        here = given.copy()
        for place, which in places:
            here[place] = addresses[which]
        if together:
            call(programs, 1, 1, stream(device), *fixed, tuple(here))
        else:
            call(programs, 1, 1, stream(device), *fixed, *here)

    return WithWorkspace(at, *tensors, workspace=workspace) if workspace else Movable(at, *tensors)


def _described(
    program: Program, made: Made, kernel: Any, args: tuple[Any, ...], told: dict[str, Any], device: Device
) -> Compiled:
    """What a recording wants to know: the kernel as it was written, and beneath it what Helion makes of it."""
    found = jit.described(kernel, jit.compiled(args[0], kernel, args, told), args, told, device)
    source, file, line = compiler.written(program)
    both = f"{source}\n# What Helion makes of it:\n\n{made.source}"
    names = {f"block_{i}": size for i, size in enumerate(program.blocks)}
    return dataclasses.replace(
        found, language="helion", source=both, file=file, line=line, constants={**found.constants, **names}
    )
