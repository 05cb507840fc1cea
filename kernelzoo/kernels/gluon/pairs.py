"""Words that programs leave for each other in memory, (maximum, sum) pairs or one number, and how they are awaited."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

LEAVE = gl.constexpr(1)
"""What a launch does: leave its words for another launch, or..."""
WRITE = gl.constexpr(2)
"""...read them and write."""


@gluon.jit
def as_word(top, total):
    """A pair in float32 as one word of 64 bits, which never are all set: top is no NaN."""
    low = top.to(gl.uint32, bitcast=True).to(gl.uint64)
    return (total.to(gl.uint32, bitcast=True).to(gl.uint64) << 32 | low).to(gl.int64, bitcast=True)


@gluon.jit
def as_pair(word):
    """The pair in float32 that ``as_word`` made a word of."""
    return word.to(gl.int32).to(gl.float32, bitcast=True), (word >> 32).to(gl.int32).to(gl.float32, bitcast=True)


@gluon.jit
def awaited(words, there):
    """The 64-bit words in memory, each as soon as not all of its bits are set any more; 0 where there is none."""
    return gl.inline_asm_elementwise(
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
        [words, there.to(gl.int32)],
        gl.int64,
        is_pure=False,
        pack=1,
    )
