"""The emulator of PTX: copies that go on by themselves, and barriers in shared memory that count them."""

import numpy as np
import ptx
import pytest
from ptx_kernels import MARKS, run

pytestmark = MARKS

BUFFER = ".extern .shared .align 128 .b8 buffer[];"
BARRIER = ".shared .align 8 .b64 ready;"


def test_copies_are_there_once_their_group_is_waited_for_and_not_before() -> None:
    """A thread that reads its own word too early finds nothing that it may rely on."""
    x, out = np.arange(256, dtype="u4"), np.zeros(64, "u4")
    body = """
        shl.b32 r3, r0, 2; mov.b32 r4, buffer; add.u32 r4, r4, r3; mul.wide.u32 rd9, r0, 4; add.s64 rd10, rd1, rd9;
        add.s64 rd11, rd2, rd9; cp.async.ca.shared.global [r4], [rd10], 4; cp.async.commit_group;
        cp.async.ca.shared.global [r4+256], [rd10+256], 4; cp.async.commit_group;
        cp.async.ca.shared.global [r4+512], [rd10+512], 4, 2; cp.async.commit_group;
        cp.async.wait_group 1; ld.shared.u32 r5, [r4]; ld.shared.u32 r6, [r4+256]; ld.shared.u32 r7, [r4+512];
        cp.async.wait_all; ld.shared.u32 r8, [r4+512]; setp.ne.u32 p1, r7, 0xFFFFFFFF; @p1 trap;
        add.u32 r5, r5, r6; add.u32 r5, r5, r8; st.global.u32 [rd11], r5;
    """
    run(body, x, out, block=64, before=BUFFER, shared_bytes=768)
    np.testing.assert_array_equal(out, x[:64] + x[64:128] + (x[128:192] & 0xFFFF))


def test_a_predicate_leaves_out_a_copy_whose_place_is_zero() -> None:
    x, out = np.arange(1, 129, dtype="u4"), np.ones(128, "u4")
    body = """
        shl.b32 r3, r0, 4; mov.b32 r4, buffer; add.u32 r4, r4, r3; mul.wide.u32 rd9, r0, 16; add.s64 rd10, rd1, rd9;
        add.s64 rd11, rd2, rd9; setp.ge.u32 p1, r0, 20; selp.u32 r5, 0, 16, p1;
        cp.async.cg.shared.global.L2::cache_hint [r4], [rd10], 16, r5, rd10; cp.async.wait_all;
        ld.shared.v4.u32 {r5, r6, r7, r8}, [r4]; st.global.v4.u32 [rd11], {r5, r6, r7, r8};
    """
    run(body, x, out, before=BUFFER, shared_bytes=512)
    np.testing.assert_array_equal(out, np.where(np.arange(128) < 80, x, 0))


WAIT = "WAIT{0}: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p2, [ready], {1}; @!p2 bra WAIT{0};"
BULK = f"""
    mov.b32 r4, buffer; shl.b32 r3, r0, 2; add.u32 r5, r4, r3; setp.ne.u32 p1, r0, 0; @p1 bra MADE;
    mbarrier.init.shared::cta.b64 [ready], 1; fence.mbarrier_init.release.cluster; MADE: bar.sync 0;
    mul.wide.u32 rd9, r0, 4; add.s64 rd11, rd2, rd9; @p1 bra COPIED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [ready], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r4], [rd1], 256, [ready];
    COPIED: {WAIT.format(1, 0)}
    ld.shared.u32 r6, [r5]; add.u32 r6, r6, 5; st.global.u32 [rd11], r6;
"""


def test_bulk_copies_are_counted() -> None:
    x, out = np.arange(64, dtype="u4"), np.zeros(64, "u4")
    for _ in range(4):
        out[:] = 0
        run(BULK, x, out, block=64, before=BUFFER + BARRIER, shared_bytes=256)
        np.testing.assert_array_equal(out, x + 5)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("b64 _, [ready], 256", "b64 _, [ready], 272", "threads ask for ever"),
        ("[r4], [rd1], 256", "[r4], [rd1], 248", "not in whole words"),
        ("[r4], [rd1], 256", "[r4], [rd1+16], 256", "reads 256 bytes, 16 bytes from the start of 256"),
        (WAIT.format(1, 0), "", "block has ended, and what is sent|st.shared|is not right"),
        ("mbarrier.init.shared::cta.b64 [ready], 1;", "", "there is no mbarrier"),
    ],
)  # fmt: skip
def test_a_bulk_copy_that_is_not_waited_for_or_counted_wrongly_is_noticed(old: str, new: str, said: str) -> None:
    x, out = np.arange(64, dtype="u4"), np.zeros(64, "u4")
    assert old in BULK
    wrong = BULK.replace(old, new)

    def launched() -> None:
        for _ in range(8):
            run(wrong, x, out, block=64, before=BUFFER + BARRIER, shared_bytes=256)
            assert (out == x + 5).all(), "is not right"

    with pytest.raises((ptx.PtxError, AssertionError), match=said):
        launched()


def test_phases_of_a_barrier_follow_each_other() -> None:
    """A warp fills two words in turn and another empties them: each waits for the other, three times round."""
    x, out = np.zeros(1, "u4"), np.zeros(192, "u4")
    body = """
        .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .b32 words[32];
        setp.ne.u32 p1, r0, 0; @p1 bra MADE; mbarrier.init.shared.b64 [full], 32; mbarrier.init.shared.b64 [empty], 32;
        MADE: bar.sync 0; mov.u32 r9, 0; and.b32 r3, r0, 31; shl.b32 r4, r3, 2; mov.b32 r5, words; add.u32 r5, r5, r4;
        setp.ge.u32 p3, r0, 32; @p3 bra READS;
        FILLS: and.b32 r6, r9, 1; xor.b32 r6, r6, 1;
        W1: mbarrier.try_wait.parity.shared.b64 p2, [empty], r6; @!p2 bra W1;
        mad.lo.u32 r7, r9, 100, r3; st.shared.u32 [r5], r7; mbarrier.arrive.release.cta.shared.b64 rd5, [full];
        add.u32 r9, r9, 1; setp.lt.u32 p4, r9, 6; @p4 bra FILLS; bra END;
        READS: and.b32 r6, r9, 1;
        W2: mbarrier.try_wait.parity.shared.b64 p2, [full], r6, 0x989680; @!p2 bra W2;
        ld.shared.u32 r7, [r5]; mad.lo.u32 r8, r9, 32, r3; mul.wide.u32 rd9, r8, 4; add.s64 rd11, rd2, rd9;
        st.global.u32 [rd11], r7; mbarrier.arrive.shared.b64 _, [empty]; add.u32 r9, r9, 1;
        setp.lt.u32 p4, r9, 6; @p4 bra READS;
        END:
    """
    run(body, x, out, block=64)
    np.testing.assert_array_equal(out.reshape(6, 32), np.arange(6)[:, None] * 100 + np.arange(32))


def test_a_value_sent_to_another_block_is_counted_there() -> None:
    x, out = np.zeros(1, "u4"), np.zeros(4, "u8")
    body = f"""
        .shared .align 8 .b64 place;
        setp.ne.u32 p1, r0, 0; @p1 bra MADE; mbarrier.init.shared::cta.b64 [ready], 1;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [ready], 8; fence.mbarrier_init.release.cluster;
        MADE: barrier.cluster.arrive; barrier.cluster.wait; @p1 bra END;
        mov.u32 r2, %cluster_ctarank; xor.b32 r3, r2, 1; mov.b32 r4, place; mov.b32 r5, ready;
        mapa.shared::cluster.u32 r4, r4, r3; mapa.shared::cluster.u32 r5, r5, r3;
        mov.u32 r6, %ctaid.x; cvt.u64.u32 rd6, r6; add.u64 rd6, rd6, 40;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [r4], rd6, [r5];
        {WAIT.format(1, 0)} ld.shared.u64 rd7, [place]; mad.wide.u32 rd8, r6, 8, rd2; st.global.u64 [rd8], rd7;
        END: barrier.cluster.arrive; barrier.cluster.wait;
    """
    run(body, x, out, grid=4, cluster=2, before=BARRIER)
    assert out.tolist() == [41, 40, 43, 42]
