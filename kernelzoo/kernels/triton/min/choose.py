import torch

from kernelzoo.kernels.shared.jit import device_of, edge_vector_size
from kernelzoo.kernels.triton.min import atomics, columns, split
from kernelzoo.kernels.triton.min.rows import RowKnobs
from kernelzoo.kernels.triton.min.rows_deferred import short_tile
from kernelzoo.kernels.triton.min.tiles import whole_row_tile
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

SMALL_TILES = {2: 4608, 4: 2048}
"""The row length above which small tiles are faster if rows have edges, by bytes per element."""


@launch_table("triton", "min")
class Knobs(RowKnobs, atomics.Knobs, split.Knobs):
    across_percent: int = knob(
        50,
        among=(25, 50, 100),
        unit="% of the SMs",
        why="with a tile of columns each, below which several programs take each tile",
    )


@chooser("triton", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Each program takes complete rows if these fill the device. Otherwise several programs share a row."""
    layout, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if short_tile(layout, x.dtype, device) is not None:
        return "rows_deferred"
    across = layout.as_columns
    if across is not None:
        strips = across.strip_count(columns.choose_column_tile(knobs, across).columns)
        idle = strips < knobs.across_percent / 100 * device.multiprocessors
        return "split" if idle and layout.n > knobs.short_across else "columns"
    bytes, edges = layout.n * layout.itemsize, edge_vector_size(layout)
    if bytes > knobs.row_bytes and layout.total < knobs.crowd * device.multiprocessors:
        # Half as many rows as SMs fill the device if each row is read at once.
        once = 2 * layout.total >= device.multiprocessors and whole_row_tile(knobs, layout, x.dtype, device, edges)
        return "rows_deferred" if once else "split"
    # The minimum of integers spills registers in the form ``rows``.
    if bytes > knobs.row_bytes or not x.dtype.is_floating_point:
        return "rows_deferred"
    # If rows have edges and are longer than a block, a smaller tile wastes less.
    longer = edges and layout.n > SMALL_TILES.get(layout.itemsize, layout.n)
    return "rows_deferred" if longer else "rows"
