from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import I32, Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import WARP, c_type, count_packs, pack_width
from kernelzoo.layout import VECTOR_BYTES, Rows, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

LANES = 512  # threads that compute, per block; one more warp copies
TILE = 2 * LANES  # packs per tile: two per thread
MOST_TILES = 13  # tiles of 16 kB per block, at most: they fill shared memory
OTHER_BYTES = 12 * 1024  # shared memory for other data
MOST_PARTS = 256  # blocks per row, at most: the kernel has shared memory for so many pairs


@form_knobs
class Knobs:
    # Half of the L2 cache, so that data is still cached when it is read again. Several groups of blocks use more memory
    # bandwidth than one: some read while others write.
    ring_megabytes: int = knob(42, among=(21, 42, 63, 84), unit="MB", why="of rows that are in hand at a time")


def can_use_ring(rows: Rows, device: Device) -> bool:
    """Whether rows have 16-byte packs, the device has bulk copies (sm_90 on), and, in float64, is older than sm_120."""
    registers = rows.dtype != "float64" or device.capability < 120
    return pack_width(rows) > 1 and device.capability >= 90 and registers


@register("cupy", "softmax", "split_ring")
@plan_once(Knobs)
def split_ring(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """Many blocks share a row. Each prefetches its part into a ring of tiles. They swap (max, sum) pairs."""
    if not can_use_ring(rows, device):
        reason = "it takes rows whose elements lie side by side, from sm_90 on, and float64 up to sm_100"
        raise UnsupportedProblemError("cupy/softmax/split_ring", reason)
    count, sms = count_packs(rows), device.multiprocessors
    tiles = min(MOST_TILES, (device.shared_per_block - OTHER_BYTES) // (TILE * VECTOR_BYTES))
    if rows.planned > sms:  # as few parts as can store a row
        parts = cdiv(count, tiles * TILE)
    else:  # all SMs process as many rows at a time as the knob allows
        in_hand = max(1, min(rows.planned, knobs.ring_megabytes * 10**6 // (count * VECTOR_BYTES)))
        in_hand = cdiv(rows.planned, cdiv(rows.planned, in_hand))  # the same number of rows each time
        parts = sms // in_hand
    parts = max(1, min(parts, sms, MOST_PARTS, count // LANES))
    groups = min(rows.total, sms // parts)
    step = Step(
        f"split_ring<{c_type(rows)}, {LANES}>",
        groups * parts,
        LANES + WARP,
        ("counters", (I32, parts), (I32, tiles)),
        tiles * TILE * VECTOR_BYTES,
        cooperative=True,
    )
    pair_bytes = 16 if rows.itemsize == 8 else 8
    return Plan(rows, (step,), counter_bytes=rows.total * parts * 2 * pair_bytes)
