from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.min.tiles import ITEMS, choose_one_block_tile
from kernelzoo.kernels.cupy.rows import c_type, require_columns
from kernelzoo.layout import Rows
from kernelzoo.registry import register


@register("cupy", "min", "columns")
@plan_once()
def columns(rows: Rows, device: Device) -> Plan:
    """A block reduces a tile of adjacent columns. Adjacent lanes read adjacent columns, and each loops down its own."""
    columns = require_columns("cupy/min/columns", rows)
    tile = choose_one_block_tile(columns, device)
    kernel = f"columns<{c_type(columns)}, {tile.width}, {ITEMS}>"
    return Plan(columns, (Step(kernel, tile.count, tile.threads, tile.arguments),))
