"""From the text of a module to C++: each kernel as a function that runs one thread until it waits for others."""

import re
from dataclasses import dataclass

from . import arithmetic, control, conversions, memory
from .text import Entry, PtxError, Statement, Variable, parsed
from .writing import Instruction, Writer, global_name, translators

FAMILIES = (arithmetic, control, conversions, memory)
"""Whose import makes their instructions known."""

_CHECKED = ("ld", "st", "atom", "red", "cp", "mbarrier", "shfl", "redux", "bar", "barrier", "ldmatrix", "stmatrix",
            "mapa", "st_async")  # fmt: skip
"""Where something may be wrong, or where a thread waits: a message names the statement."""


@dataclass(frozen=True)
class Kernel:
    """What a launch has to know of a kernel."""

    name: str
    parameters: tuple[tuple[int, int], ...]
    """Offset and size of each."""
    parameter_bytes: int
    static_bytes: int
    dynamic_align: int
    local_bytes: int
    block: tuple[int, ...]
    """What it asks of its block's shape, or nothing."""
    cluster: tuple[int, ...]
    statements: tuple[str, ...]
    """As messages number them."""


def translated(text: str) -> tuple[str, dict[str, Kernel]]:
    """A module in C++, to be compiled behind machine.hpp, and its kernels. Raises PtxError."""
    module = parsed(text)
    code, kernels = [_variables(module.variables)], {}
    for number, entry in enumerate(module.entries.values()):
        body, kernels[entry.name] = _kernel(f"kernel{number}", entry, module.variables)
        code.append(body)
    return "\n".join(code), kernels


def _variables(variables: list[Variable]) -> str:
    there = [v for v in variables if v.space in ("global", "const")]
    lines = []
    for v in there:
        values = ", ".join(map(str, v.values)) or "0"
        lines.append(f"alignas({v.align}) static u8 {global_name(v.name)}[{max(1, v.size)}] = {{{values}}};")
    spans = "".join(f"{{(u64){global_name(v.name)}, {v.size}, {int(v.space == 'global')}}}, " for v in there)
    visible = 'extern "C" __attribute__((visibility("default")))'
    lines.append(f"{visible} const Span module_spans[] = {{{spans}{{0, 0, 0}}}};")
    lines.append(f"{visible} const u32 module_span_count = {len(there)};")
    return "\n".join(lines)


def _kernel(name: str, entry: Entry, variables: list[Variable]) -> tuple[str, Kernel]:
    to = Writer(entry, variables)
    jumps = _Jumps(entry)
    for at, statement in enumerate(entry.statements):
        to.scope = statement.scope
        if statement.label:
            if at in jumps.targets:
                to.begin()
                to.do(f"L{at}:;")
            continue
        to.statements.append(statement.text)
        try:
            _written(statement, at, to, jumps)
        except (PtxError, KeyError, IndexError, ValueError) as error:
            why = error if isinstance(error, PtxError) else f"{type(error).__name__}: {error}"
            raise PtxError(f"{entry.name}: {statement.text!r} is not emulated: {why}") from error
    visible = 'extern "C" __attribute__((visibility("default")))'
    code = (
        f"{to.finished(name)}\n{visible} u32 {name}(Thread& t, const u8* parameters) {{ return {name}_step(t, "
        f"parameters); }}\n{visible} const u32 {name}_bytes = sizeof({name}_held);\n"
    )
    said = entry.attributes
    return code, Kernel(
        name,
        tuple(to.parameters.values()),
        to.parameter_bytes,
        to.static_bytes,
        to.dynamic_align,
        -(-to.local_bytes // 16) * 16,
        said.get("reqntid", ()),
        said.get("reqnctapercluster", ()),
        tuple(to.statements),
    )


def _written(statement: Statement, at: int, to: Writer, jumps: "_Jumps") -> None:
    opcode, modifiers = statement.opcode, list(statement.modifiers)
    if opcode == "st" and modifiers[:1] == ["async"]:
        opcode, modifiers = "st_async", modifiers[1:]
    i = Instruction(statement, to, modifiers)
    if statement.predicate:
        to.do(f"if ({to.get(statement.predicate, 'pred')}) {{")
    to.is_conditional = bool(statement.predicate)
    if opcode in _CHECKED:
        to.do(f"t.statement = {len(to.statements) - 1};")
    if opcode == "bra":
        i.take("uni")
        jumps.jump(to, jumps.at(statement.operands[0], statement.scope), at)
    elif opcode in translators:
        translators[opcode](i)
    else:
        raise PtxError(f"the instruction {opcode} is not known")
    if i.left:
        raise PtxError(f"what .{i.left[0]} says is not known")
    to.is_conditional = False
    if statement.predicate:
        to.do("}")


class _Jumps:
    """Where branches of a kernel go to: labels by the place at which they stand."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.labels = {(s.scope, s.label): at for at, s in enumerate(entry.statements) if s.label}
        self.targets = {self.at(s.operands[0], s.scope) for s in entry.statements if s.opcode == "bra"}

    def at(self, label: str, scope: tuple[int, ...]) -> int:
        for length in range(len(scope), -1, -1):
            if (scope[:length], label) in self.labels:
                return self.labels[scope[:length], label]
        raise PtxError(f"{self.entry.name}: there is no label {label!r}")

    def jump(self, to: Writer, target: int, at: int) -> None:
        if target < at:  # back: others have a turn now and then
            to.stops += 1
            to.do(f"if (--t.fuel == 0) {{ t.at = {to.stops}; return LATER; }} S{to.stops}:;")
        to.do(f"goto L{target};")


def named(message: str, kernel: Kernel) -> str:
    """A message of the machine with the text of the statements that it numbers."""
    return re.sub(r"#(\d+)", lambda found: f"{kernel.statements[int(found[1])]!r}", message)
