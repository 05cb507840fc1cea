"""Maximum, minimum and exponential, each with its own way with NaN."""

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from kernelzoo.kernels.numba.machine.code import F32, F64, asm


@intrinsic
def maximum(typing, a, b):
    """The larger of two floats; a NaN is dropped, as softmax may: it comes back through the exponential."""
    kind, letter = ("f32", "f") if a == types.float32 else ("f64", "d")

    def codegen(context, builder, signature, args):
        return asm(builder, args[0].type, list(args), f"max.{kind} $0, $1, $2;", f"={letter},{letter},{letter}")

    return a(a, a), codegen


@intrinsic
def minimum(typing, a, b):
    """The smaller of two numbers, NaN if one of them is."""

    def codegen(context, builder, signature, args):
        first, second = args
        if a == types.float32:
            return asm(builder, F32, [first, second], "min.NaN.f32 $0, $1, $2;", "=f,f,f")  # sm_80 and later
        if a == types.float64:
            smaller = builder.fcmp_ordered("<", second, first)
            return builder.select(builder.or_(smaller, builder.fcmp_unordered("uno", second, second)), second, first)
        return builder.select(builder.icmp_signed("<", second, first), second, first)

    return a(a, a), codegen


@intrinsic
def exponential(typing, x):
    """e^x. In float32 as 2^(x log2 e) by the hardware's approximation, two units in the last place, subnormals flushed;
    in float64 by libdevice. NaN stays NaN, -inf gives 0. Numba's fastmath would assume that neither occurs."""

    def codegen(context, builder, signature, args):
        if x == types.float32:
            scaled = builder.fmul(args[0], F32(1.4426950408889634))
            return asm(builder, F32, [scaled], "ex2.approx.ftz.f32 $0, $1;", "=f,f")
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(F64, [F64]), "__nv_exp")
        return builder.call(function, args)

    return x(x), codegen


@intrinsic
def reciprocal(typing, s):
    """1 / s of a float32 that is not subnormal, but for its last bit: a division has a branch for those. Of NaN and of
    0 it is NaN."""

    def codegen(context, builder, signature, args):
        code = (
            "{ .reg .f32 near, rest; rcp.approx.ftz.f32 near, $1; neg.f32 rest, $1; "
            "fma.rn.f32 rest, rest, near, 0f3F800000; fma.rn.f32 $0, near, rest, near; }"
        )
        return asm(builder, F32, [args[0]], code, "=f,f")

    return types.float32(types.float32), codegen
