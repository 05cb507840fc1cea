"""Moves, and conversions from one type to another."""

from .arithmetic import ROUNDINGS
from .text import BYTES, PtxError
from .writing import Instruction, c_type, instruction, is_float

_WHOLE = {"rni": "FE_TONEAREST", "rzi": "FE_TOWARDZERO", "rmi": "FE_DOWNWARD", "rpi": "FE_UPWARD"}


@instruction("mov")
def move(i: Instruction) -> None:
    kind = i.kind()
    to, source = i.operands
    if source.startswith("{"):  # several into one, the first into its lowest bits
        parts = i.to.many(source)
        size = 8 * BYTES[kind] // len(parts)
        word = c_type(kind)
        texts = [f"({word}){i.to.get(part, f'b{size}')} << {k * size}" for k, part in enumerate(parts)]
        return i.put(0, kind, f"({word})({' | '.join(f'({text})' for text in texts)})")
    if to.startswith("{"):
        parts = i.to.many(to)
        size = 8 * BYTES[kind] // len(parts)
        i.to.do(f"{{ const {c_type(kind)} w = {i.get(1, kind)};")
        for k, part in enumerate(parts):
            i.to.put(part, f"b{size}", f"({c_type(f'b{size}')})(w >> {k * size})")
        return i.to.do("}")
    return i.put(0, kind, i.get(1, kind))


@instruction("cvt")
def convert(i: Instruction) -> None:
    if i.take("satfinite"):
        i.take("e4m3x2"), i.take("rn"), i.take("f32")
        return i.put(0, "b16", f"(u16)(to_e4m3({i.get(1, 'f32')}) << 8 | to_e4m3({i.get(2, 'f32')}))")
    source, to = i.kind(), i.kind()
    if to.endswith("x2"):
        return _two(i, to, source)
    rounding, whole = i.take(*ROUNDINGS), i.take(*_WHOLE)
    flushes = bool(i.take("ftz"))
    saturates, text = bool(i.take("sat")), i.get(1, source)
    if flushes and source == "f32":
        text = f"ftz({text})"
    how = ROUNDINGS.get(rounding, "FE_TONEAREST")
    if is_float(source) and not is_float(to):
        from_double = "true" if source == "f64" else "false"
        return i.put(0, to, f"integer<{c_type(to)}>(to_f64({text}), {_WHOLE[whole]}, {from_double})")
    if not is_float(source):
        if saturates or (is_float(to) and (rounding != "rn" or to not in ("f32", "f64"))):
            raise PtxError("an integer becomes a float or a double rounded to nearest, or another that is not held")
        return i.put(0, to, f"({c_type(to)})({text})")
    if whole:
        raise PtxError("a float becomes no whole one")
    if source == to:
        made = text
    elif to == "f64":
        made = f"to_f64({text})"
    elif to == "f32" and rounding in ("", "rn"):
        made = f"to_f32({text})"
    else:
        made = f"to_{to}(to_f64({text}), {how})"
    if flushes and to == "f32":
        made = f"ftz({made})"
    return i.put(0, to, f"saturated({made})" if saturates else made)


def _two(i: Instruction, to: str, source: str) -> None:
    """Two floats into two halves, the first operand into the upper one."""
    half, how = to[:-2], ROUNDINGS[i.take(*ROUNDINGS)]
    if source != "f32" or half not in ("f16", "bf16"):
        raise PtxError("this conversion")
    parts = [f"to_{half}(to_f64({i.get(k, 'f32')}), {how})" for k in (1, 2)]
    i.put(0, to, f"(u32){parts[0]}.bits << 16 | {parts[1]}.bits")


@instruction("cvta")
def generic_address(i: Instruction) -> None:
    """To a generic address, or from one: shared memory has a bit of its own there."""
    kind = i.kind()
    back, space = bool(i.take("to")), i.take("global", "shared", "shared::cta", "shared::cluster", "local", "const",
                                             "param")  # fmt: skip
    text = i.get(1, kind)
    if space.startswith("shared"):
        text = f"({text} & ~GENERIC_SHARED)" if back else f"({text} | GENERIC_SHARED)"
    i.put(0, kind, text)
