"""Plans of kernels in which several blocks share each long row, see parts.cuh."""

from kernelzoo.device import Device
from kernelzoo.kernels.cupy.lanes import choose_lanes, ragged_width, template_instance
from kernelzoo.kernels.cupy.launch import I32, I64, Argument, Plan, Step
from kernelzoo.kernels.shared.long_rows import count_row_parts
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv

STATE_BYTES = 16  # per part, at most


def choose_parts(rows: Rows, device: Device) -> tuple[int, int]:
    """Return (parts per row, elements per part). All parts of a row but its last consist of complete vectors."""
    span = cdiv(max(1, cdiv(rows.n, count_row_parts(rows, device))), VECTOR_BYTES) * VECTOR_BYTES
    return max(1, cdiv(rows.n, span)), span


def plan_parts(
    rows: Rows, *others: Strides, device: Device, dtypes: tuple[str, ...], scalars: tuple[Argument, ...] = ()
) -> Plan:
    """Return the plan of a kernel ``split``, instantiated for ``dtypes``. ``scalars`` are its last parameters."""
    (parts, span), wide = choose_parts(rows, device), ragged_width(rows)
    lanes, together = choose_lanes(rows, min(rows.n, span), wide)
    groups = cdiv(rows.total, together)
    shares: tuple[Argument, ...] = ("partial", "counters", (I32, parts), (I64, span))
    arguments = ((I32, lanes), (I32, int(rows.is_strided)), *shares, *scalars)
    step = Step(template_instance("split", dtypes, wide), groups * parts, lanes * together, arguments)
    return Plan(rows, (step,), rows.total * parts * STATE_BYTES, groups * 4, others)
