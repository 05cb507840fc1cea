"""A thread to a few consecutive short rows, which together are whole words of memory."""

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of
from kernelzoo.kernels.triton.softmax.words import READ, exponential, softmax_of, zero_if_empty
from kernelzoo.kernels.triton.threads import Groups, groups_of, load_groups, store_groups
from kernelzoo.kernels.triton.words import await_last_launch
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers, of


@numbers
class Numbers:
    own_words: int = knob(
        68, among=(36, 68, 132), unit="words of 4 bytes", why="of whole rows that one thread has at the most"
    )
    write_run: int = knob(
        16, among=(4, 8, 16, 32), unit="words", why="of a thread's results that its warp writes as one run of memory"
    )
    thread_crowd: int = knob(
        4, among=(1, 4, 16), unit="programs per SM", why="from which on threads take whole rows, rather than lanes"
    )


PROGRAM_WORDS = 512
"""Of a program of one warp, at the least: fewer don't pay for its launch."""


@triton.jit
def total_of(row, N: tl.constexpr):
    """Sum of a row's numbers by halves, so that few roundings stand one upon the other."""
    if N > 4:
        total = total_of(row[: N // 2], N // 2) + total_of(row[N // 2 :], N - N // 2)
    else:
        total = row[0]
        for i in tl.static_range(1, N):
            total += row[i]
    return total


@triton.jit
def softmax_of_row(row, N: tl.constexpr):
    """Softmax of one row of each thread, element by element."""
    row = [element.to(tl.float32) for element in row]
    top = row[0]
    for i in tl.static_range(1, N):
        top = tl.maximum(top, row[i])
    top = zero_if_empty(top)
    row = [exponential(element - top) for element in row]
    inverse = 1.0 / total_of(row, N)
    return [element * inverse for element in row]


LONGEST = {2: 16, 4: 12}
"""Elements of a row, by the bytes of one, up to which a thread does better than lanes."""


@triton.jit(do_not_specialize=["groups", "left"])
def thread_rows_kernel(
    x, out, groups, left, N: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, WORDS: tl.constexpr,
    UNIT: tl.constexpr, WRITE_RUN: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """ROWS rows of N elements are the WORDS words of a group; left rows follow the last group."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    # Threads beyond the last group read that one: no load is masked.
    loaded = load_groups(x, tl.minimum(group, groups - 1), GROUPS, WORDS, UNIT, READ)
    done = []
    for row in tl.static_range(ROWS):
        done += [number.to(DTYPE) for number in softmax_of_row(loaded[row * N : (row + 1) * N], N)]
    store_groups(out, group, group < groups, done, GROUPS, N * ROWS, N * ROWS // WORDS * WRITE_RUN)
    if left > 0 and tl.program_id(0) == tl.num_programs(0) - 1:
        last, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
        here = (tl.cast(groups, tl.int64) * ROWS + last) * N + cols
        known = (last < left) & (cols < N)
        rest = tl.load(x + here, known, other=float("-inf")).to(tl.float32)
        tl.store(out + here, softmax_of(rest, 1).to(DTYPE), known)


def tile_of(knobs: Numbers, device: Device, rows: Rows) -> Groups | None:
    """Groups of rows to threads, None where they can't have them."""
    return groups_of(device, rows, knobs.own_words, PROGRAM_WORDS)


def pays(knobs: Numbers, device: Device, rows: Rows) -> bool:
    """Whether rows are no whole vectors, which lanes read as well, short, and enough for threads that take several."""
    short = rows.n % rows.whole_vector and rows.n <= LONGEST.get(rows.itemsize, 0)
    tile = tile_of(knobs, device, rows) if short else None
    return tile is not None and cdiv(tile.many, tile.tile) >= knobs.thread_crowd * device.multiprocessors


@register("triton", "softmax", "multi_row_thread")
def multi_row_thread(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A few whole short rows to a thread."""
    id = "triton/softmax/multi_row_thread"
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Numbers, device.index)
    tile = tile_of(knobs, device, rows)
    if tile is None:
        words = (
            f"it takes rows without gaps, of 2 or 4 bytes an element, a few of which are at most {knobs.own_words} "
            f"whole words, in x and out that start on 16 bytes; got {rows.total} rows of {rows.n} {rows.dtype}"
        )
        raise UnsupportedProblemError(id, words)
    sizes = (rows.n, tile.rows, power_of_two(rows.n), tile.words, tile.unit, knobs.write_run, tile.tile)
    return bound(id, x, thread_rows_kernel, cdiv(tile.many, tile.tile), (x, out, tile.many, tile.left, *sizes), 1)
