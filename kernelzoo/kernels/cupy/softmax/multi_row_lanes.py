from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy.launch import Plan, Step, plan_once
from kernelzoo.kernels.cupy.rows import c_type, matrix_is_contiguous
from kernelzoo.kernels.cupy.softmax.exact import plan_exact_sums
from kernelzoo.layout import Rows, cdiv
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob

THREADS = 128  # per block; its warps don't wait for each other
LANES = (2, 4, 8)  # per row. With more lanes, a warp's rows would not end on a 16-byte boundary
MOST_ELEMENTS = 264  # per row, at most: eight lanes have registers for so many
WORD_BYTES = 4  # that a lane reads at once from shared memory


@form_knobs
class Knobs:
    lane_elements: int = knob(40, among=(20, 24, 40), unit="elements", why="of a row in a lane's registers")


def can_use_lanes(rows: Rows) -> bool:
    """Whether rows are short, have 2 or 4 bytes per element, and are together one aligned piece of memory."""
    return matrix_is_contiguous(rows) and rows.aligned and rows.itemsize in (2, 4) and rows.n <= MOST_ELEMENTS


@register("cupy", "softmax", "multi_row_lanes")
@plan_once(Knobs)
def multi_row_lanes(rows: Rows, knobs: Knobs) -> Plan:
    """A few lanes process a short row, or two rows if only two fill complete 4-byte words."""
    rows, exact = plan_exact_sums(rows)
    if not can_use_lanes(rows):
        reason = f"it takes rows of up to {MOST_ELEMENTS} elements of 2 or 4 bytes, one piece of memory, on 16 bytes"
        raise UnsupportedProblemError("cupy/softmax/multi_row_lanes", reason)
    lanes = next((c for c in LANES if rows.n <= knobs.lane_elements * c), LANES[-1])
    row_bytes, groups = rows.n * rows.itemsize, THREADS // lanes
    together = 1 if row_bytes % WORD_BYTES == 0 else 2  # rows that fill complete words
    kernel = f"multi_row_lanes<{c_type(rows)}, {rows.n}, {lanes}, {THREADS}{exact}>"
    step = Step(kernel, cdiv(rows.total, groups * together), THREADS, (), groups * together * row_bytes)
    return Plan(rows, (step,))
