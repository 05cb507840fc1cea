"""Exchange of partial results among programs, as 64-bit words in memory: (maximum, sum) pairs or single numbers."""

import triton
import triton.language as tl

from kernelzoo.device import Device

EXCHANGE = tl.constexpr(0)
"""The phase of a single launch. All programs are resident, exchange partial results, and write the result."""
LEAVE = tl.constexpr(1)
"""The phase of the first of two launches, which only writes partial results to memory."""
WRITE = tl.constexpr(2)
"""The phase of the second of two launches, which reads the partial results and writes the result."""


def phase_per_launch(device: Device) -> tuple[object, ...]:
    """Return EXCHANGE for one launch on NVIDIA, where programs can wait for each other, else LEAVE and WRITE."""
    return (EXCHANGE,) if device.is_nvidia else (LEAVE, WRITE)


@triton.jit
def pack_pair(top, total):
    """Pack two float32 into a 64-bit word. Its bits are never all set, because ``top`` is not NaN."""
    low = top.to(tl.uint32, bitcast=True).to(tl.uint64)
    return (total.to(tl.uint32, bitcast=True).to(tl.uint64) << 32 | low).to(tl.int64, bitcast=True)


@triton.jit
def unpack_pair(word):
    """Return the two float32 in a word made by ``pack_pair``."""
    return word.to(tl.int32).to(tl.float32, bitcast=True), (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def await_words(words, mask):
    """Wait until each 64-bit word has been written: not all its bits are set. Return it, or 0 if not ``mask``."""
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred missing, none;
            mov.b64 $0, 0;
            setp.eq.s32 none, $2, 0;
            @none bra DONE;
        AGAIN:
            ld.relaxed.gpu.global.b64 $0, [$1];
            setp.eq.s64 missing, $0, -1;
            @missing bra AGAIN;
        DONE:
        }
        """,
        "=l,l,r",
        [words, mask.to(tl.int32)],
        tl.int64,
        is_pure=False,
        pack=1,
    )


@triton.jit
def await_four_words(words, mask):
    """Wait as ``await_words`` does, but each thread loads four words at a time."""
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred missing, one, two, three, four;
            mov.b64 $0, 0;
            mov.b64 $1, 0;
            mov.b64 $2, 0;
            mov.b64 $3, 0;
            setp.ne.s32 one, $8, 0;
            setp.ne.s32 two, $9, 0;
            setp.ne.s32 three, $10, 0;
            setp.ne.s32 four, $11, 0;
        AGAIN:
            @one ld.relaxed.gpu.global.b64 $0, [$4];
            @two ld.relaxed.gpu.global.b64 $1, [$5];
            @three ld.relaxed.gpu.global.b64 $2, [$6];
            @four ld.relaxed.gpu.global.b64 $3, [$7];
            setp.eq.s64 missing, $0, -1;
            setp.eq.or.s64 missing, $1, -1, missing;
            setp.eq.or.s64 missing, $2, -1, missing;
            setp.eq.or.s64 missing, $3, -1, missing;
            @missing bra AGAIN;
        }
        """,
        "=&l,=&l,=&l,=&l,l,l,l,l,r,r,r,r",
        [words, mask.to(tl.int32)],
        tl.int64,
        is_pure=False,
        pack=4,
    )


@triton.jit
def alternate_word_set(arrivals, LAUNCH_PHASE: tl.constexpr):
    """Return which set of words this launch uses: 0 or 1, alternately. ``arrivals`` counts all launches' programs."""
    return tl.load(arrivals) // tl.num_programs(0) % 2 if LAUNCH_PHASE == EXCHANGE else tl.cast(0, tl.int64)


@triton.jit
def publish_word(words, part, next_offset, word, LAUNCH_PHASE: tl.constexpr, mask=None):
    """Write a part's word for other programs. In phase EXCHANGE, also clear the next launch's, ``next_offset`` on."""
    if LAUNCH_PHASE == EXCHANGE:
        tl.atomic_xchg(words + part, word, mask, sem="relaxed")
        # All bits set means that a word has not been written yet. No packed word has that value.
        tl.store(words + next_offset + part, tl.full(word.shape, -1, tl.int64), mask)
    else:
        tl.store(words + part, word, mask)


@triton.jit
def wait_for_word(address, mask, LAUNCH_PHASE: tl.constexpr):
    """Return each thread's word. In phase EXCHANGE, first wait until a program has written the word."""
    return await_words(address, mask) if LAUNCH_PHASE == EXCHANGE else tl.load(address, mask, other=0)


@triton.jit
def wait_for_words(words, mask, parts, LAUNCH_PHASE: tl.constexpr, FOUR: tl.constexpr):
    """Return 64-bit words. In phase EXCHANGE, first wait until all are written. FOUR: threads load four at a time."""
    if LAUNCH_PHASE == EXCHANGE:
        found = tl.full(words.shape, 0, tl.int64)
        # This loop runs once. Without it, the compiler would repeat the wait for each register layout of the words.
        again = parts > 0
        while again:
            found = await_four_words(words, mask) if FOUR else await_words(words, mask)
            again = parts < 0
    else:
        found = tl.load(words, mask, other=0)
    return found


@triton.jit
def pack_number(number):
    """Pack a float into a 64-bit word, whose bits are never all set."""
    if number.dtype == tl.float64:
        word = tl.where(number == number, number, float("nan")).to(tl.int64, bitcast=True)
    else:
        word = number.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    return word


@triton.jit
def unpack_number(word, DTYPE: tl.constexpr):
    """Return the float in a word made by ``pack_number``."""
    return word.to(tl.float64, bitcast=True) if tl.float64 == DTYPE else word.to(tl.int32).to(DTYPE, bitcast=True)
