"""Thread-block clusters (sm_90 and later), which Numba has no words for: blocks that run at once and reach each
other's shared memory. As inline PTX.

What blocks send is counted in bytes by a barrier (PTX's mbarrier) in the receiver's shared memory, one word of 64 bits.
A launch uses each place and each barrier once, so that nobody has to wait for room; and no block may end before all
that is sent to it has come.
"""

from functools import partial
from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types

from kernelzoo.kernels.numba.machine import I32, I64, asm, made_of, shared_address


def _barrier(builder: Any, code: str, *operands: Any) -> None:
    """One that all threads of a warp must reach at the same instruction: the compiler may not make two of it."""
    function = ir.FunctionType(ir.VoidType(), [I32] * len(operands))
    barrier = builder.asm(function, code, ",".join([*["r"] * len(operands), "~{memory}"]), list(operands), True)
    barrier.attributes.add("convergent")


def _arm(builder: Any, barrier: Any, count: Any, then: str = "") -> None:
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
    _barrier(builder, f"{code}{then}}}", shared_address(builder, barrier, I64(0)), builder.trunc(count, I32))


arm = made_of(lambda barrier, count: types.void(barrier, types.int64), _arm)
"""Make ``barrier[0]``, which so many bytes sent to this block will complete, before the cluster is told of another."""

cluster_arrive = made_of(
    lambda barrier, count: types.void(barrier, types.int64),
    partial(_arm, then="barrier.cluster.arrive.relaxed.aligned;"),
)
"""Make ``barrier[0]``, which so many bytes sent to this block will complete, and tell the cluster that it is made and
that this thread runs. No more than that is handed on, so that nothing is waited for: a release would first have all of
the thread's writes reach the whole device."""

cluster_wait = made_of(lambda: types.void(), lambda builder: _barrier(builder, "barrier.cluster.wait.acquire.aligned;"))
"""Wait until every thread of the cluster has arrived: then its blocks' shared memory may be sent to."""


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


send = made_of(
    lambda array, i, values, barrier, rank: types.void(array, types.int64, values, barrier, types.int64), _send
)
"""``send(array, i, values, barrier, rank)``: ``array[i : i + len(values)] = values``, one value or two, in the shared
memory of the cluster's block of that rank, whose barrier counts the bytes. Two must lie on a boundary of their size."""


def _wait_for(builder: Any, barrier: Any) -> None:
    code = """{
        .reg .pred complete;
    AGAIN:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [$0], 0;
        @!complete bra AGAIN;
    }"""
    asm(builder, None, code, shared_address(builder, barrier, I64(0)), memory=True)


wait_for = made_of(lambda barrier: types.void(barrier), _wait_for)
"""Wait until all bytes that ``barrier[0]`` counts have come, which this thread may read then."""
