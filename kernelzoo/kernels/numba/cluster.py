"""Thread-block clusters (sm_90 and later), which Numba has no words for: blocks that run at once and reach each
other's shared memory. As inline PTX, for the kernels of ``split``; Numba's simulator runs one block at a time and has
no such thing.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

I32 = ir.IntType(32)


def _barrier(builder: Any, code: str) -> None:
    """One that all threads of a warp must reach at the same instruction: the compiler may not make two of it."""
    barrier = builder.asm(ir.FunctionType(ir.VoidType(), []), code, "~{memory}", [], True)
    barrier.attributes.add("convergent")


@intrinsic
def cluster_arrive(typing):
    """Tell the cluster that this thread has come so far, and that what it wrote may be read."""

    def codegen(context, builder, signature, args):
        _barrier(builder, "barrier.cluster.arrive.release.aligned;")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def cluster_wait(typing):
    """Wait until every thread of the cluster has arrived."""

    def codegen(context, builder, signature, args):
        _barrier(builder, "barrier.cluster.wait.acquire.aligned;")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def store_to_block(typing, array, i, value, rank):
    """``array[i] = value`` in the shared memory of the cluster's block of that rank."""
    kind, letter = {
        types.float32: ("f32", "f"),
        types.float64: ("f64", "d"),
        types.int32: ("s32", "r"),
        types.int64: ("s64", "l"),
    }[value]

    def codegen(context, builder, signature, args):
        shared = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).data
        element = builder.gep(shared, [args[1]])
        address = builder.ptrtoint(builder.addrspacecast(element, element.type.pointee.as_pointer(3)), I32)
        code = f"{{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; st.shared::cluster.{kind} [there], $2; }}"
        function = ir.FunctionType(ir.VoidType(), [I32, I32, args[2].type])
        builder.asm(function, code, f"r,r,{letter},~{{memory}}", [address, builder.trunc(args[3], I32), args[2]], True)
        return context.get_dummy_value()

    return types.void(array, types.int64, value, types.int64), codegen
