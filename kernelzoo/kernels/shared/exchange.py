"""Words that programs leave for each other in memory, (maximum, sum) states or one number, and how they are awaited."""

import triton
import triton.language as tl

from kernelzoo.device import Device

EXCHANGE = tl.constexpr(0)
"""What a launch does: programs of a row run at once, exchange their pairs, and write; or only..."""
LEAVE = tl.constexpr(1)
"""...leave their pairs for another launch, or..."""
WRITE = tl.constexpr(2)
"""...read them and write."""


def phases_on(device: Device) -> tuple[object, ...]:
    """What the launches of programs that share rows do: an exchange where programs may wait for each other."""
    return (EXCHANGE,) if device.is_nvidia else (LEAVE, WRITE)


@triton.jit
def pack_pair(top, total):
    """A pair in float32 as one word of 64 bits, which never are all set: top is no NaN."""
    low = top.to(tl.uint32, bitcast=True).to(tl.uint64)
    return (total.to(tl.uint32, bitcast=True).to(tl.uint64) << 32 | low).to(tl.int64, bitcast=True)


@triton.jit
def unpack_pair(word):
    """The pair in float32 that ``pack_pair`` made a word of."""
    return word.to(tl.int32).to(tl.float32, bitcast=True), (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def awaited(words, there):
    """The 64-bit words in memory, each once not all of its bits are set; 0 where there is none."""
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
        [words, there.to(tl.int32)],
        tl.int64,
        is_pure=False,
        pack=1,
    )


@triton.jit
def awaited_four(words, there):
    """``awaited`` of four words at a time, whose looks are under way together."""
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
        [words, there.to(tl.int32)],
        tl.int64,
        is_pure=False,
        pack=4,
    )


@triton.jit
def own_words(arrivals, PHASE: tl.constexpr):
    """Which of two sets of words is this launch's: launches alternate, and each clears the next one's."""
    return tl.load(arrivals) // tl.num_programs(0) % 2 if PHASE == EXCHANGE else tl.cast(0, tl.int64)


@triton.jit
def leave_word(words, part, next, word, PHASE: tl.constexpr, there=None):
    """Leave a part's word for other programs; of an exchange, clear the next launch's, so many words further on."""
    if PHASE == EXCHANGE:
        tl.atomic_xchg(words + part, word, there, sem="relaxed")
        # All bits set is what no word is, nor any NaN from here: one that isn't there yet.
        tl.store(words + next + part, tl.full(word.shape, -1, tl.int64), there)
    else:
        tl.store(words + part, word, there)


@triton.jit
def found_word(place, there, PHASE: tl.constexpr):
    """The word in memory of each thread; of an exchange, as soon as it is there."""
    return awaited(place, there) if PHASE == EXCHANGE else tl.load(place, there, other=0)


@triton.jit
def found_words(words, there, parts, PHASE: tl.constexpr, FOUR: tl.constexpr):
    """The 64-bit words in memory; of an exchange, each as soon as it is there."""
    if PHASE == EXCHANGE:
        found = tl.full(words.shape, 0, tl.int64)
        # Once. The compiler would wait anew in each layout that it wants the words in, but for a loop: that it leaves.
        again = parts > 0
        while again:
            found = awaited_four(words, there) if FOUR else awaited(words, there)
            again = parts < 0
    else:
        found = tl.load(words, there, other=0)
    return found


@triton.jit
def pack_number(number):
    """A float as one word of 64 bits, which never are all set."""
    if number.dtype == tl.float64:
        word = tl.where(number == number, number, float("nan")).to(tl.int64, bitcast=True)
    else:
        word = number.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    return word


@triton.jit
def unpack_number(word, WIDE: tl.constexpr):
    """The float that ``pack_number`` made a word of."""
    return word.to(tl.float64, bitcast=True) if tl.float64 == WIDE else word.to(tl.int32).to(WIDE, bitcast=True)
