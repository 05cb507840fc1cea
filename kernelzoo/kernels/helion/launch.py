"""Launches of kernels written in Helion. The bind compiles a kernel and packs its arguments.

Helion's own call inspects every argument, looks up the configuration and computes the grid each time. Here the bind
does so once, and a launch calls the compiled kernel directly, as in the triton backend.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.helion import compiler, tiles
from kernelzoo.kernels.helion.compiler import Example, Program, TritonCode
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.kernels.shared import jit
from kernelzoo.kernels.shared.cut import BlockSplit
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.shown import source_facts
from kernelzoo.launch import Compiled, Launch, RebindableLaunch, Step, WorkspaceLaunch, recording, sequence
from kernelzoo.layout import Rows
from kernelzoo.torch_private import current_stream


def bind_program(
    id: str,
    program: Program,
    tensors: Sequence[torch.Tensor],
    taken: Sequence[torch.Tensor],
    integers: Sequence[int] = (),
) -> Launch:
    """Compile a kernel for its arguments and return its launch.

    tensors: the canonical tensors, inputs first. taken: the kernel's tensor arguments, which are these or workspaces.
    The integers, then the program's constants, follow ``taken``. Raises GridTooLargeError.
    """
    made = compiler.made(program)
    kernel, programs, args, options = made.launch_arguments(*taken, *integers, *program.constants)
    jit.check_grid(id, programs)
    device, recorder = device_of(tensors[0]), recording.get()
    told = jit.compiler_options(device, options["num_warps"], options["num_stages"], {})
    if device.dependent_launches:
        told["launch_pdl"] = False  # a Helion kernel can't wait for the previous launch to end
    if recorder is not None:
        step = Step(
            kernel=f"{kernel.__name__}, {program.warps} warps",
            grid=(programs,),
            threads=program.warps * device.warp_size,
            constants=(program.blocks, program.order, program.needs_int64, *map(str, program.constants)),
            arguments=tuple(str(arg) for arg in args if not isinstance(arg, torch.Tensor)),
            build=(lambda: _describe_kernel(program, made, kernel, args, told, device)) if recorder.compiles else None,
        )
        return recorder.launch(step)
    if jit.INTERPRETED:
        return jit.interpreted_launch(kernel, programs, args)
    return make_launch(jit.compile_kernel(tensors[0], kernel, args, told, loads=True), programs, tensors, args)


def views_launch(
    id: str, kernel: Any, views: Sequence[torch.Tensor], tile: Tile, constants: tuple[Any, ...],
    blocks: tuple[int, ...], integers: Sequence[int] = (), *,
    taken: Sequence[torch.Tensor] = (), order: tuple[int, ...] = (1, 0),
) -> Launch:  # fmt: skip
    """Return the launch of a kernel over tiles of rows. views: the canonical tensors, see ``rows_and_views``.

    taken: the kernel's tensor arguments, by default the views. One-axis tensors have n elements. order: the axes of the
    grid, fastest-varying first; by default inner, then outer.
    """
    taken = taken or views
    examples, far = tiles.as_examples(*taken, one="n"), tiles.needs_int64(*taken)
    program = Program(kernel, examples, len(integers), constants, blocks, order, tile.warps, far)
    return bind_program(id, program, views, taken, integers)


def flat_launch(
    id: str, kernel: Any, x: torch.Tensor, out: torch.Tensor, warps: int,
    integers: Sequence[int], constants: tuple[Any, ...], blocks: tuple[int, ...],
) -> Launch:  # fmt: skip
    """Return the launch of a kernel that receives x and out as flat tensors. Each must be one piece of memory."""
    flat = tiles.flat_views(x, out)
    examples = Example(x.dtype, "all"), Example(out.dtype, "all" if out.ndim == 3 else "outer")
    program = Program(kernel, examples, len(integers), constants, blocks, (), warps, tiles.needs_int64(*flat))
    return bind_program(id, program, flat, flat, integers)


def two_launches(
    id: str, kernels: tuple[Any, Any], tensors: Sequence[torch.Tensor], reads: int, rows: Rows, tile: Tile,
    plan: BlockSplit, left: Sequence[torch.dtype], constants: tuple[Any, ...], *, blocks: tuple[int, ...] = (),
    last: tuple[int, ...] = (), before: Sequence[int] = (), also: Sequence[int] = (),
) -> Launch:  # fmt: skip
    """Return a sequence of two launches. The first reads ``reads`` tensors, and stores one number of each dtype in
    ``left`` per part of a row. The second reads these numbers and all tensors. blocks: by default the tile's. last: the
    second launch's, if different. before: integers before the span. also: the second launch's integers after it."""
    parts = [tiles.part_workspace(tensors[0], rows, plan, dtype) for dtype in left]
    examples, far, blocks = tiles.as_examples(*tensors), tiles.needs_int64(*tensors, *parts), blocks or tile.blocks()
    of_parts, integers = [Example(dtype, "outer parts inner") for dtype in left], (*before, plan.span)

    def bind_step(
        kernel: Any, kinds: Sequence[Example], taken: Sequence[torch.Tensor], numbers: Sequence[int],
        blocks: tuple[int, ...],
    ) -> Launch:  # fmt: skip
        order = tuple(reversed(range(len(blocks))))
        program = Program(kernel, tuple(kinds), len(numbers), constants, blocks, order, tile.warps, far)
        return bind_program(id, program, tensors, taken, numbers)

    kinds, taken = (*examples[:-1], *of_parts, examples[-1]), (*tensors[:-1], *parts, tensors[-1])
    return sequence(
        bind_step(kernels[0], (*examples[:reads], *of_parts), (*tensors[:reads], *parts), integers, blocks),
        bind_step(kernels[1], kinds, taken, (*integers, *also), last or blocks),
    )


def make_launch(compiled: Any, programs: int, tensors: Sequence[torch.Tensor], args: tuple[Any, ...]) -> Launch:
    """Return the launch of a loaded kernel. Its arguments may include canonical tensors in any order, or omit some."""
    call, fixed, together = jit.launcher_call(compiled)
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

    def run_at(*addresses: int) -> None:
        here = given.copy()
        for place, which in places:
            here[place] = addresses[which]
        if together:
            call(programs, 1, 1, stream(device), *fixed, tuple(here))
        else:
            call(programs, 1, 1, stream(device), *fixed, *here)

    return WorkspaceLaunch(run_at, *tensors, workspace=workspace) if workspace else RebindableLaunch(run_at, *tensors)


def _describe_kernel(
    program: Program, made: TritonCode, kernel: Any, args: tuple[Any, ...], told: dict[str, Any], device: Device
) -> Compiled:
    """Return the compiled kernel's description for a recording. The generated source follows the Helion source."""
    found = jit.kernel_facts(kernel, jit.compile_kernel(args[0], kernel, args, told), args, told, device)
    kernel_source = source_facts(program.kernel.fn)
    kernel_source["source"] += f"\n# What Helion makes of it:\n\n{made.source}"
    names = {f"block_{i}": size for i, size in enumerate(program.blocks)}
    return replace(found, language="helion", constants={**found.constants, **names}, **kernel_source)
