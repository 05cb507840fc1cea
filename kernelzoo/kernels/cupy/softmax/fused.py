from kernelzoo.device import Device
from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import PACKS_HELD, c_type, count_packs, num_threads, pack_width, require_fit
from kernelzoo.kernels.cupy.softmax.exact import plan_exact_sums
from kernelzoo.layout import Rows
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

MOST_PACKS = 1024 * PACKS_HELD  # per row, at most, for the largest block
SM_THREADS = 1024  # threads per SM, at 64 registers each


@form_knobs
class Knobs:
    resident_percent: int = knob(150, among=(100, 150, 300), unit="% of resident rows", why="with four packs a thread")
    half_threads: int = knob(256, among=(128, 256, 512), unit="threads", why="below which halves stay by fours")


@register("cupy", "softmax", "fused")
@plan_once(Knobs)
def fused(rows: Rows, device: Device, knobs: Knobs) -> Plan:
    """One block per row, which it keeps in registers: one read and one write of the matrix."""
    rows, exact = plan_exact_sums(rows)
    require_fit("cupy/softmax/fused", rows, pack_width(rows), MOST_PACKS, "the registers of one block")
    items = _packs_per_thread(rows, device, knobs)
    kernel = f"fused<{c_type(rows)}, {pack_width(rows)}, {items}{exact}>"
    return Plan(rows, (Step(kernel, rows.total, num_threads(count_packs(rows), items)),))


def _packs_per_thread(rows: Rows, device: Device, knobs: Knobs) -> int:
    """Return the packs per thread: 1 or 2 for very short rows, 4 for few rows or short ones in half precision, or 8."""
    count = count_packs(rows)
    if count <= 240:  # so that a block has at least two warps
        return 1 if count <= 128 else 2
    by_fours = num_threads(count, 4)
    if by_fours > SM_THREADS // 2:
        return 8
    few = 100 * rows.planned <= knobs.resident_percent * (SM_THREADS // by_fours) * device.multiprocessors
    return 4 if few or (rows.itemsize == 2 and by_fours < knobs.half_threads) else 8
