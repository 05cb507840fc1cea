"""Thread-block clusters (sm_90 and later), which Numba has no words for: blocks that run at once and reach each
other's shared memory. As inline PTX, for the kernels of ``split``; Numba's simulator runs one block at a time and has
no such thing.

What blocks send is counted in bytes by a barrier (PTX's mbarrier) in the receiver's shared memory, one word of 64 bits.
A launch uses each place and each barrier once, so that nobody has to wait for room; and no block may end before all
that is sent to it has come.
"""

from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

I32, I64 = ir.IntType(32), ir.IntType(64)


def _barrier(builder: Any, code: str, operands: list[Any]) -> None:
    """One that all threads of a warp must reach at the same instruction: the compiler may not make two of it."""
    function = ir.FunctionType(ir.VoidType(), [I32] * len(operands))
    barrier = builder.asm(function, code, ",".join([*["r"] * len(operands), "~{memory}"]), operands, True)
    barrier.attributes.add("convergent")


def _place(context: Any, builder: Any, kind: Any, array: Any, i: Any) -> Any:
    """The address of ``array[i]`` in this block's shared memory."""
    element = builder.gep(cgutils.create_struct_proxy(kind)(context, builder, array).data, [i])
    return builder.ptrtoint(builder.addrspacecast(element, element.type.pointee.as_pointer(3)), I32)


@intrinsic
def cluster_arrive(typing, barrier, count):
    """Make ``barrier[0]``, which so many bytes sent to this block will complete, and tell the cluster that it is made
    and that this thread runs. No more than that is handed on, so that nothing is waited for: a release would first
    have all of the thread's writes reach the whole device."""

    def codegen(context, builder, signature, args):
        code = """{
            .reg .b32 t;
            .reg .pred first;
            mov.u32 t, %tid.x;
            setp.eq.u32 first, t, 0;
            @first mbarrier.init.shared::cta.b64 [$0], 1;
            @first fence.mbarrier_init.release.cluster;
            bar.warp.sync 0xffffffff;
            @first mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;
            barrier.cluster.arrive.relaxed.aligned;
        }"""
        made = _place(context, builder, signature.args[0], args[0], I64(0))
        _barrier(builder, code, [made, builder.trunc(args[1], I32)])
        return context.get_dummy_value()

    return types.void(barrier, types.int64), codegen


@intrinsic
def cluster_wait(typing):
    """Wait until every thread of the cluster has arrived: then its blocks' shared memory may be sent to."""

    def codegen(context, builder, signature, args):
        _barrier(builder, "barrier.cluster.wait.acquire.aligned;", [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def send(typing, array, i, values, barrier, rank):
    """``array[i : i + len(values)] = values``, one value or two, in the shared memory of the cluster's block of that
    rank, whose barrier counts the bytes. Two must lie on a boundary of their size."""
    width = values.dtype.bitwidth
    letter = {types.float32: "f", types.float64: "d", types.int32: "r", types.int64: "l"}[values.dtype]
    vector, sent = ("", "$3") if len(values) == 1 else (".v2", "{$3, $4}")

    def codegen(context, builder, signature, args):
        code = f"""{{
            .reg .b32 to, counted;
            mapa.shared::cluster.u32 to, $0, $2;
            mapa.shared::cluster.u32 counted, $1, $2;
            st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.b{width} [to], {sent}, [counted];
        }}"""
        place = _place(context, builder, signature.args[0], args[0], args[1])
        counting = _place(context, builder, signature.args[3], args[3], I64(0))
        operands = [place, counting, builder.trunc(args[4], I32), *cgutils.unpack_tuple(builder, args[2])]
        function = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
        builder.asm(function, code, ",".join(["r", "r", "r", *[letter] * len(values), "~{memory}"]), operands, True)
        return context.get_dummy_value()

    return types.void(array, types.int64, values, barrier, types.int64), codegen


@intrinsic
def wait_for(typing, barrier):
    """Wait until all bytes that ``barrier[0]`` counts have come, which this thread may read then."""

    def codegen(context, builder, signature, args):
        code = """{
            .reg .pred complete;
        AGAIN:
            mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [$0], 0;
            @!complete bra AGAIN;
        }"""
        counting = _place(context, builder, signature.args[0], args[0], I64(0))
        builder.asm(ir.FunctionType(ir.VoidType(), [I32]), code, "r,~{memory}", [counting], True)
        return context.get_dummy_value()

    return types.void(barrier), codegen
