"""What blocks have in common in global memory: minima, and counters."""

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

from kernelzoo.kernels.numba.machine.code import I32, I64, asm


@intrinsic
def atomic_min(typing, pointer, i, value):
    """Lower ``pointer[i]``, a 32- or 64-bit number, to ``value``, NaN winning.

    Floats go by their bits: read as signed integers, non-negative ones stand in their own order and above all negative
    ones; read as unsigned, negative ones stand in reverse order and above all others. So a non-negative value is a
    signed minimum, a negative one an unsigned maximum, and a NaN is all ones, the greatest of those.
    """
    width = value.bitwidth
    letter = "r" if width == 32 else "l"

    def codegen(context, builder, signature, args):
        address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        signed = f"red.relaxed.gpu.global.min.s{width} [$0], $1;"
        unsigned = f"red.relaxed.gpu.global.max.u{width} [$0], $1;"
        if isinstance(value, types.Integer):
            asm(builder, ir.VoidType(), [address, args[2]], signed, f"l,{letter}", True)
            return context.get_dummy_value()
        integer = ir.IntType(width)
        nan = builder.fcmp_unordered("uno", args[2], args[2])
        key = builder.select(nan, integer(-1), builder.bitcast(args[2], integer))
        with builder.if_else(builder.icmp_signed(">=", key, integer(0))) as (positive, negative):
            with positive:
                asm(builder, ir.VoidType(), [address, key], signed, f"l,{letter}", True)
            with negative:
                asm(builder, ir.VoidType(), [address, key], unsigned, f"l,{letter}", True)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value), codegen


@intrinsic
def arrive(typing, counters, i, last):
    """Count one more arrival at ``counters[i]`` and return how many came before; after ``last`` it starts again at 0.

    Everything that this thread wrote before is seen by whoever arrives later (acquire and release, device-wide).
    """

    def codegen(context, builder, signature, args):
        address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        code = "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;"
        limit = builder.trunc(args[2], I32)
        before = asm(builder, I32, [address, limit], code, "=r,l,r,~{memory}", True)
        return builder.zext(before, I64)

    return types.int64(counters, types.int64, types.int64), codegen


@intrinsic
def count_up(typing, counters, i):
    """Count an arrival at the 64-bit ``counters[i]`` and return how many came before it, ever; acquire and release."""

    def codegen(context, builder, signature, args):
        address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        return asm(builder, I64, [address], "atom.acq_rel.gpu.global.add.u64 $0, [$1], 1;", "=l,l,~{memory}", True)

    return types.int64(counters, types.int64), codegen


@intrinsic
def seen(typing, counters, i):
    """What the 64-bit ``counters[i]`` holds now; what was written before those arrivals may be read after it."""

    def codegen(context, builder, signature, args):
        address = builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)
        return asm(builder, I64, [address], "ld.acquire.gpu.global.u64 $0, [$1];", "=l,l,~{memory}", True)

    return types.int64(counters, types.int64), codegen
