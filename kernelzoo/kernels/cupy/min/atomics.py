"""The steps of both atomic forms: fill the output, reduce rows, and convert 32-bit minima to dtypes below 32 bits."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import I64, Plan, Step
from kernelzoo.kernels.cupy.min.tiles import ITEMS, THREADS, Knobs
from kernelzoo.kernels.cupy.rows import WARP, c_type, count_packs, pack_width
from kernelzoo.layout import Rows, cdiv

TILE_ROWS = 8  # per block: one row per warp


def count_chunks(rows: Rows, device: Device, knobs: Knobs) -> int:
    """Return the number of blocks along the reduced axis. All run at once. A lane has ``ITEMS`` packs to load."""
    return max(1, min(cdiv(count_packs(rows), WARP * ITEMS), knobs.blocks_per_sm * device.multiprocessors))


def plan_atomic_steps(form: str, rows: Rows, chunks: int, row_blocks: int) -> Plan:
    """Return the plan of a form, with ``chunks`` blocks along the reduced axis and ``row_blocks`` across rows."""
    name, narrow, over_rows = c_type(rows), rows.itemsize < 4, cdiv(rows.total, THREADS)
    kernel, block_n = f"{form}<{name}, {pack_width(rows)}, {ITEMS}>", cdiv(count_packs(rows), chunks)
    steps = [
        Step(f"fill<{name}>", over_rows, THREADS, ("partial",)),
        Step(kernel, chunks, THREADS, ("partial", (I64, block_n)), grid_y=row_blocks),
    ]
    if narrow:
        steps.append(Step(f"narrow_output<{name}>", over_rows, THREADS, ("partial",)))
    return Plan(rows, tuple(steps), partial_bytes=rows.total * 4 if narrow else 0)
