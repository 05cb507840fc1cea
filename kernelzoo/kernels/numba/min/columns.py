from dataclasses import dataclass
from math import gcd

from numba import cuda
from numba.cuda import types

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import WARP, divide_uint32, minimum
from kernelzoo.kernels.numba.dtypes import WIDE, highest, identity_word, is_packed, itemsize, register_type
from kernelzoo.kernels.numba.launch import BindView, Source, check_grid, make_once, plan_once, prepare_kernel
from kernelzoo.kernels.numba.min.row_tiles import vectors_in_flight
from kernelzoo.kernels.numba.tiling import RowView, column_arguments, find_adjacent_columns
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, cdiv
from kernelzoo.registry import register

MOST_THREADS = 512
"""The most threads of a block."""
AT_ONCE = 8
"""The minimum number of vectors per thread. Short columns have fewer threads."""
MOST_WIDE = 256
"""The most rows of a strip."""


@make_once
def columns_kernel(dtype: str, tiles: int) -> Source:
    """Each thread reads ``tiles`` aligned vectors at a time down the columns, whatever the rows' alignment.

    A block reduces one strip of ``wide`` neighbouring rows. A group of rows has ``across`` strips. ``lanes`` threads
    read the vectors that cover element i of each row, for ``depths`` values of i at a time. A thread's next vectors
    are ``depths`` elements further down. Alignment repeats there, so each of its elements stays in the same row."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    VEC = VECTOR_BYTES // itemsize(dtype)
    PACKED = is_packed(dtype, VEC)
    LOW_BITS, SHIFT, TILES = VEC - 1, VEC.bit_length() - 1, tiles
    WORD, WORDS = register_type(dtype, VEC), VEC // 2 if PACKED else VEC
    HELD = WORDS * tiles
    PITCH = MOST_THREADS + WARP // VEC  # neighbouring threads read neighbouring elements from different banks
    PLACES = VEC * PITCH
    IDENTITY = identity_word(dtype, VEC, HIGHEST)
    load_vector, _ = machine.vector_functions(dtype, VEC)
    load, store = machine.element_accessors(dtype)
    low, high, _, _, packed_min = machine.packed_functions(dtype)
    combine = packed_min if PACKED else minimum

    def columns(
        x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, phase, across, lanes, wide, depths
    ):
        held = cuda.local.array(HELD, WORD)
        least = cuda.local.array(WORDS, WORD)
        places = cuda.shared.array(PLACES, kind)
        minima = cuda.shared.array(MOST_THREADS, kind)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        depth = divide_uint32(t, lanes)
        lane = t - depth * lanes
        block = types.int64(cuda.blockIdx.x)
        group = divide_uint32(block, across)
        column = (block - group * across) * wide
        live = min(wide, neighbours - column)
        source = group * x_group + column
        every = (groups - 1) * x_group + (n - 1) * x_step + neighbours
        head, tail = -phase & LOW_BITS, every - (phase + every & LOW_BITS)  # aligned vectors cover x from head to tail
        begins = lane * VEC - (phase + source + depth * x_step & LOW_BITS)
        i = depth
        end = n if depth < depths and begins < live else types.int64(0)
        if source + begins + i * x_step < 0:
            i += depths
        if source + begins + (n - 1) * x_step >= tail:
            end = min(end, n - 1)
        at, step = source + begins + i * x_step, depths * x_step
        for k in range(WORDS):
            least[k] = IDENTITY
        while i < end:
            for tile in range(TILES):
                for k in range(WORDS):
                    held[tile * WORDS + k] = IDENTITY
                load_vector(x, at + tile * step, held, tile * WORDS, i + tile * depths < end)
            for tile in range(TILES):
                for k in range(WORDS):
                    least[k] = combine(least[k], held[tile * WORDS + k])
            i += TILES * depths
            at += TILES * step
        for k in range(WORDS):
            if PACKED:
                places[2 * k * PITCH + t] = low(least[k])
                places[(2 * k + 1) * PITCH + t] = high(least[k])
            else:
                places[k * PITCH + t] = least[k]
        cuda.syncthreads()

        # All of a row's threads (sharers) reduce its elements in ``places``. Then one thread reduces their results.
        sharers, sharer = divide_uint32(threads, wide), divide_uint32(t, wide)
        row = t - sharer * wide
        value = HIGHEST
        if row < live:
            depth = sharer if sharer < sharers else depths
            while depth < depths:
                j = row + (phase + source + depth * x_step & LOW_BITS)
                value = minimum(value, places[(j & LOW_BITS) * PITCH + depth * lanes + (j >> SHIFT)])
                depth += sharers
            if sharer == 0:  # elements outside the vectors
                if source + row < head:
                    value = minimum(value, load(x, source + row))
                if source + row + (n - 1) * x_step >= tail:
                    value = minimum(value, load(x, source + row + (n - 1) * x_step))
        minima[t] = value
        cuda.syncthreads()
        if t < live:
            for sharer in range(1, sharers):
                value = minimum(value, minima[sharer * wide + t])
            store(out, group * out_group + (column + t) * out_step, value)

    return Source(columns, (dtype, dtype), MOST_THREADS, 2)


@dataclass(frozen=True)
class Strips:
    """How ``columns_kernel`` cuts columns into strips."""

    across: int
    """The number of strips per group of rows."""
    lanes: int
    wide: int
    depths: int

    @property
    def threads(self) -> int:
        return cdiv(max(self.lanes * self.depths, self.wide), WARP) * WARP


def cut_strips(v: Rows, lanes: int, threads: int) -> tuple[Columns, Strips] | None:
    """Cut columns into strips of up to ``lanes`` vectors, ``threads`` threads. None if they overlap or fill none."""
    c, vec = find_adjacent_columns(v), v.vector_elements
    if c is None or not vec <= c.inner <= c.x_n or (c.outer > 1 and c.x_outer < c.inner):
        return None
    extra = vec - 1 if c.load_width == 1 else 0  # elements of other rows in a strip's first and last vectors
    period = vec // gcd(vec, c.x_n)
    most = min(lanes, MOST_WIDE // vec, threads // period) * vec - extra
    across = cdiv(c.inner, most)
    wide = cdiv(c.inner, across)
    if not extra:
        wide = cdiv(wide, vec) * vec
    lanes = cdiv(wide + extra, vec)
    depths = min(threads // lanes // period, cdiv(c.n, AT_ONCE * period)) * period
    return c, Strips(across, lanes, wide, depths)


def choose_strips(v: Rows, processors: int) -> tuple[Columns, Strips] | None:
    """Return columns and strips of 128 bytes, or wider ones to avoid more than two blocks per SM. If an SM has one
    block at most, blocks have twice the threads. If two thirds of the SMs would idle, strips have 64 bytes."""
    found = None
    for lanes in (8, 16, 32, 64):
        found = cut_strips(v, lanes, MOST_THREADS // 2)
        if found is None or found[0].outer * found[1].across <= 2 * processors:
            break
    if found is not None and found[0].outer * found[1].across <= processors:
        found = cut_strips(v, lanes, MOST_THREADS) or found
        if 3 * found[0].outer * found[1].across < processors and v.n >= 4 * found[1].depths * AT_ONCE:
            found = cut_strips(v, 4, MOST_THREADS) or found
    return found


@register("numba", "min", "columns")
@plan_once()
def columns(v: RowView) -> BindView:
    """Each block reduces a strip of neighbouring columns, which it reads from top to bottom."""
    id, found = "numba/min/columns", choose_strips(v, v.device.multiprocessors)
    if found is None:
        raise UnsupportedProblemError(id, "these are no columns side by side that are as wide as a vector")
    c, s = found
    kernel = prepare_kernel(columns_kernel(v.dtype, vectors_in_flight(v.dtype, v.vector_elements)), v.device)
    arguments = (*column_arguments(c), v.x_phase, s.across, s.lanes, s.wide, s.depths)
    return kernel.bind(check_grid(id, c.outer * s.across), *arguments, threads=s.threads)
