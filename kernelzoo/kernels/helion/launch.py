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
from kernelzoo.kernels.helion.compiler import ExampleTensor, KernelProgram, TritonCode
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.kernels.shared import jit
from kernelzoo.kernels.shared.cut import BlockSplit
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.shown import describe_source
from kernelzoo.launch import Compiled, Launch, LaunchStep, RebindableLaunch, WorkspaceLaunch, chain_launches, recording
from kernelzoo.layout import Rows
from kernelzoo.torch_private import current_stream


def bind_launch(
    id: str,
    program: KernelProgram,
    tensors: Sequence[torch.Tensor],
    arguments: Sequence[torch.Tensor],
    integers: Sequence[int] = (),
) -> Launch:
    """Compile a kernel for its arguments and return its launch.

    tensors: the canonical tensors, inputs first. arguments: the kernel's tensor arguments, which include workspaces.
    The integers, then the program's constants, follow ``arguments``. Raises GridTooLargeError.
    """
    code = compiler.to_triton(program)
    kernel, programs, args, options = code.launch_arguments(*arguments, *integers, *program.constants)
    jit.check_grid(id, programs)
    device, recorder = device_of(tensors[0]), recording.get()
    opts = jit.compiler_options(device, options["num_warps"], options["num_stages"], {})
    if device.allows_dependent_launches:
        opts["launch_pdl"] = False  # a Helion kernel can't wait for the previous launch to end
    if recorder is not None:
        step = LaunchStep(
            kernel=f"{kernel.__name__}, {program.warps} warps",
            grid=(programs,),
            threads=program.warps * device.warp_size,
            constants=(program.blocks, program.order, program.needs_int64, *map(str, program.constants)),
            arguments=tuple(str(arg) for arg in args if not isinstance(arg, torch.Tensor)),
            build=(lambda: _describe_code(program, code, kernel, args, opts, device)) if recorder.can_compile else None,
        )
        return recorder.make_launch(step)
    if jit.INTERPRETED:
        return jit.interpreted_launch(kernel, programs, args)
    return make_launch(jit.compile_program(tensors[0], kernel, args, opts, loads=True), programs, tensors, args)


def bind_tiled(
    id: str, kernel: Any, views: Sequence[torch.Tensor], tile: Tile, constants: tuple[Any, ...],
    blocks: tuple[int, ...], integers: Sequence[int] = (), *,
    arguments: Sequence[torch.Tensor] = (), order: tuple[int, ...] = (1, 0),
) -> Launch:  # fmt: skip
    """Return the launch of a kernel over tiles of rows. views: the canonical tensors, see ``rows_and_views``.

    arguments: the kernel's tensor arguments, by default the views. One with a single axis has n elements. order: the
    axes of the grid, fastest-varying first. By default they are inner, then outer.
    """
    arguments = arguments or views
    examples, far = tiles.example_tensors(*arguments, one_axis_name="n"), tiles.needs_int64(*arguments)
    program = KernelProgram(kernel, examples, len(integers), constants, blocks, order, tile.warps, far)
    return bind_launch(id, program, views, arguments, integers)


def bind_flat(
    id: str, kernel: Any, x: torch.Tensor, out: torch.Tensor, warps: int,
    integers: Sequence[int], constants: tuple[Any, ...], blocks: tuple[int, ...],
) -> Launch:  # fmt: skip
    """Return the launch of a kernel that receives x and out as flat tensors. Each must be one piece of memory."""
    flat = tiles.view_as_one_axis(x, out)
    examples = ExampleTensor(x.dtype, "all"), ExampleTensor(out.dtype, "all" if out.ndim == 3 else "outer")
    program = KernelProgram(kernel, examples, len(integers), constants, blocks, (), warps, tiles.needs_int64(*flat))
    return bind_launch(id, program, flat, flat, integers)


def bind_pair(
    id: str, kernels: tuple[Any, Any], tensors: Sequence[torch.Tensor], reads: int, rows: Rows, tile: Tile,
    plan: BlockSplit, part_dtypes: Sequence[torch.dtype], constants: tuple[Any, ...], *, blocks: tuple[int, ...] = (),
    merge_blocks: tuple[int, ...] = (), before_span: Sequence[int] = (), after_span: Sequence[int] = (),
) -> Launch:  # fmt: skip
    """Return two launches as one. The first reads ``reads`` tensors, and stores a number of each of ``part_dtypes`` per
    part. The second reads these numbers and all tensors. blocks, merge_blocks: their block sizes, by default the
    tile's. before_span, after_span: the integers of both before the span, of the second after it."""
    parts = [tiles.part_workspace(tensors[0], rows, plan, dtype) for dtype in part_dtypes]
    examples, far = tiles.example_tensors(*tensors), tiles.needs_int64(*tensors, *parts)
    blocks, integers = blocks or tile.block_sizes(), (*before_span, plan.span)
    of_parts = [ExampleTensor(dtype, "outer parts inner") for dtype in part_dtypes]

    def bind_step(
        kernel: Any, shapes: Sequence[ExampleTensor], arguments: Sequence[torch.Tensor], numbers: Sequence[int],
        blocks: tuple[int, ...],
    ) -> Launch:  # fmt: skip
        order = tuple(reversed(range(len(blocks))))
        program = KernelProgram(kernel, tuple(shapes), len(numbers), constants, blocks, order, tile.warps, far)
        return bind_launch(id, program, tensors, arguments, numbers)

    kinds, arguments = (*examples[:-1], *of_parts, examples[-1]), (*tensors[:-1], *parts, tensors[-1])
    return chain_launches(
        bind_step(kernels[0], (*examples[:reads], *of_parts), (*tensors[:reads], *parts), integers, blocks),
        bind_step(kernels[1], kinds, arguments, (*integers, *after_span), merge_blocks or blocks),
    )


def make_launch(compiled: Any, programs: int, tensors: Sequence[torch.Tensor], args: tuple[Any, ...]) -> Launch:
    """Return the launch of a loaded kernel. The kernel may take canonical tensors in any order, or omit some."""
    call, fixed, together = jit.make_launcher_call(compiled)
    device: int = tensors[0].get_device()
    stream = current_stream
    places: list[tuple[int, int]] = []
    values, workspace = list(args), []
    for place, arg in enumerate(args):
        if isinstance(arg, torch.Tensor):
            values[place] = arg.data_ptr()
            which = next((i for i, tensor in enumerate(tensors) if tensor is arg), None)
            if which is None:
                workspace.append(arg)
            else:
                places.append((place, which))

    def run_at(*addresses: int) -> None:
        here = values.copy()
        for place, which in places:
            here[place] = addresses[which]
        if together:
            call(programs, 1, 1, stream(device), *fixed, tuple(here))
        else:
            call(programs, 1, 1, stream(device), *fixed, *here)

    return WorkspaceLaunch(run_at, *tensors, workspace=workspace) if workspace else RebindableLaunch(run_at, *tensors)


def _describe_code(
    program: KernelProgram, code: TritonCode, kernel: Any, args: tuple[Any, ...], opts: dict[str, Any], device: Device
) -> Compiled:
    """Return the compiled kernel's description for a recording. The generated source follows the Helion source."""
    found = jit.describe_code(kernel, jit.compile_program(args[0], kernel, args, opts), args, opts, device)
    kernel_source = describe_source(program.kernel.fn)
    kernel_source["source"] += f"\n# What Helion makes of it:\n\n{code.source}"
    names = {f"block_{i}": size for i, size in enumerate(program.blocks)}
    return replace(found, language="helion", constants={**found.constants, **names}, **kernel_source)
