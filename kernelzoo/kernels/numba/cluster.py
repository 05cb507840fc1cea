"""Thread-block clusters (sm_90 and later) as inline PTX, because Numba lacks them.

The blocks of a cluster run at the same time, and can write to each other's shared memory. A barrier (PTX's mbarrier,
one 64-bit word) in the receiver's shared memory counts the bytes that arrive. A launch uses each location and each
barrier only once, so that no sender waits for space. A block may end only after it has received all that is sent to it.
"""

from functools import partial
from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types

from kernelzoo.kernels.numba.machine import I32, I64, asm, make_intrinsic, shared_address


def _emit_barrier(builder: Any, code: str, *operands: Any) -> None:
    """Emit a barrier that the compiler may not duplicate: a warp's threads must reach it at the same instruction."""
    function = ir.FunctionType(ir.VoidType(), [I32] * len(operands))
    barrier = builder.asm(function, code, ",".join([*["r"] * len(operands), "~{memory}"]), list(operands), True)
    barrier.attributes.add("convergent")


def _arm_barrier(builder: Any, barrier: Any, count: Any, final_code: str = "") -> None:
    code = """{
        .reg .b32 t;
        .reg .pred first;
        mov.u32 t, %tid.x;
        setp.eq.u32 first, t, 0;
        @first mbarrier.init.shared::cta.b64 [$0], 1;
        @first fence.mbarrier_init.release.cluster;
        bar.warp.sync 0xffffffff;
        @first mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;
        """
    _emit_barrier(builder, f"{code}{final_code}}}", shared_address(builder, barrier, I64(0)), builder.trunc(count, I32))


arm = make_intrinsic(lambda barrier, count: types.void(barrier, types.int64), _arm_barrier)
"""``arm(barrier, count)``: let ``barrier[0]`` await ``count`` bytes to this block. Call it before
``cluster_arrive``."""

cluster_arrive = make_intrinsic(
    lambda barrier, count: types.void(barrier, types.int64),
    partial(_arm_barrier, final_code="barrier.cluster.arrive.relaxed.aligned;"),
)
"""``cluster_arrive(barrier, count)``: do the same as ``arm``. Then tell the cluster that the barrier exists and that
this thread runs. The arrival is relaxed, because a release would wait until earlier writes are visible device-wide."""

cluster_wait = make_intrinsic(
    lambda: types.void(), lambda builder: _emit_barrier(builder, "barrier.cluster.wait.acquire.aligned;")
)
"""Wait until every thread of the cluster has arrived. ``send`` may then write to any of its blocks' shared memory."""


def _send(builder: Any, array: Any, i: Any, values: Any, barrier: Any, rank: Any) -> None:
    sent = cgutils.unpack_tuple(builder, values)
    bits = 64 if array.type.pointee in (I64, ir.DoubleType()) else 32
    kind, names = (f".b{bits}", "$3") if len(sent) == 1 else (f".v2.b{bits}", "{$3, $4}")
    code = f"""{{
        .reg .b32 to, counted;
        mapa.shared::cluster.u32 to, $0, $2;
        mapa.shared::cluster.u32 counted, $1, $2;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{kind} [to], {names}, [counted];
    }}"""
    place, counting = shared_address(builder, array, i), shared_address(builder, barrier, I64(0))
    asm(builder, None, code, place, counting, builder.trunc(rank, I32), *sent, memory=True)


send = make_intrinsic(
    lambda array, i, values, barrier, rank: types.void(array, types.int64, values, barrier, types.int64), _send
)
"""``send(array, i, values, barrier, rank)``: store one or two values from ``array[i]`` on, in the shared memory of the
cluster's block ``rank``. That block's barrier counts the bytes. Two values must be aligned to their size."""


def _wait_for(builder: Any, barrier: Any) -> None:
    code = """{
        .reg .pred complete;
    AGAIN:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [$0], 0;
        @!complete bra AGAIN;
    }"""
    asm(builder, None, code, shared_address(builder, barrier, I64(0)), memory=True)


wait_for = make_intrinsic(lambda barrier: types.void(barrier), _wait_for)
"""Wait until all bytes that ``barrier[0]`` counts have arrived. This thread may then read them."""
