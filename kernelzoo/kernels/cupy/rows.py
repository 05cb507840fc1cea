"""How kernels read a problem's rows, see ``Row`` in vector_io.cuh: C types, packs of 16 bytes, edges."""

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.split import Split, split
from kernelzoo.layout import VECTOR_BYTES, Columns, Layout, Rows, Strides, cdiv

WARP = 32
PACKS_HELD = 8  # most packs of a softmax row per thread: 32 of the 64 registers of a thread, with 1024 per SM
THREAD_ROW_BYTES = 192  # most bytes of a row, as computed, per thread: even two inputs of a gradient don't spill
MANY_PARTS = 64  # most blocks per strip of columns, if it fits in them: each waits for all others
LEAST_SHARE = 64  # fewest elements of a column per block

# The kernels' name of each dtype; a bool is a byte, 0 or 1.
C_TYPES = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float", "float64": "double", "bool": "u8"}
C_TYPES |= {"uint8": "u8", "int8": "signed char", "int16": "short", "int32": "int", "int64": "i64"}


def c_type(layout: Layout) -> str:
    return C_TYPES[layout.dtype]


def side_by_side(rows: Rows, *along: Strides) -> bool:
    """Whether rows are contiguous in all tensors, and longer than one element."""
    return rows.contiguous and rows.n > 1 and all(tensor.n == 1 for tensor in along)


def width(rows: Rows, *along: Strides) -> int:
    """Return the elements of a pack, which a thread reads at once: 16 bytes of contiguous rows, else one element."""
    return VECTOR_BYTES // rows.itemsize if side_by_side(rows, *along) and not rows.single else 1


def packs(rows: Rows, *along: Strides) -> int:
    """Return the number of packs of a row, at least one."""
    return max(1, rows.n // width(rows, *along))


def threads(packs: int, items: int) -> int:
    """Return the number of threads, in whole warps, if each takes ``items`` packs."""
    return cdiv(packs, items * WARP) * WARP


def require_fit(id: str, rows: Rows, wide: int, most: int, where: str) -> None:
    """Raise UnsupportedProblemError if a row doesn't fit in ``where``, which has room for ``most`` packs."""
    if max(1, rows.n // wide) > most:
        reason = f"a row of {rows.n} elements doesn't fit in {where}, which hold {most * wide}"
        raise UnsupportedProblemError(id, reason)


def packed(rows: Rows) -> bool:
    """Whether every row starts and ends on a 16-byte boundary, so that none has edges."""
    return width(rows) > 1 and rows.aligned and rows.common() % width(rows) == 0


def one_piece(rows: Rows) -> bool:
    """Whether all rows together are one piece of memory, as a single contiguous row is."""
    return rows.one_piece or (rows.planned == 1 and rows.contiguous)


def thread_has_row(rows: Rows) -> bool:
    """Whether a thread takes a whole row: rows are short and strided, so that neighbouring threads read whole lines."""
    return rows.across and rows.n * max(rows.itemsize, 4) <= THREAD_ROW_BYTES


def split_strips(strips: int, n: int, least: int, resident: int) -> Split:
    """Split each strip of columns among the ``least`` blocks that it fits in, or more if the device has room."""
    room = max(1, resident // min(strips, resident))
    most = MANY_PARTS if least <= MANY_PARTS else resident  # what doesn't fit is read again, by all SMs
    parts = max(min(least, MANY_PARTS), min(room, most))
    return split(strips, n, min(parts, resident, cdiv(n, LEAST_SHARE)), 1, resident)


def columns_of(id: str, rows: Rows) -> Columns:
    """Return the problem by columns. Raises UnsupportedProblemError unless rows are strided."""
    if rows.columns is None:
        raise UnsupportedProblemError(id, "it takes columns, rows whose neighbours are nearer in memory than elements")
    return rows.columns
