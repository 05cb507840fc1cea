"""Numbers: sums and products, least and largest, comparisons, bits, and what is approximated."""

import re

from .text import BYTES, PtxError
from .writing import Instruction, c_type, instruction, is_float

ROUNDINGS = {"rn": "FE_TONEAREST", "rz": "FE_TOWARDZERO", "rm": "FE_DOWNWARD", "rp": "FE_UPWARD"}
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64", "u64": "u128", "s64": "s128"}


def unsigned(kind: str) -> str:
    """The C++ type of as many bits without a sign."""
    return c_type(f"b{8 * BYTES[kind]}")


def value(i: Instruction, at: int, kind: str, flushes: bool = False) -> str:
    """An operand, flushed where the instruction does so."""
    text = i.get(at, kind)
    return f"ftz({text})" if flushes and kind in ("f32", "f16") else text


def floats(i: Instruction, kind: str, name: str, count: int, rounded: bool = True, more: str = "") -> None:
    """A function of so many floats, each of two halves in a word apart."""
    flushes = bool(i.take("ftz"))
    rounding = i.take(*ROUNDINGS) if rounded else ""
    if kind.endswith("x2"):
        half = kind[:-2]
        words = [*(i.get(k, kind) for k in range(1, count + 1)), "0u", "0u"][:3]
        flushed = [f"ftz({letter})" if flushes and half == "f16" else letter for letter in "abc"[:count]]
        text = f"{name}({', '.join(flushed)}{more})"
        text = f"ftz({text})" if flushes and half == "f16" else text
        if rounding not in ("", "rn"):
            raise PtxError("halves are rounded to nearest alone")
        return i.put(
            0, kind, f"each<{half}>({', '.join(words)}, []({half} a, {half} b, {half} c) {{ return {text}; }})"
        )
    values = ", ".join(value(i, k, kind, flushes) for k in range(1, count + 1))
    if rounding not in ("", "rn"):
        text = f"{name}_rounded<{kind}>({ROUNDINGS[rounding]}, {values}{more})"
    else:
        text = f"{name}({values}{more})"
    return i.put(0, kind, f"ftz({text})" if flushes and kind in ("f32", "f16") else text)


@instruction("add", "sub")
def sum_(i: Instruction) -> None:
    kind, opcode = i.kind(), i.statement.opcode
    if is_float(kind):
        return floats(i, kind, opcode, 2)
    sign, word = {"add": "+", "sub": "-"}[opcode], unsigned(kind)
    return i.put(0, kind, f"({c_type(kind)})(({word}){i.get(1, kind)} {sign} ({word}){i.get(2, kind)})")


@instruction("mul", "mad")
def product(i: Instruction) -> None:
    kind, adds = i.kind(), i.statement.opcode == "mad"
    if is_float(kind):
        return floats(i, kind, "multiply_add" if adds else "mul", 3 if adds else 2)
    part, own = i.take("lo", "hi", "wide"), c_type(kind)
    wide = _WIDE[own]
    text = f"({wide}){i.get(1, kind)} * ({wide}){i.get(2, kind)}"
    if part == "wide":
        kind = f"{kind[0]}{16 * BYTES[kind]}"
    elif part == "hi":
        text = f"({own})(({text}) >> {8 * BYTES[kind]})"
    else:
        text = f"({own})({unsigned(kind)})(({_WIDE[unsigned(kind)]}){i.get(1, kind)} * {i.get(2, kind)})"
    if adds:
        word = unsigned(kind)
        text = f"({c_type(kind)})(({word})({text}) + ({word}){i.get(3, kind)})"
    return i.put(0, kind, text)


@instruction("fma")
def fused(i: Instruction) -> None:
    floats(i, i.kind(), "multiply_add", 3)


@instruction("div", "rem")
def quotient(i: Instruction) -> None:
    kind = i.kind()
    if is_float(kind):
        return floats(i, kind, "quotient_approx" if i.take("approx", "full") else "quotient", 2)
    name = "divided" if i.statement.opcode == "div" else "remaining"
    return i.put(0, kind, f"{name}<{c_type(kind)}>({i.get(1, kind)}, {i.get(2, kind)})")


@instruction("abs", "neg")
def sign(i: Instruction) -> None:
    kind, negates = i.kind(), i.statement.opcode == "neg"
    flushes = bool(i.take("ftz"))
    if not is_float(kind):
        word, own = unsigned(kind), c_type(kind)
        text = i.get(1, kind)
        minus = f"({own})(({word})0 - ({word}){text})"
        return i.put(0, kind, minus if negates else f"({text} < 0 ? {minus} : {text})")
    size = BYTES[kind]
    top = 0x80008000 if kind.endswith("x2") else 1 << (8 * size - 1)
    word = f"b{8 * size}"
    text = i.get(1, word) if not (flushes and kind == "f32") else f"as<u32>({value(i, 1, kind, True)})"
    change = f"^ {top:#x}ull" if negates else f"& ~{top:#x}ull"
    return i.put(0, word, f"({c_type(word)})({text} {change})")


@instruction("min", "max")
def extreme(i: Instruction) -> None:
    kind = i.kind()
    least = i.statement.opcode == "min"
    if is_float(kind):
        spreads = "true" if i.take("NaN") else "false"
        name = "least" if least else "largest"
        return floats(i, kind, name, 2, rounded=False, more=f", {spreads}")
    name = "lesser" if least else "greater"
    if kind.endswith("x2"):
        of = "s16" if kind[0] == "s" else "u16"
        return i.put(0, kind, f"each_integer<{of}>({i.get(1, kind)}, {i.get(2, kind)}, {name}<{of}>)")
    own = c_type(kind)
    text = f"{name}<{own}>({i.get(1, kind)}, {i.get(2, kind)})"
    return i.put(0, kind, f"greater<{own}>({text}, 0)" if i.take("relu") else text)


_FUNCTIONS = {"ex2": "power_of_two", "rcp": "reciprocal", "sqrt": "root", "rsqrt": "reciprocal_root"}


@instruction(*_FUNCTIONS)
def function(i: Instruction) -> None:
    kind, name = i.kind(), _FUNCTIONS[i.statement.opcode]
    if i.take("approx") and kind == "f64":
        name += "_upper"
    return floats(i, kind, name, 1)


# --- Comparisons -----------------------------------------------------------------------------------------------------

_ORDER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">",
          "hs": ">="}  # fmt: skip
_COMPARISONS = (*_ORDER, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def _compared(how: str, a: str, b: str, kind: str) -> str:
    if not is_float(kind):
        return f"({a} {_ORDER[how]} {b})"
    if kind in ("f16", "bf16"):
        a, b = f"to_f32({a})", f"to_f32({b})"
    number = f"({a} == {a} && {b} == {b})"
    if how in ("num", "nan"):
        return number if how == "num" else f"!{number}"
    if how == "ne":
        return f"({a} != {b} && {number})"
    if how == "neu":
        return f"({a} != {b})"
    return f"(!{number} || {a} {_ORDER[how[:-1]]} {b})" if how[-1] == "u" else f"({a} {_ORDER[how]} {b})"


@instruction("setp", "set")
def comparison(i: Instruction) -> None:
    """Into a predicate, or all bits of a word."""
    how, kind, flushes = i.take(*_COMPARISONS), i.kind(), bool(i.take("ftz"))
    text = _compared(how, value(i, 1, kind, flushes), value(i, 2, kind, flushes), kind)
    if i.statement.opcode == "setp":
        return i.put(0, "pred", text)
    to = i.kind()
    return i.put(0, to, f"({c_type(to)})({text} ? -1 : 0)")


@instruction("selp")
def select(i: Instruction) -> None:
    kind = f"b{8 * BYTES[k]}" if is_float(k := i.kind()) else k
    at = [i.get(3, "pred")]
    at += [_plain(i, n, k, kind) for n in (1, 2)]
    i.put(0, kind, f"({at[0]} ? {at[1]} : {at[2]})")


def _plain(i: Instruction, at: int, kind: str, word: str) -> str:
    """Bits of an operand, which may be a constant written as a float."""
    text = i.get(at, kind)
    if kind == word:
        return text
    return f"{text}.bits" if kind in ("f16", "bf16") else text if kind.endswith("x2") else f"as<{c_type(word)}>({text})"


# --- Bits ------------------------------------------------------------------------------------------------------------


@instruction("and", "or", "xor", "not")
def logic(i: Instruction) -> None:
    kind, opcode = i.kind(), i.statement.opcode
    if opcode == "not":
        return i.put(0, kind, f"({c_type(kind)})({'!' if kind == 'pred' else '~'}{i.get(1, kind)})")
    sign = {"and": "&", "or": "|", "xor": "^"}[opcode]
    return i.put(0, kind, f"({c_type(kind)})({i.get(1, kind)} {sign} {i.get(2, kind)})")


@instruction("shl", "shr")
def shift(i: Instruction) -> None:
    kind, left = i.kind(), i.statement.opcode == "shl"
    text, by = i.get(1, kind), i.get(2, "b32")
    if re.fullmatch(r"\d+", i.operands[2]) and int(i.operands[2]) < 8 * BYTES[kind]:
        return i.put(0, kind, f"({c_type(kind)})({text} {'<<' if left else '>>'} {int(i.operands[2])})")
    return i.put(0, kind, f"{'shifted_left' if left else 'shifted_right'}<{c_type(kind)}>({text}, {by})")


@instruction("shf")
def funnel(i: Instruction) -> None:
    kind, left, wraps = i.kind(), i.take("l", "r") == "l", i.take("wrap", "clamp") == "wrap"
    values = ", ".join(i.get(k, kind) for k in (1, 2, 3))
    i.put(0, kind, f"funnel({values}, {str(left).lower()}, {str(wraps).lower()})")


@instruction("bfe", "bfi")
def fields(i: Instruction) -> None:
    kind, opcode = i.kind(), i.statement.opcode
    word = f"b{8 * BYTES[kind]}"
    own = c_type(word)
    if opcode == "bfi":
        return i.put(0, word, f"inserted<{own}>({i.get(1, word)}, {i.get(2, word)}, {i.get(3, 'b32')}, "
                              f"{i.get(4, 'b32')})")  # fmt: skip
    signed = "true" if kind[0] == "s" else "false"
    return i.put(0, word, f"field<{own}>({i.get(1, word)}, {i.get(2, 'b32')}, {i.get(3, 'b32')}, {signed})")


@instruction("popc")
def count(i: Instruction) -> None:
    i.put(0, "u32", f"(u32)__builtin_popcountll({i.get(1, i.kind())})")


@instruction("prmt", "lop3")
def bytes_and_tables(i: Instruction) -> None:
    kind = i.kind()
    name = "bytes_of" if i.statement.opcode == "prmt" else "logic3"
    count = 4 if name == "bytes_of" else 5
    i.put(0, kind, f"{name}({', '.join(i.get(k, kind) for k in range(1, count))})")
