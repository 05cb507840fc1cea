"""LLVM IR and inline PTX: types, one instruction, and an element between memory and registers."""

from typing import Any

from llvmlite import ir

from kernelzoo.kernels.numba.dtypes import STORAGE

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
LETTERS = {I32: ("r", "b32"), I64: ("l", "b64"), F32: ("f", "f32"), F64: ("d", "f64")}
"""How inline PTX names a register of each type, and what moves it."""


def asm(builder: Any, result: Any, operands: list[Any], code: str, constraints: str, effect: bool = False) -> Any:
    """One piece of inline PTX; with ``effect`` it does more than give its result."""
    function = ir.FunctionType(result, [operand.type for operand in operands])
    return builder.asm(function, code, constraints, operands, effect)


def widen(builder: Any, bits: Any, dtype: str) -> Any:
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


def narrow(builder: Any, value: Any, dtype: str) -> Any:
    """The inverse of widen, rounding to nearest even."""
    if dtype in ("float16", "bfloat16"):
        kind = "f16" if dtype == "float16" else "bf16"
        return asm(builder, I16, [value], f"cvt.rn.{kind}.f32 $0, $1;", "=h,f")
    width = STORAGE[dtype].bitwidth
    if isinstance(value.type, ir.IntType):
        return builder.trunc(value, ir.IntType(width)) if value.type.width > width else value
    return builder.bitcast(value, ir.IntType(width))


def element_at(builder: Any, pointer: Any, offset: Any, kind: Any) -> Any:
    """The address of an element as a pointer to ``kind``."""
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())
