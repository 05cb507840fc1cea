"""A kernel as it is written in C++, instruction by instruction: registers, operands, addresses, and where it stops."""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from .text import BYTES, Entry, PtxError, Statement, Variable, number, split

SHARED_BEGINS = 1024  # as in machine.hpp
_WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "u128"}
_SPECIAL = {
    **{f"%tid.{a}": f"t.index.{a}" for a in "xyz"},
    **{f"%ntid.{a}": f"launch->block[{k}]" for k, a in enumerate("xyz")},
    **{f"%ctaid.{a}": f"block_index(t).{a}" for a in "xyz"},
    **{f"%nctaid.{a}": f"launch->grid[{k}]" for k, a in enumerate("xyz")},
    **{f"%clusterid.{a}": f"cluster_index(t).{a}" for a in "xyz"},
    "%cluster_ctarank": "rank_in_cluster(t)",
    "%cluster_nctarank": "(launch->cluster[0] * launch->cluster[1] * launch->cluster[2])",
    "%laneid": "t.lane",
    "%dynamic_smem_size": "(launch->shared_end - launch->dynamic_at)",
}


def c_type(kind: str) -> str:
    """The type of a value in C++; two halves in a word are the word."""
    if kind in ("f16", "bf16", "f32", "f64"):
        return kind
    if kind == "pred":
        return "bool"
    word = _WORDS[BYTES[kind]]
    return word.replace("u", "s") if re.fullmatch(r"s\d+", kind) else word


def is_float(kind: str) -> bool:
    return "f" in kind


@dataclass
class _Register:
    name: str
    kind: str
    segments: set[int] = field(default_factory=set)
    set_first: bool = False
    """Whether what comes first in its only segment sets it, whatever else."""


class Writer:
    """Writes one kernel. An instruction's function asks it for operands, and says what is to be done."""

    def __init__(self, entry: Entry, module_variables: list[Variable]) -> None:
        self.entry = entry
        self.lines: list[str] = []
        self.registers: dict[str, _Register] = {}
        self._found: dict[tuple[tuple[int, ...], str], _Register | None] = {}
        self.stops = 0
        self.segment = 0
        self.scope: tuple[int, ...] = ()
        self.is_conditional = False
        self.statements: list[str] = []
        self.places: dict[str, str] = {}
        self.parameters: dict[str, tuple[int, int]] = {}
        """Offset and size of each."""
        self.static_bytes, self.local_bytes, self.parameter_bytes = 0, 0, 0
        self.dynamic_align = 16
        self._lay_out([*module_variables, *entry.variables])

    def _lay_out(self, variables: list[Variable]) -> None:
        for parameter in self.entry.parameters:
            start = -(-self.parameter_bytes // parameter.align) * parameter.align
            self.parameters[parameter.name] = start, parameter.size
            self.parameter_bytes = start + parameter.size
            self.places[parameter.name] = f"((u64)parameters + {start})"
        for variable in variables:
            if variable.space in ("global", "const"):
                self.places[variable.name] = f"((u64){global_name(variable.name)})"
            elif variable.space == "local":
                start = -(-self.local_bytes // variable.align) * variable.align
                self.places[variable.name] = f"((u64)t.local + {start})"
                self.local_bytes = start + variable.size
            elif variable.is_open:
                self.dynamic_align = max(self.dynamic_align, variable.align)
                self.places[variable.name] = "launch->dynamic_at"
            else:
                start = -(-(SHARED_BEGINS + self.static_bytes) // variable.align) * variable.align
                self.places[variable.name] = f"{start}u"
                self.static_bytes = start + variable.size - SHARED_BEGINS

    # --- Registers and operands --------------------------------------------------------------------------------------

    def register(self, name: str) -> _Register | None:
        """That of a name, in the innermost scope that has it."""
        key = self.scope, name
        if key not in self._found:
            self._found[key] = self._register(name)
        return self._found[key]

    def _register(self, name: str) -> _Register | None:
        for length in range(len(self.scope), -1, -1):
            scope = self.scope[:length]
            kind = self.entry.registers.get((scope, name))
            if kind is None and (parts := re.fullmatch(r"(.*?)(\d+)", name)):
                for cut in range(len(parts[1]), len(name)):
                    count, family = self.entry.families.get((scope, name[:cut]), (0, ""))
                    if name[cut:].isdigit() and int(name[cut:]) < count:
                        kind = family
            if kind is not None:
                known = "R_" + re.sub(r"\W", "_", name.lstrip("%")) + "".join(f"_{k}" for k in scope)
                return self.registers.setdefault(known, _Register(known, kind))
        return None

    def _noted(self, register: _Register, sets: bool) -> str:
        if not register.segments:
            register.set_first = sets and not self.is_conditional
        register.segments.add(self.segment)
        return f"\1{register.name}\2"

    def get(self, operand: str, kind: str) -> str:
        """An operand's value as an expression of ``c_type(kind)``."""
        wanted = c_type(kind)
        if operand.startswith("!"):
            return f"!{self.get(operand[1:].strip(), 'pred')}"
        if register := self.register(operand):
            have, text = c_type("b" + str(8 * BYTES[register.kind])), self._noted(register, sets=False)
            if register.kind == "pred" or kind == "pred":
                if register.kind != kind:
                    raise PtxError(f"{operand} is of type {register.kind}, and not {kind}")
                return text
            return _bits_as(text, have, wanted, BYTES[kind])
        value = number(operand)
        if value is not None:
            return _constant(operand, value, kind)
        if operand in _SPECIAL:
            return f"({wanted})({_SPECIAL[operand]})"
        found = re.fullmatch(r"([\w$]+)(?:\s*\+\s*(-?\w+))?", operand)
        if found and found[1] in self.places and (not found[2] or number(found[2]) is not None):
            return f"({wanted})({self.places[found[1]]} + {number(found[2] or '0')})"
        raise PtxError(f"the operand {operand!r} is not known")

    def put(self, operand: str, kind: str, expression: str) -> None:
        """Set a register to an expression of ``c_type(kind)``."""
        if operand == "_":
            return self.do(f"(void)({expression});")
        register = self.register(operand)
        if register is None:
            raise PtxError(f"{operand!r} is no register")
        have = c_type("b" + str(8 * BYTES[register.kind]))
        if (register.kind == "pred") != (kind == "pred"):
            raise PtxError(f"{operand} is of type {register.kind}, and not {kind}")
        text = self._noted(register, sets=True)
        if kind in ("f16", "bf16"):
            expression = f"({expression}).bits"
        elif kind in ("f32", "f64"):
            expression = f"as<{_WORDS[BYTES[kind]]}>({expression})"
        return self.do(f"{text} = {expression};" if kind == "pred" else f"{text} = ({have})({expression});")

    def many(self, operand: str) -> list[str]:
        """The operands in a vector, or the one."""
        return split(operand[1:-1]) if operand.startswith("{") else [operand]

    def address(self, operand: str) -> str:
        """What stands between brackets, as 64 bits."""
        found = re.fullmatch(r"\[\s*(.+?)\s*(?:\+\s*(-?\w+))?\s*\]", operand)
        if found is None:
            raise PtxError(f"{operand!r} is no address")
        base = self.get(found[1], "b64")
        if self.register(found[1]) is None and number(found[1]) is None:
            base = f"({base})"
        offset = number(found[2] or "0")
        if offset is None:
            raise PtxError(f"{operand!r} is no address")
        return f"({base} + (u64){offset})" if offset else base

    # --- What is done ------------------------------------------------------------------------------------------------

    def do(self, line: str) -> None:
        self.lines.append(line)

    def stop(self, call: str) -> None:
        """Stop if the call says so; the thread goes on behind it."""
        self.stops += 1
        self.do(f"t.at = {self.stops}; if ({call}) return WAITS; S{self.stops}:;")
        self.segment += 1

    def begin(self) -> None:
        """A place that can be jumped to."""
        self.segment += 1

    def finished(self, name: str) -> str:
        """The kernel as a struct and a function."""
        held = {r.name: r for r in self.registers.values() if len(r.segments) != 1 or not r.set_first}
        words: dict[str, list[str]] = {}
        kept: dict[str, list[str]] = {}
        for register in self.registers.values():
            kind = c_type(register.kind if register.kind == "pred" else "b" + str(8 * BYTES[register.kind]))
            (kept if register.name in held else words).setdefault(kind, []).append(register.name)
        body = re.sub(
            "\1(\\w+)\2", lambda found: f"h.{found[1]}" if found[1] in held else found[1], "\n".join(self.lines)
        )
        order = sorted(kept, key=lambda kind: -int(kind[1:]) if kind != "bool" else 0)
        members = "\n".join(f"  {kind} {', '.join(kept[kind])};" for kind in order)
        local = "\n".join(f"{kind} {', '.join(names)};" for kind, names in words.items())
        cases = " ".join(f"case {k}: goto S{k};" for k in range(1, self.stops + 1))
        return (
            f"struct {name}_held : Thread {{\n{members}\n}};\n"
            f"static u32 {name}_step(Thread& t, const u8* parameters) {{\n{name}_held& h = ({name}_held&)t; (void)h;\n"
            f"{local}\nswitch (t.at) {{ case 0: break; {cases} }}\n{body}\nreturn ENDED;\n}}\n"
        )


def global_name(name: str) -> str:
    """A module's variable in C++."""
    return "G_" + re.sub(r"\W", "_", name)


def _bits_as(text: str, have: str, wanted: str, size: int) -> str:
    """Bits of a word as a value; of a wider word, the lowest ones."""
    if wanted in ("f16", "bf16"):
        return f"{wanted}{{(u16){text}}}"
    if wanted in ("f32", "f64"):
        word = _WORDS[size]
        return f"as<{wanted}>({text if have == word else f'({word}){text}'})"
    return text if have == wanted else f"({wanted}){text}"


def _constant(operand: str, value: int, kind: str) -> str:
    if kind == "pred":
        return "true" if value else "false"
    is_double = re.fullmatch(r"0[dD].*|[+-]?\d+\.\d*(?:[eE].*)?", operand) is not None
    if is_double and kind == "f32":
        (value,) = struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", value))[0]))
    if re.match(r"0[fF]", operand) and kind == "f64":
        (value,) = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", value))[0]))
    size = BYTES[kind]
    bits = f"0x{value % (1 << 8 * size):x}{'ull' if size > 4 else 'u'}"
    word = f"({_WORDS[size]}){bits}"
    return _bits_as(word, _WORDS[size], c_type(kind), size)


@dataclass
class Instruction:
    """A statement at work: what is left of its modifiers, and the writer."""

    statement: Statement
    to: Writer
    left: list[str]

    @property
    def operands(self) -> list[str]:
        return self.statement.operands

    def take(self, *names: str) -> str:
        """The modifier that it has of these, which is dealt with then, or nothing."""
        for name in names:
            if name in self.left:
                self.left.remove(name)
                return name
        return ""

    def kind(self) -> str:
        """The type that comes last of its modifiers."""
        for at in range(len(self.left) - 1, -1, -1):
            if self.left[at] in BYTES:
                return self.left.pop(at)
        raise PtxError("it has no type")

    def get(self, at: int, kind: str) -> str:
        return self.to.get(self.operands[at], kind)

    def put(self, at: int, kind: str, expression: str) -> None:
        self.to.put(self.operands[at], kind, expression)


Translator = Callable[[Instruction], None]
translators: dict[str, Translator] = {}
"""What writes each instruction, by its opcode."""


def instruction(*opcodes: str) -> Callable[[Translator], Translator]:
    """The decorated function writes those instructions. What it leaves of their modifiers isn't known."""

    def note(function: Translator) -> Translator:
        translators.update(dict.fromkeys(opcodes, function))
        return function

    return note
