"""What Numba's language has no word for, as intrinsics: 16-byte vectors, half precision, NaN-keeping minima, atomics.

Each function here is a few instructions of the GPU, written as LLVM IR or inline PTX, and has a twin of the same name
in :mod:`kernelzoo.kernels.numba.simulated` that says the same in NumPy; kernels take whichever runs from
:mod:`kernelzoo.kernels.numba.row`. Pointers are raw addresses (``CPointer``), offsets count elements in 64 bits.

Half precision is moved as 16-bit integers and converted by single instructions. Numba has a bfloat16 of its own, but
each of its operations is a call into a C++ shim, compiled with NVRTC and linked in at every compilation.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()


def _asm(builder: Any, result: Any, operands: list[Any], code: str, constraints: str, effect: bool = False) -> Any:
    function = ir.FunctionType(result, [operand.type for operand in operands])
    return builder.asm(function, code, constraints, operands, effect)


def _widen(builder: Any, bits: Any, dtype: str) -> Any:
    """One element as stored, an integer of its size, as the type it is computed in."""
    if dtype == "bfloat16":
        return builder.bitcast(builder.shl(builder.zext(bits, I32), I32(16)), F32)
    if dtype == "float16":
        return builder.fpext(builder.bitcast(bits, F16), F32)
    if dtype == "float32":
        return builder.bitcast(bits, F32)
    if dtype == "float64":
        return builder.bitcast(bits, F64)
    if dtype in ("bool", "uint8"):
        return builder.zext(bits, I32)
    return builder.sext(bits, I32) if bits.type.width < 32 else bits


def _narrow(builder: Any, value: Any, dtype: str) -> Any:
    """The inverse of _widen, rounding to nearest even."""
    if dtype in ("float16", "bfloat16"):
        kind = "f16" if dtype == "float16" else "bf16"
        return _asm(builder, I16, [value], f"cvt.rn.{kind}.f32 $0, $1;", "=h,f")
    width = STORAGE[dtype].bitwidth
    if isinstance(value.type, ir.IntType):
        return builder.trunc(value, ir.IntType(width)) if value.type.width > width else value
    return builder.bitcast(value, ir.IntType(width))


def _at(builder: Any, pointer: Any, offset: Any, kind: Any) -> Any:
    """The address of an element as a pointer to ``kind``."""
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())


def _words(dtype: str, width: int) -> tuple[Any, int]:
    """The LLVM type that a vector of elements is moved as, and how many elements share a word of it.

    In words of 32 bits, since the compiler would split a vector of eight 16-bit elements into two of 8 bytes.
    """
    bits = STORAGE[dtype].bitwidth
    word = I64 if bits == 64 else ir.IntType(min(width * bits, 32))
    count = width * bits // word.width
    return (word if count == 1 else ir.VectorType(word, count)), word.width // bits


def element_functions(dtype: str) -> tuple[Any, Any]:
    """``load(pointer, i)`` and ``store(pointer, i, value)`` of one element."""
    bits = ir.IntType(STORAGE[dtype].bitwidth)
    wide = WIDE[dtype]

    @intrinsic
    def load(typing, pointer, i):
        def codegen(context, builder, signature, args):
            return _widen(builder, builder.load(_at(builder, args[0], args[1], bits)), dtype)

        return wide(pointer, types.int64), codegen

    @intrinsic
    def store(typing, pointer, i, value):
        def codegen(context, builder, signature, args):
            builder.store(_narrow(builder, args[2], dtype), _at(builder, args[0], args[1], bits))
            return context.get_dummy_value()

        return types.void(pointer, types.int64, wide), codegen

    return load, store


def vector_functions(dtype: str, width: int) -> tuple[Any, Any]:
    """``load_vector(pointer, i, row, k)`` and ``store_vector(pointer, i, row, k)``: ``width`` elements in one
    instruction, between memory at i, aligned to the vector's size, and ``row[k : k + width]`` in registers."""
    vector, shared = _words(dtype, width)
    one_word = not isinstance(vector, ir.VectorType)
    bits = STORAGE[dtype].bitwidth
    align = width * bits // 8

    @intrinsic
    def load_vector(typing, pointer, i, row, k):
        def codegen(context, builder, signature, args):
            loaded = builder.load(_at(builder, args[0], args[1], vector), align=align)
            registers = cgutils.create_struct_proxy(signature.args[2])(context, builder, args[2]).data
            for j in range(width):
                word = loaded if one_word else builder.extract_element(loaded, I32(j // shared))
                if shared > 1:
                    word = builder.trunc(builder.lshr(word, word.type(j % shared * bits)), ir.IntType(bits))
                target = builder.gep(registers, [builder.add(args[3], args[3].type(j))])
                builder.store(_widen(builder, word, dtype), target)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, row, types.int64), codegen

    @intrinsic
    def store_vector(typing, pointer, i, row, k):
        def codegen(context, builder, signature, args):
            registers = cgutils.create_struct_proxy(signature.args[2])(context, builder, args[2]).data
            values = [
                builder.load(builder.gep(registers, [builder.add(args[3], args[3].type(j))])) for j in range(width)
            ]
            if dtype in ("float16", "bfloat16") and width > 1:
                kind = "f16x2" if dtype == "float16" else "bf16x2"
                words = [
                    _asm(builder, I32, [high, low], f"cvt.rn.{kind}.f32 $0, $1, $2;", "=r,f,f")
                    for low, high in zip(values[::2], values[1::2], strict=True)
                ]
            else:
                words = [_narrow(builder, value, dtype) for value in values]
            packed = words[0]
            if not one_word:
                packed = ir.Constant(vector, ir.Undefined)
                for j, word in enumerate(words):
                    packed = builder.insert_element(packed, word, I32(j))
            builder.store(packed, _at(builder, args[0], args[1], vector), align=align)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, row, types.int64), codegen

    return load_vector, store_vector


@intrinsic
def maximum(typing, a, b):
    """The larger of two floats; a NaN is dropped, as softmax may: it comes back through the exponential."""
    kind, letter = ("f32", "f") if a == types.float32 else ("f64", "d")

    def codegen(context, builder, signature, args):
        return _asm(builder, args[0].type, list(args), f"max.{kind} $0, $1, $2;", f"={letter},{letter},{letter}")

    return a(a, a), codegen


@intrinsic
def minimum(typing, a, b):
    """The smaller of two numbers, NaN if one of them is."""

    def codegen(context, builder, signature, args):
        first, second = args
        if a == types.float32:
            return _asm(builder, F32, [first, second], "min.NaN.f32 $0, $1, $2;", "=f,f,f")  # sm_80 and later
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
            return _asm(builder, F32, [scaled], "ex2.approx.ftz.f32 $0, $1;", "=f,f")
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(F64, [F64]), "__nv_exp")
        return builder.call(function, args)

    return x(x), codegen


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
            _asm(builder, ir.VoidType(), [address, args[2]], signed, f"l,{letter}", True)
            return context.get_dummy_value()
        integer = ir.IntType(width)
        nan = builder.fcmp_unordered("uno", args[2], args[2])
        key = builder.select(nan, integer(-1), builder.bitcast(args[2], integer))
        with builder.if_else(builder.icmp_signed(">=", key, integer(0))) as (positive, negative):
            with positive:
                _asm(builder, ir.VoidType(), [address, key], signed, f"l,{letter}", True)
            with negative:
                _asm(builder, ir.VoidType(), [address, key], unsigned, f"l,{letter}", True)
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
        before = _asm(builder, I32, [address, limit], code, "=r,l,r,~{memory}", True)
        return builder.zext(before, I64)

    return types.int64(counters, types.int64, types.int64), codegen
