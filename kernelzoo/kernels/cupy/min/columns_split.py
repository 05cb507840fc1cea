from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step, plan_once
from kernelzoo.kernels.cupy.min.tiles import ITEMS, Knobs, choose_multi_block_tile
from kernelzoo.kernels.cupy.rows import c_type, require_columns
from kernelzoo.layout import VECTOR_BYTES, Rows, cdiv
from kernelzoo.registry import register


@register("cupy", "min", "columns_split")
@plan_once(Knobs)
def columns_split(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """Several blocks share a tile of adjacent columns. The last to finish merges their minima: one launch."""
    columns = require_columns("cupy/min/columns_split", rows)
    tile, chunks = choose_multi_block_tile(columns, device, knobs.column_blocks)
    kernel = f"columns_split<{c_type(columns)}, {tile.width}, {ITEMS}>"
    shares: tuple[Argument, ...] = ("partial", "counters", (I32, chunks), (I64, cdiv(columns.n, chunks)))
    step = Step(kernel, tile.count * chunks, tile.threads, (*shares, *tile.arguments))
    return Plan(columns, (step,), tile.count * chunks * tile.lanes * VECTOR_BYTES, tile.count * 4)
