"""Where a problem's rows lie, as row.cuh sees them: C types, packs of 16 bytes, edges."""

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.split import Split, split
from kernelzoo.layout import VECTOR_BYTES, Columns, Layout, Rows, Strides, cdiv

WARP = 32
PACKS_HELD = 8  # of a row of softmax, to a thread at most: 32 of the 64 registers that 1024 threads an SM can have
THREAD_ROW_BYTES = 192  # of a row as it is computed: what a thread holds of one, or of a gradient's two, without spills
MANY_PARTS = 64  # blocks to a strip of columns, each of which awaits all others: no more, where so many hold it
LEAST_SHARE = 64  # elements of a column that a block has at the least

# The kernels' name of each dtype; a bool is a byte, 0 or 1.
C_TYPES = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float", "float64": "double", "bool": "u8"}
C_TYPES |= {"uint8": "u8", "int8": "signed char", "int16": "short", "int32": "int", "int64": "i64"}


def c_type(layout: Layout) -> str:
    return C_TYPES[layout.dtype]


def side_by_side(rows: Rows, *along: Strides) -> bool:
    """Whether the elements of a row lie side by side in all tensors."""
    return rows.contiguous and rows.n > 1 and all(tensor.n == 1 for tensor in along)


def width(rows: Rows, *along: Strides) -> int:
    """Elements that a thread reads at once: a pack of 16 bytes where they lie side by side, else one."""
    return VECTOR_BYTES // rows.itemsize if side_by_side(rows, *along) and not rows.single else 1


def packs(rows: Rows, *along: Strides) -> int:
    """Packs of a row; one for a row too short to have any."""
    return max(1, rows.n // width(rows, *along))


def threads(packs: int, items: int) -> int:
    """Threads, in whole warps, that take ``items`` packs each."""
    return cdiv(packs, items * WARP) * WARP


def require_held(id: str, rows: Rows, wide: int, most: int, where: str) -> None:
    """Raise UnsupportedProblemError of a form where a row has more packs, of so many elements, than ``where`` holds."""
    if max(1, rows.n // wide) > most:
        reason = f"a row of {rows.n} elements doesn't fit in {where}, which hold {most * wide}"
        raise UnsupportedProblemError(id, reason)


def packed(rows: Rows) -> bool:
    """Whether every row starts and ends on a 16-byte boundary, so that none has edges."""
    return width(rows) > 1 and rows.aligned and rows.common() % width(rows) == 0


def one_piece(rows: Rows) -> bool:
    """Whether the rows are one piece of memory, as a single contiguous row is."""
    return rows.one_piece or (rows.planned == 1 and rows.contiguous)


def thread_has_row(rows: Rows) -> bool:
    """Whether a thread takes a whole row, of short ones across memory: threads side by side read whole lines of it."""
    return rows.across and rows.n * max(rows.itemsize, 4) <= THREAD_ROW_BYTES


def split_strips(strips: int, n: int, least: int, resident: int) -> Split:
    """Strips of columns by several blocks each: as few as hold one, ``least``, more where there is room for them."""
    room = max(1, resident // min(strips, resident))
    most = MANY_PARTS if least <= MANY_PARTS else resident  # all SMs read again what blocks don't hold
    parts = max(min(least, MANY_PARTS), min(room, most))
    return split(strips, n, min(parts, resident, cdiv(n, LEAST_SHARE)), 1, resident)


def columns_of(id: str, rows: Rows) -> Columns:
    """The problem by columns. Raises UnsupportedProblemError of a form where rows don't lie across memory."""
    if rows.columns is None:
        raise UnsupportedProblemError(id, "it takes columns, rows whose neighbours are nearer in memory than elements")
    return rows.columns
