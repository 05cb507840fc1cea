"""PTX text taken apart: variables, kernels with their parameters, and the statements of their bodies."""

import re
import struct
from dataclasses import dataclass, field

BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    "f16": 2,
    "bf16": 2,
    "f16x2": 4,
    "bf16x2": 4,
    "s16x2": 4,
    "u16x2": 4,
    "f32": 4,
    "f64": 8,
    "b128": 16,
    "pred": 1,
}
"""Of each type of PTX."""

TO_THE_ASSEMBLER = ("version", "target", "address_size", "pragma", "loc", "loc_intermediate", "file", "language")
KERNEL_ATTRIBUTES = ("maxntid", "reqntid", "minnctapersm", "maxnreg", "reqnctapercluster", "maxclusterrank",
                     "explicitcluster", "blocksareclusters", "noreturn", "language", "pragma")  # fmt: skip


class PtxError(Exception):
    """The text is not understood, or a kernel did what it may not."""


@dataclass
class Variable:
    """Named memory: of the module, a block (shared), a thread (local), or a kernel's parameter."""

    name: str
    space: str
    size: int
    """In bytes."""
    align: int
    values: bytes = b""
    is_open: bool = False
    """Whether it has no size of its own: all the shared memory that a launch asks for."""


@dataclass
class Statement:
    """An instruction, ``@predicate opcode.modifiers operands``, or a label."""

    text: str
    scope: tuple[int, ...]
    label: str = ""
    predicate: str = ""
    opcode: str = ""
    modifiers: list[str] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)


@dataclass
class Entry:
    """A kernel. Names of registers, labels and variables of a body are known by the scope that declares them."""

    name: str
    parameters: list[Variable]
    attributes: dict[str, tuple[int, ...]]
    statements: list[Statement] = field(default_factory=list)
    registers: dict[tuple[tuple[int, ...], str], str] = field(default_factory=dict)
    """Type of each, by scope and name."""
    families: dict[tuple[tuple[int, ...], str], tuple[int, str]] = field(default_factory=dict)
    """How many there are of ``%r<5>``, and their type, by scope and stem."""
    variables: list[Variable] = field(default_factory=list)


@dataclass
class Module:
    variables: list[Variable]
    entries: dict[str, Entry]


def parsed(text: str) -> Module:
    """All of a text. Raises PtxError where it isn't understood."""
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        # A string keeps what looks like a comment in it; it is of no use to us either.
        words = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
        self.text = words.sub(lambda found: '""' if found[0][0] == '"' else " ", text)
        self.at = 0

    def found(self, pattern: str) -> re.Match[str] | None:
        """What follows here, if it is that; then it is behind us."""
        match = re.compile(r"\s*" + pattern).match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def need(self, pattern: str) -> re.Match[str]:
        match = self.found(pattern)
        if match is None:
            raise PtxError(f"PTX that is not understood: {self.text[self.at : self.at + 120].strip()!r}")
        return match

    def module(self) -> Module:
        module = Module([], {})
        while not self.found(r"\Z"):
            if self.found(r"\.section\b"):
                self.block()
            elif self.found(rf"\.(?:{'|'.join(TO_THE_ASSEMBLER)})\b[^\n]*"):
                pass
            elif self.found(r"(?:\.(?:visible|weak|extern)\s+)*\.entry\b"):
                entry = self.entry()
                module.entries[entry.name] = entry
            elif self.found(r"\.(?:extern)\s+\.func\b[^;{]*;"):
                pass  # a declaration alone; whoever calls it is not understood
            else:
                module.variables.append(self.variable())
        return module

    def block(self) -> None:
        """Skip what stands between braces."""
        start = self.text.index("{", self.at)
        depth = 0
        for found in re.compile(r"[{}]").finditer(self.text, start):
            depth += 1 if found[0] == "{" else -1
            if depth == 0:
                self.at = found.end()
                return
        raise PtxError("a brace stays open")

    def variable(self) -> Variable:
        """``.space .align 4 .b8 name[16] = {...};``, whatever comes before it of linking."""
        declared = self.need(r"(?:\.(?:visible|weak|extern|common|unified|managed)\s+)*\.(global|const|shared|local)\b")
        made = self.named(declared[1])
        if self.found("="):
            made.values = self.initial(made)
        self.need(";")
        return made

    def named(self, space: str) -> Variable:
        """The type, name and size of a variable or parameter."""
        align = 0
        while found := self.found(r"\.(?:align\s+(\d+)|ptr\b|global\b|const\b|shared\b|local\b|noalias\b|v[24]\b)"):
            align = int(found[1] or align)
        kind = self.need(r"\.(\w+)")[1]
        while found := self.found(r"\.(?:ptr|global|const|shared|local|noalias|align\s+(\d+))"):
            pass  # of what a parameter points to
        if kind not in BYTES:
            raise PtxError(f"a variable of the unknown type .{kind}")
        self.kind = kind
        name = self.need(r"([\w$]+)")[1]
        many, is_open = 1, False
        while found := self.found(r"\[\s*(\d*)\s*\]"):
            many, is_open = many * int(found[1] or 0), is_open or not found[1]
        return Variable(name, space, many * BYTES[kind], max(align, BYTES[kind]), is_open=is_open)

    def initial(self, variable: Variable) -> bytes:
        inside = self.found(r"\{([^}]*)\}") or self.need(r"([^;{]+)")
        size, made = BYTES[self.kind], b""
        for word in filter(None, (word.strip() for word in inside[1].split(","))):
            value = number(word)
            if value is None:
                raise PtxError(f"{variable.name} begins with {word!r}, which is no number")
            made += (value % (1 << 8 * size)).to_bytes(size, "little")
        return made

    def entry(self) -> Entry:
        name = self.need(r"([\w$]+)")[1]
        parameters = []
        if self.found(r"\("):
            while not self.found(r"\)"):
                self.need(r"\.param\b")
                parameters.append(self.named("param"))
                self.found(",")
        attributes = {}
        while found := self.found(r"\.(\w+)([\d\s,]*)"):
            if found[1] == "pragma":
                self.need(r'"";?')
            elif found[1] not in KERNEL_ATTRIBUTES:
                raise PtxError(f"{name} has the unknown attribute .{found[1]}")
            attributes[found[1]] = tuple(map(int, re.findall(r"\d+", found[2])))
        entry = Entry(name, parameters, attributes)
        self.need(r"\{")
        self.body(entry)
        return entry

    def body(self, entry: Entry) -> None:
        scopes: list[tuple[int, ...]] = [()]
        made = 0
        while scopes:
            scope = scopes[-1]
            if self.found(r"\{"):
                made += 1
                scopes.append((*scope, made))
            elif self.found(r"\}"):
                scopes.pop()
            elif self.found(r"\.(?:loc|loc_intermediate|file|pragma)\b[^\n]*"):
                pass
            elif self.found(r"\.reg\b"):
                self.registers(entry, scope)
            elif self.found(r"(?=\.(?:shared|local)\b)"):
                entry.variables.append(self.variable())
            elif found := self.found(r"([\w$]+)\s*:"):
                entry.statements.append(Statement(found[0].strip(), scope, label=found[1]))
            elif not self.found(";"):
                entry.statements.append(statement(self.need(r"([^;]+);")[1], scope))

    def registers(self, entry: Entry, scope: tuple[int, ...]) -> None:
        kind = self.need(r"\.(\w+)")[1]
        if kind not in BYTES:
            raise PtxError(f"registers of the unknown type .{kind}")
        for name in self.need(r"([^;]*);")[1].split(","):
            family = re.fullmatch(r"\s*([\w$%]+)\s*<\s*(\d+)\s*>\s*", name)
            if family:
                entry.families[scope, family[1]] = int(family[2]), kind
            else:
                entry.registers[scope, name.strip()] = kind


def statement(text: str, scope: tuple[int, ...]) -> Statement:
    """An instruction taken apart. Raises PtxError."""
    text = " ".join(text.split())
    found = re.fullmatch(r"(?:@(!?[\w$%]+)\s+)?([a-z][\w.:]*)\s*(.*)", text)
    if found is None:
        raise PtxError(f"PTX that is not understood: {text!r}")
    opcode, *modifiers = re.split(r"\.", found[2])
    return Statement(text, scope, "", found[1] or "", opcode, modifiers, split(found[3]))


def split(text: str) -> list[str]:
    """What stands between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += {"[": 1, "{": 1, "(": 1, "]": -1, "}": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    rest = text[start:].strip()
    return [*parts, rest] if rest or parts else []


def number(word: str) -> int | None:
    """The bits of a number as PTX writes it: 12, 0x1fU, -1, 0f3F800000, 0d3FF0000000000000; None if it is none."""
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}", word):
        return int(word[2:], 16)
    if re.fullmatch(r"[+-]?\d+\.\d*(?:[eE][+-]?\d+)?", word):
        return int(struct.unpack("<Q", struct.pack("<d", float(word)))[0])  # of 64 bits, wherever it stands
    found = re.fullmatch(r"([+-]?)\s*(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", word)
    if found is None:
        return None
    digits = found[2]
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    value = int(digits, 8) if octal else int(digits, 0)
    return -value if found[1] == "-" else value
