"""Two launches. In a single launch, a program would need a barrier before its arrival counts. Helion has none."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import ExampleTensor, KernelProgram
from kernelzoo.kernels.helion.device_functions import load_masked, row_end_indices, vector_bounds
from kernelzoo.kernels.helion.launch import bind_launch
from kernelzoo.kernels.helion.min.rows import rows_kernel
from kernelzoo.kernels.helion.min.tiles import kernel_constants, running_min_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import bool_as_uint8, next_power_of_two
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def parts_kernel(x, partials, span, highest: hl.constexpr, acc_dtype: torch.dtype):
    """Each program reads span elements of each row of a tile. highest: a value that no element exceeds."""
    outer, n, inner = x.size()
    parts = partials.size(1)
    block = hl.register_block_size(n)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        least = hl.full([o, block, i], highest, dtype=acc_dtype)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n), block_size=block):
            inside = (c.index < n)[None, :, None]
            least = torch.minimum(least, torch.where(inside, x[o, c, i].to(acc_dtype), highest))
        partials[o, part.begin, i] = torch.amin(least, dim=1)


@helion.kernel(static_shapes=False)
def ragged_parts_kernel(x, partials, n, span, highest: hl.constexpr, acc_dtype: torch.dtype, shift: hl.constexpr):
    """Each program reads span elements of a row's whole vectors, and the row's ends. Ends may be read several times."""
    rows, parts, _ = partials.size()
    block = hl.register_block_size(span)
    for o, part in hl.tile([rows, parts], block_size=[None, 1]):
        row = o.index[:, None]
        first, stop = vector_bounds(row, n, shift)
        running = hl.full([o, block], highest, dtype=acc_dtype)
        for c in hl.tile(part.begin * span, part.begin * span + span, block_size=block):
            place = first + c.index[None, :]
            running = torch.minimum(running, load_masked(x, place, place < stop, highest, acc_dtype))
        end, outside = row_end_indices(row, n, first, stop, shift)
        least = torch.amin(load_masked(x, end, outside, highest, acc_dtype), dim=1)
        partials[o, part.begin, 0] = torch.minimum(least, torch.amin(running, dim=1))


@register("helion", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store partial minima. A second launch reduces them."""
    id, x, out = "helion/min/split", bool_as_uint8(x), bool_as_uint8(out)
    rows, views = tiles.rows_and_views(x, out)
    device = device_of(x)
    tile = running_min_tile(device, rows)
    plan = tiles.plan_parts(rows, tile, device)
    partials = tiles.part_workspace(x, rows, plan, tiles.acc_dtype(x))
    (whole, last), far = tiles.example_tensors(partials, views[1]), tiles.needs_int64(*views, partials)
    lanes = tile.outer, tile.inner, next_power_of_two(plan.parts)
    reduce = KernelProgram(rows_kernel, (whole, last), 0, kernel_constants(rows, x)[:2], lanes, (1, 0), 1, far)
    kernel, numbers = parts_kernel, [plan.span]
    blocks: tuple[int, ...] = (tile.cols, tile.outer, tile.inner)
    if tiles.hides_vectors(rows):
        views, blocks = (tiles.view_as_one_axis(x)[0], views[1]), blocks[:2]
        kernel, numbers, far = ragged_parts_kernel, [rows.n, plan.span], tiles.needs_int64(views[0], partials)
    examples = *tiles.example_tensors(views[0]), ExampleTensor(partials.dtype, "outer parts inner")
    order = tuple(reversed(range(len(blocks))))
    leave = KernelProgram(kernel, examples, len(numbers), kernel_constants(rows, x), blocks, order, tile.warps, far)
    first = bind_launch(id, leave, views, (views[0], partials), numbers)
    return chain_launches(first, bind_launch(id, reduce, views, (partials, views[1])))
