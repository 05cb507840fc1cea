"""The axes of a definition: constants become numbers, and expressions become derived sizes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kernelzoo.definitions.files import DefinitionError, Json, own_name
from kernelzoo.operations.derived import evaluate, variables


@dataclass
class Axes:
    """The axes of a definition, by the names that its operation uses."""

    where: str
    data: Json
    derived: dict[str, str] = field(default_factory=dict)
    """Derived axes, each with its expression of free axes."""
    rules: dict[str, str] = field(default_factory=dict)
    """Variable axes that a constraint of the definition defines, each with its expression."""

    def __post_init__(self) -> None:
        axes = self.data["axes"]
        for node in constraints(self.data):
            match node:
                case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[right]):
                    if axes.get(name, {}).get("type") == "var" and self._is_sized(right, name):
                        self.rules.setdefault(name, ast.unparse(right))

    def text(self, name: str, shape: Sequence[Any]) -> str:
        """Return the axes of a tensor, as the text that an operation's declaration has. Raises DefinitionError."""
        try:
            return " ".join(self.size(axis) for axis in shape)
        except ValueError as error:
            raise DefinitionError(f"{self.where}: {name} has {error}") from None

    def size(self, said: Any) -> str:
        """Return a size: a number as text, a free axis, or a derived one. Raises ValueError."""
        said = str(said).strip()
        axis = self.data["axes"].get(said, {})
        if said.isdigit() or (axis.get("type") == "var" and said not in self.rules):
            return said if said.isdigit() else own_name(said)
        if axis.get("type") == "const":
            return str(axis["value"])
        text = self._inlined(said, ())
        names = variables(text)
        if not names:
            return str(evaluate(text, {}))
        if text in names:
            return text
        name = own_name(said) if axis else next((key for key, known in self.derived.items() if known == text), "")
        name = name or f"size_{len(self.derived)}"
        self.derived[name] = text
        return name

    def values(self, sizes: dict[str, Any]) -> dict[str, int]:
        """Return each axis's size, by its name in the definition, from the sizes of the operation's axes."""
        known = {}
        for name in self.data["axes"]:
            size = self.size(name)
            if size.isdigit() or size in sizes:
                known[name] = int(size) if size.isdigit() else sizes[size]
            elif size in self.derived and all(each in sizes for each in variables(self.derived[size])):
                known[name] = evaluate(self.derived[size], sizes)
        return known

    def _inlined(self, said: str, within: tuple[str, ...]) -> str:
        """Return the expression in terms of free axes only. Raises ValueError."""
        axes = self.data["axes"]
        if said in axes:
            kind = axes[said]
            if kind["type"] == "const":
                return str(kind["value"])
            if kind["type"] == "var" and said not in self.rules:
                return own_name(said)
            if said in within:
                raise ValueError(f"an axis {said!r} that is an expression of itself")
            return self._inlined(kind["expression"] if kind["type"] == "expr" else self.rules[said], (*within, said))
        try:
            names = variables(said)
        except ValueError as error:
            raise ValueError(f"a size that is no axis: {error}") from None
        for name in names:
            if name not in axes:
                raise ValueError(f"an axis {name!r}, which is not among the axes")
        parsed = ast.parse(said.strip(), mode="eval").body

        class Inlined(ast.NodeTransformer):
            def visit_Name(inner, node: ast.Name) -> ast.AST:  # noqa: N805  # ast's own
                return ast.parse(self._inlined(node.id, within), mode="eval").body

        return ast.unparse(Inlined().visit(parsed))

    def _is_sized(self, node: ast.expr, name: str) -> bool:
        """Whether an expression in a constraint has only numbers and other axes."""
        try:
            names = variables(ast.unparse(node))
        except ValueError:
            return False
        return name not in names and all(each in self.data["axes"] and each not in self.rules for each in names)


def constraints(data: Json) -> list[ast.expr]:
    """Return the constraints that a definition lists, and those that its reference asserts."""
    texts, found = [text for text in data.get("constraints") or () if isinstance(text, str)], list[ast.expr]()
    for text in texts:
        with suppress(SyntaxError):
            found.append(ast.parse(text.strip(), mode="eval").body)
    code = ast.parse(data["reference"]).body
    run = next(node for node in code if isinstance(node, ast.FunctionDef) and node.name == "run")
    for node in run.body:
        if isinstance(node, ast.Assert):
            found += node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
    return found


def last_entries(data: Json) -> dict[str, str]:
    """Return {input: axis} for each constraint that an axis equals the input's last entry."""
    found = {}
    for node in constraints(data):
        match ast.parse(ast.unparse(node).replace(".item()", ""), mode="eval").body:
            case ast.Compare(
                left=ast.Name(id=axis), ops=[ast.Eq()], comparators=[ast.Subscript(value=ast.Name(id=name))]
            ):
                if axis in data["axes"] and name in data["inputs"]:
                    found[name] = axis
    return found
