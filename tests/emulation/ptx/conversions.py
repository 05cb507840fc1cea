"""Moves, and conversions from one type to another."""

import re

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
    saturates, relu = bool(i.take("sat")), bool(i.take("relu"))
    if relu and to not in ("f16", "bf16", "f32"):
        raise PtxError("relu of this type")
    text = i.get(1, source)
    if flushes and source == "f32":
        text = f"ftz({text})"
    how = ROUNDINGS.get(rounding, "FE_TONEAREST")
    if is_float(source) and not is_float(to):
        from_double = "true" if source == "f64" else "false"
        return i.put(0, to, f"integer<{c_type(to)}>(to_f64({text}), {_WHOLE[whole]}, {from_double})")
    if not is_float(source) and not is_float(to):
        return i.put(0, to, f"clamped<{c_type(to)}>({text})" if saturates else f"({c_type(to)})({text})")
    if not is_float(source):
        if rounding in ("", "rn") and to in ("f32", "f64"):
            made = f"({to})({text})"
        elif to == "f64":
            raise PtxError("an integer is rounded to a double to nearest alone")
        else:
            wide = "s64" if source[0] == "s" else "u64"
            made = f"to_{to}(odd(({wide})({text})), {how})"
    elif whole:
        made = f"From64<{to}>::of(whole(to_f64({text}), {_WHOLE[whole]}))"
    elif source == to:
        made = text
    elif to == "f64":
        made = f"to_f64({text})"
    elif to == "f32" and rounding in ("", "rn"):
        made = f"to_f32({text})"
    else:
        made = f"to_{to}(to_f64({text}), {how})"
    if flushes and to == "f32":
        made = f"ftz({made})"
    if saturates:
        made = f"saturated({made})"
    return i.put(0, to, f"largest({made}, {to}{{}}, true)" if relu else made)


def _two(i: Instruction, to: str, source: str) -> None:
    """Two floats into two halves, the first operand into the upper one."""
    half, how = to[:-2], ROUNDINGS[i.take(*ROUNDINGS)]
    if source != "f32" or half not in ("f16", "bf16"):
        raise PtxError("this conversion")
    relu = bool(i.take("relu"))
    parts = [f"to_{half}(to_f64({i.get(k, 'f32')}), {how})" for k in (1, 2)]
    if relu:
        parts = [f"largest({part}, {half}{{}}, true)" for part in parts]
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


@instruction("isspacep")
def is_in_space(i: Instruction) -> None:
    space = i.take("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param")
    text = i.get(1, "b64")
    tests = {"shared": f"({text} & GENERIC_SHARED) != 0", "local": f"{text} - (u64)t.local < launch->local_bytes"}
    if space not in ("global", "shared", "shared::cluster", "local"):
        raise PtxError(f"whether an address is in {space}")
    test = tests.get(re.sub("::.*", "", space), f"!({tests['shared']}) && !({tests['local']})")
    i.put(0, "pred", test)


@instruction("testp")
def test_property(i: Instruction) -> None:
    which, kind = i.take("finite", "infinite", "number", "notanumber", "normal", "subnormal"), i.kind()
    text = i.get(1, kind)
    tests = {
        "finite": f"isfinite({text})",
        "infinite": f"isinf({text})",
        "number": f"{text} == {text}",
        "notanumber": f"{text} != {text}",
        "normal": f"isnormal({text})",
        "subnormal": f"fpclassify({text}) == FP_SUBNORMAL",
    }
    i.put(0, "pred", f"(bool)({tests[which]})")
