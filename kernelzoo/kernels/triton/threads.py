"""Whole rows that one thread has: short rows without gaps, of which a few together are whole words of memory.

So many consecutive rows are a *group*, and a thread has all of one: what is reduced along a row asks no other thread,
has no mask and no address of its own. All of it is unrolled, so a kernel is compiled for each length of rows. A group's
words are moved by *runs* of a power of two, [GROUPS, RUN]: neighbours in memory go to neighbouring threads, and are
dealt to the groups' threads on chip; a run of one vector goes straight to its thread.
"""

import math
from typing import NamedTuple

import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.layout import Rows, cdiv, power_of_two

WORD_BYTES, VECTOR_WORDS = 4, 4
"""A word, which holds one element or two, and how many the widest load of one instruction takes."""


@triton.jit
def elements_of(tile, GROUPS: tl.constexpr, RUN: tl.constexpr):
    """The columns of a tile [GROUPS, RUN], in order, each [GROUPS]."""
    if RUN == 1:
        result = [tl.reshape(tile, [GROUPS])]
    else:
        even, odd = tl.split(tl.reshape(tile, [GROUPS, RUN // 2, 2]))
        even, odd = elements_of(even, GROUPS, RUN // 2), elements_of(odd, GROUPS, RUN // 2)
        result = []
        for i in tl.static_range(RUN // 2):
            result += [even[i], odd[i]]
    return result


@triton.jit
def tile_of_elements(elements, GROUPS: tl.constexpr, RUN: tl.constexpr):
    """The tile [GROUPS, RUN] of these columns."""
    if RUN == 1:
        result = tl.reshape(elements[0], [GROUPS, 1])
    else:
        even = tile_of_elements(elements[::2], GROUPS, RUN // 2)
        odd = tile_of_elements(elements[1::2], GROUPS, RUN // 2)
        result = tl.reshape(tl.join(even, odd), [GROUPS, RUN])
    return result


@triton.jit
def numbers_of(words, WORDS: tl.constexpr, DTYPE: tl.constexpr):
    """The numbers that words hold, one or two each."""
    numbers = []
    for i in tl.static_range(WORDS):
        if DTYPE.primitive_bitwidth == 32:
            numbers += [words[i].to(DTYPE, bitcast=True)]
        else:
            numbers += [words[i].to(tl.int16).to(DTYPE, bitcast=True)]
            numbers += [(words[i] >> 16).to(tl.int16).to(DTYPE, bitcast=True)]
    return numbers


@triton.jit
def load_run(place, FIRST: tl.constexpr, GROUPS: tl.constexpr, RUN: tl.constexpr, POLICY: tl.constexpr):
    """Words [FIRST, FIRST + RUN) of each group."""
    run = tl.load(place + (FIRST + tl.arange(0, RUN))[None, :], eviction_policy=POLICY)
    return elements_of(run, GROUPS, RUN)


@triton.jit
def store_run(place, there, numbers, FIRST: tl.constexpr, GROUPS: tl.constexpr, RUN: tl.constexpr):
    """Write numbers [FIRST, FIRST + RUN) of each group that is there."""
    run = tile_of_elements(numbers[FIRST : FIRST + RUN], GROUPS, RUN)
    tl.store(place + (FIRST + tl.arange(0, RUN))[None, :], run, there[:, None])


@triton.jit
def load_groups(x, group, GROUPS: tl.constexpr, WORDS: tl.constexpr, RUN: tl.constexpr, POLICY: tl.constexpr):
    """The numbers of each group, which is WORDS words, by runs of RUN and what is left. POLICY is the L2 cache's."""
    place = x.to(tl.pointer_type(tl.int32), bitcast=True) + (group * WORDS)[:, None]
    words = []
    for first in tl.static_range(0, WORDS // RUN * RUN, RUN):
        words += load_run(place, first, GROUPS, RUN, POLICY)
    for i in tl.static_range(1, 6):  # the powers of two that make up what is left
        if WORDS & (RUN >> i):
            words += load_run(place, (WORDS // (RUN >> i) - 1) * (RUN >> i), GROUPS, RUN >> i, POLICY)
    return numbers_of(words, WORDS, x.dtype.element_ty)


@triton.jit
def store_groups(out, group, there, numbers, GROUPS: tl.constexpr, COUNT: tl.constexpr, RUN: tl.constexpr):
    """Write the numbers of each group that is there, COUNT of them, by runs of RUN and what is left."""
    place = out + (group * COUNT)[:, None]
    for first in tl.static_range(0, COUNT // RUN * RUN, RUN):
        store_run(place, there, numbers, first, GROUPS, RUN)
    for i in tl.static_range(1, 7):
        if COUNT & (RUN >> i):
            store_run(place, there, numbers, (COUNT // (RUN >> i) - 1) * (RUN >> i), GROUPS, RUN >> i)


class Groups(NamedTuple):
    """Rows and words of a group, and the words of it that one instruction may load; groups of a program, how many
    groups there are, and rows left after the last."""

    rows: int
    words: int
    unit: int
    tile: int
    many: int
    left: int


def groups_of(device: Device, rows: Rows, thread_words: int, program_words: int) -> Groups | None:
    """Groups for programs of one warp that have so many words at the least, or None where rows are not one piece of
    memory on 16 bytes, no group is there, or each is more than a thread may have.

    Groups are whole vectors if a thread may have so much, else as few words as it takes.
    """
    if rows.itemsize not in (2, 4) or not rows.one_piece or not rows.aligned:
        return None
    for unit in (VECTOR_WORDS, VECTOR_WORDS // 2, 1):
        vector = unit * WORD_BYTES // rows.itemsize
        each = vector // math.gcd(rows.n, vector)
        words = rows.n * each // vector * unit
        if words <= thread_words and rows.total >= each:
            tile = max(device.warp_size, power_of_two(cdiv(program_words, words)))
            return Groups(each, words, unit, tile, rows.total // each, rows.total % each)
    return None
