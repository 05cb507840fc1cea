"""A thread to a few consecutive short rows, which together are whole words of memory."""

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, wide_type
from kernelzoo.kernels.triton.min.arguments import identity, plain
from kernelzoo.kernels.triton.min.lowest import lower
from kernelzoo.kernels.triton.threads import Groups, groups_of, load_groups, tile_of_elements
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
    read_run: int = knob(
        16, among=(4, 8, 16, 32), unit="words", why="of a thread's rows that its warp reads as one run of memory"
    )
    warp_words: int = knob(
        1024, among=(512, 1024, 2048), unit="words", why="of whole rows that one warp has at the least"
    )


LONGEST = {2: 6, 4: 6}
"""Elements of a row, by the bytes of one, up to which a thread does better than lanes."""


@triton.jit(do_not_specialize=["groups", "left"])
def rows_thread_kernel(
    x, out, groups, left, WIDE: tl.constexpr, IDENTITY: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr,
    COLS: tl.constexpr, WORDS: tl.constexpr, READ_RUN: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """ROWS rows of N elements are the WORDS words of a group; left rows follow the last group."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    # Threads beyond the last group read that one: no load is masked.
    loaded = load_groups(x, tl.minimum(group, groups - 1), GROUPS, WORDS, READ_RUN, "")
    least = []
    for row in tl.static_range(ROWS):
        lowest = loaded[row * N].to(WIDE)
        for i in tl.static_range(1, N):
            lowest = lower(lowest, loaded[row * N + i].to(WIDE))
        least += [lowest.to(DTYPE)]
    place = out + (group * ROWS)[:, None] + tl.arange(0, ROWS)[None, :]
    tl.store(place, tile_of_elements(least, GROUPS, ROWS), (group < groups)[:, None])
    if left > 0 and tl.program_id(0) == tl.num_programs(0) - 1:
        last, cols = tl.arange(0, ROWS), tl.arange(0, COLS)[None, :]
        here = tl.cast(groups, tl.int64) * ROWS + last
        known = (last < left)[:, None] & (cols < N)
        rest = tl.load(x + here[:, None] * N + cols, known, other=IDENTITY).to(WIDE)
        tl.store(out + here, tl.reduce(rest, 1, lower).to(DTYPE), last < left)


def tile_of(knobs: Numbers, device: Device, rows: Rows) -> Groups | None:
    """Groups of rows to threads, None where they can't have them."""
    return groups_of(device, rows, knobs.own_words, knobs.warp_words)


def pays(knobs: Numbers, device: Device, rows: Rows, crowd: int) -> bool:
    """Whether rows are no whole vectors, which lanes read as well, short, and enough for so many programs per SM."""
    short = rows.n % rows.whole_vector and rows.n <= LONGEST.get(rows.itemsize, 0)
    tile = tile_of(knobs, device, rows) if short else None
    return tile is not None and cdiv(tile.many, tile.tile) >= crowd * device.multiprocessors


@register("triton", "min", "rows_deferred_thread")
def rows_deferred_thread(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A few whole short rows to a thread."""
    id = "triton/min/rows_deferred_thread"
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Numbers, device.index)
    tile = tile_of(knobs, device, rows)
    if tile is None:
        raise UnsupportedProblemError(
            id,
            f"it takes rows without gaps, of 2 or 4 bytes an element, a few of which are at most {knobs.own_words} "
            f"whole words, where x and out start on 16 bytes; got {rows.total} rows of {rows.n} {rows.dtype}",
        )
    kinds = (wide_type(x.dtype), identity(x.dtype))
    sizes = (rows.n, tile.rows, power_of_two(rows.n), tile.words, knobs.read_run, tile.tile)
    args = (x, out, tile.many, tile.left, *kinds, *sizes)
    return bound(id, x, rows_thread_kernel, cdiv(tile.many, tile.tile), args, 1)
