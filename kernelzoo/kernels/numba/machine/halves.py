"""Half precision, two to a word of 32 bits, as vectors of it stay in registers."""

from typing import Any

from numba.cuda import types
from numba.cuda.extending import intrinsic

from kernelzoo.kernels.numba.machine.code import F32, I16, I32, LETTERS, asm, widen


def is_packed(dtype: str, width: int) -> bool:
    """Whether vectors of that width stay in registers as they lie in memory: halves, two to a word of 32 bits."""
    return dtype in ("float16", "bfloat16") and width > 1


def word_functions(dtype: str) -> tuple[Any, Any, Any, Any, Any]:
    """``low(word)``, ``high(word)``, ``pair(low, high)``, ``larger(a, b)``, ``least(a, b)``: two halves in 32 bits.

    ``low`` and ``high`` widen to float32, ``pair`` rounds to nearest even; ``larger`` drops a NaN, ``least`` keeps it.
    """
    kind = "f16x2" if dtype == "float16" else "bf16x2"

    @intrinsic
    def low(typing, word):
        def codegen(context, builder, signature, args):
            if dtype == "bfloat16":
                return builder.bitcast(builder.shl(args[0], I32(16)), F32)
            return widen(builder, builder.trunc(args[0], I16), dtype)

        return types.float32(types.uint32), codegen

    @intrinsic
    def high(typing, word):
        def codegen(context, builder, signature, args):
            if dtype == "bfloat16":
                return builder.bitcast(builder.and_(args[0], I32(0xFFFF0000)), F32)
            return widen(builder, builder.trunc(builder.lshr(args[0], I32(16)), I16), dtype)

        return types.float32(types.uint32), codegen

    @intrinsic
    def pair(typing, first, second):
        def codegen(context, builder, signature, args):
            return asm(builder, I32, [args[1], args[0]], f"cvt.rn.{kind}.f32 $0, $1, $2;", "=r,f,f")

        return types.uint32(types.float32, types.float32), codegen

    def both(instruction: str) -> Any:
        @intrinsic
        def compare(typing, a, b):
            def codegen(context, builder, signature, args):
                return asm(builder, I32, list(args), f"{instruction}.{kind} $0, $1, $2;", "=r,r,r")

            return types.uint32(types.uint32, types.uint32), codegen

        return compare

    return low, high, pair, both("max"), both("min.NaN")


@intrinsic
def keep(typing, word):
    """The same value, as if it were new: the compiler, left to itself, would keep widened values from one pass over
    packed halves to the next, and run out of registers; and it would divide anew for each element that gets a
    quotient."""

    def codegen(context, builder, signature, args):
        kind = args[0].type
        return asm(builder, kind, [args[0]], "", f"={LETTERS[kind][0]},0", True)

    return word(word), codegen
