"""Kernels read a row as packs of 16 bytes between two unaligned edges. See ``Row`` in vector_io.cuh."""

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.split import RowSplit, split
from kernelzoo.layout import VECTOR_BYTES, Columns, Layout, Rows, Strides, cdiv

WARP = 32
PACKS_HELD = 8  # packs of a softmax row per thread, at most: they take 32 of 64 registers, at 1024 threads per SM
THREAD_ROW_BYTES = 192  # bytes of a widened row per thread, at most: even a gradient's two inputs don't spill
MANY_PARTS = 64  # blocks per strip of columns, at most, if it fits in them: each waits for all others
LEAST_SHARE = 64  # elements of a column per block, at least

# The C type of each dtype. A bool is a byte, 0 or 1.
C_TYPES = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float", "float64": "double", "bool": "u8"}
C_TYPES |= {"uint8": "u8", "int8": "signed char", "int16": "short", "int32": "int", "int64": "i64"}


def c_type(layout: Layout) -> str:
    return C_TYPES[layout.dtype]


def has_contiguous_rows(rows: Rows, *along: Strides) -> bool:
    """Whether all tensors' rows are contiguous and have more than one element."""
    return rows.contiguous and rows.n > 1 and all(tensor.n == 1 for tensor in along)


def pack_width(rows: Rows, *along: Strides) -> int:
    """Return the number of elements per pack. A pack is 16 bytes of a contiguous row, or else one element."""
    return VECTOR_BYTES // rows.itemsize if has_contiguous_rows(rows, *along) and not rows.single else 1


def count_packs(rows: Rows, *along: Strides) -> int:
    """Return the number of packs per row, at least one."""
    return max(1, rows.n // pack_width(rows, *along))


def num_threads(packs: int, items: int) -> int:
    """Return the number of threads that process ``packs`` packs, ``items`` per thread, rounded up to complete warps."""
    return cdiv(packs, items * WARP) * WARP


def require_fit(id: str, rows: Rows, wide: int, most: int, where: str) -> None:
    """Raise UnsupportedProblemError if a row has more than ``most`` packs. ``where`` names the memory for them."""
    if max(1, rows.n // wide) > most:
        reason = f"a row of {rows.n} elements doesn't fit in {where}, which hold {most * wide}"
        raise UnsupportedProblemError(id, reason)


def rows_are_aligned(rows: Rows) -> bool:
    """Whether every row starts and ends on a 16-byte boundary, so that no row has edges."""
    return pack_width(rows) > 1 and rows.aligned and rows.offset_gcd() % pack_width(rows) == 0


def matrix_is_contiguous(rows: Rows) -> bool:
    """Whether all rows together are one contiguous piece of memory."""
    return rows.is_gapless or (rows.planned == 1 and rows.contiguous)


def fits_one_thread(rows: Rows) -> bool:
    """Whether each thread has a row of its own: rows are short, strided, and next to each other in memory."""
    return rows.is_strided and rows.n * max(rows.itemsize, 4) <= THREAD_ROW_BYTES


def split_strips(strips: int, n: int, least: int, resident: int) -> RowSplit:
    """Split each strip of columns among ``least`` blocks, which can store the strip, or among more if SMs are free."""
    room = max(1, resident // min(strips, resident))
    most = MANY_PARTS if least <= MANY_PARTS else resident  # if the strip doesn't fit, all SMs read it again
    parts = max(min(least, MANY_PARTS), min(room, most))
    return split(strips, n, min(parts, resident, cdiv(n, LEAST_SHARE)), 1, resident)


def require_columns(id: str, rows: Rows) -> Columns:
    """Return the problem as columns. Raises UnsupportedProblemError unless rows are strided."""
    if rows.as_columns is None:
        raise UnsupportedProblemError(id, "it takes columns, rows whose neighbours are nearer in memory than elements")
    return rows.as_columns
