"""The emulator of PTX: memory and its bounds, divergence, and where threads meet."""

import ctypes

import numpy as np
import ptx
import pytest
from ptx_kernels import MARKS, module, run

pytestmark = MARKS

WORD = "mul.wide.u32 rd9, r0, 4; add.s64 rd10, rd1, rd9; add.s64 rd11, rd2, rd9;"
"""rd10 and rd11: where the thread's words are in the first two arrays."""


def lanes(body: str, *, block: int = 32, **options: object) -> np.ndarray:
    """What a body leaves in r5 of each thread; r4 is an input, the thread's number and 100."""
    x, out = np.arange(100, 100 + block, dtype="u4"), np.zeros(block, "u4")
    run(f"{WORD} ld.global.u32 r4, [rd10];\n{body}\nst.global.u32 [rd11], r5;", x, out, block=block, **options)
    return out


# --- A warp ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "by", "limit", "source"),
    [
        ("bfly", 5, 31, lambda k: k ^ 5),
        ("bfly", 9, 0x1807, lambda k: k ^ 9 if (k ^ 9) <= (k & 24 | 7) else k),
        ("up", 3, 0, lambda k: k - 3 if k >= 3 else k),
        ("up", 1, 0x1C00, lambda k: k - 1 if k % 4 else k),
        ("down", 4, 31, lambda k: k + 4 if k + 4 < 32 else k),
        ("idx", 7, 31, lambda k: 7),
        ("idx", 2, 0x181F, lambda k: k // 8 * 8 + 2),
    ],
)
def test_shuffles(how: str, by: int, limit: int, source: object) -> None:
    made = lanes(f"shfl.sync.{how}.b32 r5|p1, r4, {by}, {limit}, -1; @!p1 add.u32 r5, r5, 1000;")
    sources = np.array([source(k) for k in range(32)])  # type: ignore[operator]
    inside = (sources != np.arange(32)) | np.array([how == "idx"] * 32)
    if how == "bfly" and limit == 31:
        inside[:] = True
    np.testing.assert_array_equal(made, 100 + sources + np.where(inside, 0, 1000))


def test_reductions() -> None:
    assert (lanes("redux.sync.add.s32 r5, r4, -1;") == sum(range(100, 132))).all()
    assert (lanes("sub.s32 r4, r4, 110; redux.sync.min.s32 r5, r4, -1;") == 2**32 - 10).all()
    assert (lanes("sub.s32 r4, r4, 110; redux.sync.max.u32 r5, r4, -1;") == 2**32 - 1).all()


def test_lanes_that_part_meet_again_each_with_its_own() -> None:
    """Both sides shuffle among themselves; loops of different lengths end at one barrier of the warp."""
    body = """
        mov.u32 r5, 0; and.b32 r6, r0, 1; setp.eq.u32 p1, r6, 0; @p1 bra EVEN;
        shfl.sync.bfly.b32 r5, r4, 2, 31, 0xAAAAAAAA; bra JOIN;
        EVEN: shfl.sync.bfly.b32 r5, r4, 4, 31, 0x55555555;
        JOIN: mov.u32 r7, r0;
        LOOP: setp.eq.u32 p2, r7, 0; @p2 bra DONE; sub.u32 r7, r7, 1; add.u32 r5, r5, 1000; bra.uni LOOP;
        DONE: bar.warp.sync -1; shfl.sync.idx.b32 r5, r5, r0, 31, -1;
    """
    expected = [100 + (k ^ (2 if k % 2 else 4)) + 1000 * k for k in range(32)]
    for _ in range(3):
        assert lanes(body).tolist() == expected


def test_a_register_keeps_its_value_from_one_round_of_a_loop_to_the_next() -> None:
    body = """
        mov.u32 r5, 0; mov.u32 r7, 0;
        LOOP: setp.eq.u32 p1, r7, 0; @p1 add.u32 r9, r0, 5; add.u32 r5, r5, r9; bar.warp.sync -1;
        add.u32 r7, r7, 1; setp.lt.u32 p2, r7, 4; @p2 bra LOOP;
    """
    assert lanes(body).tolist() == [4 * (k + 5) for k in range(32)]


def test_registers_of_inner_scopes_are_their_own() -> None:
    body = "mov.u32 r5, 1; { .reg .u32 r5, own; mov.u32 r5, 50; mov.u32 own, r5; { .reg .u32 own; mov.u32 own, 9; } " \
           "add.u32 r6, own, 0; } add.u32 r5, r5, r6;"  # fmt: skip
    assert (lanes(body) == 51).all()


def test_matrices_are_shared_out_and_gathered() -> None:
    x, out = np.arange(256, dtype="u2"), np.zeros(256, "u2")
    body = """
        mov.b32 r3, tile; mad.lo.u32 r4, r0, 16, r3; mul.wide.u32 rd5, r0, 16;
        add.s64 rd6, rd1, rd5; add.s64 rd7, rd2, rd5;
        ld.global.v4.b32 {r10, r11, r12, r13}, [rd6]; st.shared.v4.b32 [r4], {r10, r11, r12, r13}; bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {r20, r21, r22, r23}, [r4]; bar.sync 0;
        stmatrix.sync.aligned.m8n8.x4.shared.b16 [r4], {r20, r21, r22, r23}; bar.sync 0;
        ld.shared.v4.b32 {r10, r11, r12, r13}, [r4]; st.global.v4.b32 [rd7], {r10, r11, r12, r13};
    """
    run(body, x, out, before=".shared .align 16 .b8 tile[512];")
    np.testing.assert_array_equal(out.reshape(4, 8, 8), x.reshape(4, 8, 8).swapaxes(1, 2))


# --- A block ---------------------------------------------------------------------------------------------------------


def test_a_barrier_orders_what_a_block_has_in_shared_memory() -> None:
    body = """
        shl.b32 r6, r0, 2; mov.b32 r7, words; add.u32 r8, r7, r6; st.shared.u32 [r8], r4; bar.sync 0;
        xor.b32 r9, r6, 396; add.u32 r9, r9, r7; ld.shared.u32 r5, [r9];
    """
    made = lanes(body, block=128, before=".extern .shared .align 16 .b8 words[];", shared_bytes=512)
    assert made.tolist() == [100 + (k ^ 99) for k in range(128)]


def test_the_order_of_threads_is_left_to_chance_without_one() -> None:
    body = """
        shl.b32 r6, r0, 2; mov.b32 r7, words; add.u32 r8, r7, r6; st.shared.u32 [r8], r4;
        xor.b32 r9, r6, 396; add.u32 r9, r9, r7; ld.shared.u32 r5, [r9];
    """
    found = {
        lanes(body, block=128, before=".extern .shared .align 16 .b8 words[];", shared_bytes=512, seed=k).tobytes()
        for k in range(4)
    }
    assert len(found) > 1


def test_barriers_by_number_and_of_some_threads() -> None:
    """Two warps meet by themselves, while the others go another way."""
    body = """
        .shared .b32 words[64]; mov.u32 r5, 7; setp.ge.u32 p1, r0, 64; @p1 bra END;
        shl.b32 r6, r0, 2; mov.b32 r7, words; add.u32 r8, r7, r6; st.shared.u32 [r8], r4; bar.sync 3, 64;
        xor.b32 r6, r6, 252; add.u32 r8, r7, r6; ld.shared.u32 r5, [r8]; bra ENDED;
        END: bar.sync 4, 32;
        ENDED:
    """
    assert lanes(body, block=96).tolist() == [100 + (k ^ 63) for k in range(64)] + [7] * 32


# --- Blocks ----------------------------------------------------------------------------------------------------------


def test_atomic_operations_give_each_thread_its_own_turn() -> None:
    x = np.array([0, 100, 0, 5], "i4")
    out = np.zeros(256, "i4")
    body = """
        mov.u32 r1, %ctaid.x; mad.lo.u32 r2, r1, 64, r0; mul.wide.u32 rd9, r2, 4; add.s64 rd11, rd2, rd9;
        atom.global.add.u32 r5, [rd1], 1; red.global.min.s32 [rd1+4], r2;
        atom.acq_rel.gpu.global.max.s32 r6, [rd1+8], r2;
        atom.global.inc.u32 r7, [rd1+12], 9; st.global.u32 [rd11], r5;
    """
    run(body, x, out, grid=4, block=64)
    assert sorted(out.tolist()) == list(range(256))
    assert x.tolist() == [256, 0, 255, (5 + 256) % 10]


def test_blocks_meet_that_wait_for_each_other() -> None:
    """All of a grid count themselves and spin until all have; then each reads what the others left."""
    x, out = np.zeros(64, "u4"), np.zeros(48, "u4")
    body = """
        mov.u32 r1, %ctaid.x; mul.wide.u32 rd9, r1, 4; add.s64 rd10, rd1, rd9; add.s64 rd11, rd2, rd9;
        setp.ne.u32 p1, r0, 0; @p1 bra MET; add.u32 r5, r1, 500; st.global.u32 [rd10+8], r5; fence.acq_rel.gpu;
        atom.add.release.gpu.global.u32 r6, [rd1], 1;
        WAIT: ld.acquire.gpu.global.u32 r7, [rd1]; setp.lt.u32 p2, r7, 48; @p2 bra WAIT;
        MET: bar.sync 0; add.u32 r8, r1, 1; rem.u32 r8, r8, 48; mul.wide.u32 rd9, r8, 4; add.s64 rd10, rd1, rd9;
        ld.global.u32 r5, [rd10+8]; @!p1 st.global.u32 [rd11], r5;
    """
    run(body, x, out, grid=48, block=128, cooperative=True)
    assert out.tolist() == [500 + (k + 1) % 48 for k in range(48)]
    x[0] = 0
    with pytest.raises(ptx.PtxError, match="threads ask for ever"):
        run(body.replace("r7, 48", "r7, 49"), x, out, grid=48, block=32, cooperative=True)


def test_a_cluster_reads_the_shared_memory_of_its_blocks() -> None:
    x, out = np.zeros(1, "u4"), np.zeros((8, 32), "u4")
    body = """
        .shared .align 4 .b8 words[128];
        mov.u32 r1, %ctaid.x; mov.u32 r2, %cluster_ctarank; shl.b32 r3, r0, 2; mov.b32 r4, words; add.u32 r4, r4, r3;
        mad.lo.u32 r5, r1, 1000, r0; st.shared.u32 [r4], r5; barrier.cluster.arrive.release.aligned;
        barrier.cluster.wait.acquire.aligned; add.u32 r6, r2, 1; mov.u32 r7, %cluster_nctarank; rem.u32 r6, r6, r7;
        mapa.shared::cluster.u32 r8, r4, r6; ld.shared::cluster.u32 r9, [r8];
        mov.u32 r10, %clusterid.x; mad.lo.u32 r9, r10, 100000, r9;
        mad.lo.u32 r11, r1, 32, r0; mul.wide.u32 rd9, r11, 4; add.s64 rd11, rd2, rd9; st.global.u32 [rd11], r9;
        barrier.cluster.arrive; barrier.cluster.wait;
    """
    run(body, x, out, grid=8, cluster=4)
    for block in range(8):
        other = block // 4 * 4 + (block + 1) % 4
        assert out[block].tolist() == [100000 * (block // 4) + 1000 * other + k for k in range(32)]
    early = body.replace("barrier.cluster.arrive.release.aligned;", "").replace(
        "barrier.cluster.wait.acquire.aligned;", ""
    )
    with pytest.raises(ptx.PtxError, match="before it is known to have started"):
        run(early, x, out, grid=8, attributes=".reqnctapercluster 4, 1, 1")


# --- Memory ----------------------------------------------------------------------------------------------------------


def test_variables_are_in_their_spaces_and_have_generic_addresses() -> None:
    """Of the module, of a thread, and of a block: the table says that each thread's own is its own."""
    before = """
        .global .align 4 .b8 table[12] = {1, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff};
        .const .align 4 .u32 fixed = 40; .global .u32 count;
    """
    body = """
        .local .align 8 .b8 depot[64]; .shared .align 8 .b64 words[64];
        mov.u64 rd20, depot; cvta.local.u64 rd21, rd20; add.u64 rd21, rd21, 8;
        st.u32 [rd21], r4; st.local.u32 [depot], r0;
        mov.u64 rd22, words; cvta.shared.u64 rd22, rd22; mad.wide.u32 rd22, r0, 8, rd22; st.u32 [rd22+4], r0;
        cvta.to.shared.u64 rd23, rd22; cvt.u32.u64 r20, rd23; bar.sync 0;
        ld.shared.u32 r21, [r20+4]; ld.local.u32 r22, [rd20+8]; ld.u32 r23, [rd20];
        ld.global.u32 r24, [table+4]; ld.const.u32 r25, [fixed]; ld.global.s8 r26, [table+8];
        red.global.add.u32 [count], 1;
        add.u32 r5, r21, r22; add.u32 r5, r5, r23; add.u32 r5, r5, r24; add.u32 r5, r5, r25; add.s32 r5, r5, r26;
    """
    assert lanes(body, block=64, before=before).tolist() == [100 + 3 * k + 2 + 40 - 1 for k in range(64)]


# --- What is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("ld.global.u32 r5, [rd10+4];", "reads 4 bytes, 128 bytes from the start of 128 that it was given"),
        ("ld.global.u32 r5, [rd10+-4];", "reads 4 bytes, -4 bytes from the start of 128"),
        ("ld.global.v2.u32 {r5, r6}, [rd10];", "8 bytes at 0x[0-9a-f]*[4c], which is no multiple of them"),
        ("ld.global.u32 r5, [0];", "reads 4 bytes"),
        ("st.global.u32 [rd11+4], r0;", "writes 4 bytes, 128 bytes"),
        ("st.global.u32 [rd3], r0;", "writes memory that is only to be read"),
        ("ld.u32 r5, [rd10+128];", "'ld.u32 r5, .rd10.128.': reads 4 bytes"),
        ("ld.shared.u32 r5, [words+128];", "4 bytes at 0x480 of shared memory, which a block has from 0x400 to 0x480"),
        ("ld.shared.u32 r5, [0];", "4 bytes at 0x0 of shared memory"),
        ("setp.eq.u32 p1, r0, 3; @p1 bra E; shfl.sync.bfly.b32 r5, r4, 1, 31, -1; E:", "waits for"),
        ("setp.eq.u32 p1, r0, 3; @p1 bra E; bar.warp.sync -1; E: shfl.sync.bfly.b32 r5, r4, 1, 31, -1;",
         "meets it at another instruction"),
        ("setp.eq.u32 p1, r0, 3; @p1 bra E; bar.sync 1, 64; E:", "no thread can go on.*31 threads wait"),
        ("setp.eq.u32 p1, r0, 3; @p1 bra W; bar.sync 1, 64; W: bar.sync 1, 32;", "is for (64|32) threads, and for"),
        ("shfl.sync.bfly.b32 r5, r4, 1, 31, 0xFFFF;", "meets lanes of the mask 0xffff, of which it is none|lane"),
        ("trap;", "'trap': trap"),
        ("L: ld.volatile.global.u32 r5, [rd10]; setp.ne.u32 p1, r5, 77777; @p1 bra L;", "threads ask for ever"),
        ("mbarrier.arrive.shared.b64 rd5, [words];", "there is no mbarrier"),
        ("cp.async.ca.shared.global [words], [rd1], 16;", "ended with a copy on its way that nothing has waited for"),
    ],
)  # fmt: skip
def test_what_a_device_would_do_wrong_is_an_error(body: str, said: str) -> None:
    x, out, read = np.arange(32, dtype="u4"), np.zeros(32, "u4"), np.zeros(4, "u4")
    kernel = ptx.load(module(f"{WORD} mov.u32 r4, 0; {body}", 3, before=".shared .align 16 .b8 words[128];"))["main"]
    arrays = (x, out, read)
    memory = [(a.ctypes.data, a.nbytes, a is not read) for a in arrays]
    with pytest.raises(ptx.PtxError, match=said) as caught:
        kernel.launch(1, 32, [a.ctypes.data for a in arrays], memory=memory)
    assert str(caught.value).startswith("main, seed ")


def test_memory_ends_within_a_word() -> None:
    x = np.zeros(4, "u4")
    kernel = ptx.load(module("ld.global.u32 r5, [rd1+12];", 1))["main"]
    kernel.launch(1, 1, [x.ctypes.data], memory=[(x.ctypes.data, 16)])
    with pytest.raises(ptx.PtxError, match="reads 4 bytes, 12 bytes from the start of 14 that it was given"):
        kernel.launch(1, 1, [x.ctypes.data], memory=[(x.ctypes.data, 14)])


def test_a_launch_that_begins_early_waits_before_it_touches_memory() -> None:
    x = np.zeros(1, "u4")
    waits, loads = "griddepcontrol.wait;", "ld.global.u32 r5, [rd1];"
    run(waits + loads, x, dependent=True)
    for early in (loads + waits, f"setp.eq.u32 p1, r0, 3; @!p1 {waits} {loads}"):
        run(early, x)
        with pytest.raises(ptx.PtxError, match="uses memory before it waits for the launches before it"):
            run(early, x, dependent=True)


def test_parameters_are_checked_and_taken_as_the_driver_takes_them() -> None:
    text = """
        .version 8.7 .target sm_90 .address_size 64
        .visible .entry main(.param .u64 .ptr .align 4 at, .param .f32 a, .param .align 8 .b8 two[16]) {
        .reg .b64 d<9>; .reg .f32 f; .reg .u32 n;
        ld.param.u64 d1, [at]; ld.param.f32 f, [a]; st.global.f32 [d1], f;
        mov.b64 d2, two; cvta.param.u64 d2, d2; ld.u32 n, [d2+8]; st.global.u32 [d1+4], n; ret; }
    """
    kernel = ptx.load(text)["main"]
    assert kernel.parameter_sizes == (8, 4, 16)
    out = np.zeros(2, "u4")
    values = ctypes.c_uint64(out.ctypes.data), ctypes.c_float(1.5), (ctypes.c_uint64 * 2)(1, 7)
    memory = [(out.ctypes.data, out.nbytes)]
    for arguments in (values, (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))):
        out[:] = 0
        kernel.launch(1, 1, arguments, memory=memory)
        assert out.view("f4")[0] == 1.5 and out[1] == 7
    with pytest.raises(ptx.PtxError, match="takes 3 parameters, got 2"):
        kernel.launch(1, 1, values[:2])
    with pytest.raises(ptx.PtxError, match="parameter 1 takes 4 bytes, got 8"):
        kernel.launch(1, 1, (values[0], ctypes.c_double(1), values[2]))
