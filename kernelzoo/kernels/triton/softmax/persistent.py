import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bind_grid, device_of, edge_vector_size, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.softmax import tiles
from kernelzoo.kernels.triton.softmax.device_functions import softmax_row
from kernelzoo.kernels.triton.softmax.tiles import single_row_tile_length
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob, of

REDUCTION_BYTES = 4096
"""Bytes of shared memory for reductions, in addition to prefetched rows."""


@form_knobs
class Knobs:
    stages: int = knob(
        0,
        among=(0, 2, 3, 4),
        unit="rows",
        why="that persistent has under way; 0: four where an SM has more than 200 kB of shared memory, else two",
    )


@triton.jit
def persistent_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n *= MULTIPLE
    cols = tl.arange(0, COLS)
    for i in tl.range(tl.program_id(0).to(tl.int64), rows, tl.num_programs(0), num_stages=STAGES):
        row = tl.cast(i, tl.int64)
        x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
        out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
        softmax_row(x, x_start, x_n, out, out_start, out_n, n, cols, ACC_DTYPE, EDGES)


@register("triton", "softmax", "persistent")
def persistent(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A grid that fills the device once strides over rows. The next rows are prefetched.

    After Triton's tutorial python/tutorials/02-fused-softmax.py in its last version.
    """
    rows, device = rows_of(x, out), device_of(x)
    edges = edge_vector_size(rows)
    columns = single_row_tile_length(rows, edges, "triton/softmax/persistent")
    warps = tiles.tile_warps(of(tiles.Knobs, device.index), device, rows, columns)
    # One row is in registers, the prefetched ones are in shared memory. So long rows have fewer stages.
    stages = of(Knobs, device.index).stages or (4 if device.shared_per_block > 200 * 1024 else 2)
    stages = min(stages, 1 + (device.shared_per_block - REDUCTION_BYTES) // (columns * rows.itemsize))
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), edges, columns, stages)

    def programs(resident: int) -> int:
        return min(rows.total, device.multiprocessors * resident)

    return bind_grid("triton/softmax/persistent", persistent_kernel, programs, args, warps, stages)
