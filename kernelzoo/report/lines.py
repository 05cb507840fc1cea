"""The lines of code of a form and of what it calls on the GPU.

Not counted: imports, comments, docstrings, blank lines, and Python of other files that plans and launches.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kernelzoo import packages

LAUNCHING = ("launch", "choose", "compiler", "inspection", "watching", "jit", "source")
"""Modules, in any folder, that only choose, compile and launch. ``source`` is Numba's compiler."""


class Place(NamedTuple):
    """A name at the top level of a file, or the whole file. In CUDA C a name stands for all its overloads."""

    file: Path
    name: str = ""


class Definition(NamedTuple):
    """What a name stands for: the numbers of its lines of code, and what they use."""

    lines: set[int]
    uses: set[Place]


def lines_to_read(*ids: str) -> int:
    """Return the lines of forms, each line once; 0 if the package has no such form.

    >>> lines_to_read("triton/sum/rows") < lines_to_read("triton/sum/rows", "triton/sum/split")
    True
    """
    return sum(map(len, lines_by_file(file for id in ids for file in packages.files(id)).values()))


def lines_by_file(own: Iterable[Path]) -> dict[Path, set[int]]:
    """Return the numbers of the lines to read, by file. ``own``: a form's own files, which count whole."""
    files = [file.resolve() for file in own]
    called = _closure([Place(file) for file in files])
    kernels = [place for place in called if place.name in _kernels(place.file)]
    seen = _closure([*kernels, *(Place(file, name) for file in files for name in _kernels(file))])
    found = defaultdict[Path, set[int]](set, {file: set(parsed(file)[""].lines) for file in files})
    for file, name in seen:
        found[file] |= parsed(file)[name].lines
    return {file: lines for file, lines in found.items() if lines}


def _closure(todo: list[Place]) -> set[Place]:
    """Return the places, and what they use, however deep."""
    seen = set[Place]()
    while todo:
        if (place := todo.pop()) not in seen:
            seen.add(place)
            todo += parsed(place.file)[place.name].uses
    return seen


@cache
def _kernels(file: Path) -> list[str]:
    """The functions of a file that run on the GPU, or that make such ones. Of CUDA C: ``""``, all of it."""
    if file.suffix != ".py":
        return [""]
    plain = any((folder / "source.py").exists() for folder in file.parents)  # it compiles inner functions as they are
    functions = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return [
        function.name
        for function in functions
        if any(re.search("jit|kernel", ast.unparse(one)) for one in function.decorator_list)
        or any(
            isinstance(node, ast.FunctionDef)
            and (plain or re.search("jit|kernel", "".join(map(ast.unparse, node.decorator_list))))
            for node in ast.walk(function)
            if node is not function
        )
    ]


@cache
def parsed(file: Path) -> defaultdict[str, Definition]:
    """Return what a file defines, and as ``""`` all of it. Of a module that only launches, return what it hands on."""
    found = defaultdict[str, Definition](lambda: Definition(set(), set()))
    for name, part in _parse_python(file) if file.suffix == ".py" else _parse_cuda(file):
        for one in (found[name], found[""]):
            one.lines.update(part.lines)
            one.uses.update(part.uses)
    return found


def _code(text: str, *left_out: str) -> set[int]:
    return {n for n, line in enumerate(map(str.strip, text.splitlines()), 1) if line and not line.startswith(left_out)}


def _parse_python(file: Path) -> Iterator[tuple[str, Definition]]:
    lines = (text := file.read_text(encoding="utf-8")).splitlines()
    tree, code, places = ast.parse(text), _code(text, "#"), dict[str, Place]()
    root = next(folder for folder in file.parents if folder.name == "kernelzoo").parent
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
                code -= set(_span(node))
        if isinstance(node, ast.ImportFrom) and (package := node.module or "").startswith("kernelzoo.kernels."):
            folder = root.joinpath(*package.split("."))
            outer = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            for alias in node.names:
                inner = Place(folder / f"{alias.name}.py")
                places[alias.asname or alias.name] = inner if inner.file.exists() else Place(outer, alias.name)
    yield from ((name, Definition(set(), {place})) for name, place in places.items() if place.name)
    if file.stem in LAUNCHING:
        return
    tables = [symtable.symtable("\n".join(lines[n - 1] for n in _span(node)), file.name, "exec") for node in tree.body]
    bound = [[symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()] for table in tables]
    places |= {name: Place(file, name) for names in bound for name in names}
    for node, table, names in zip(tree.body, tables, bound, strict=True):
        part, known = Definition(code & set(_span(node)), set()), _names_of_module(table) & places.keys()
        for one in _without_annotations(node):
            match one:
                case ast.Attribute(ast.Name(name), attribute) if name in known and not places[name].name:
                    part.uses.add(Place(places[name].file, attribute))
                case ast.Name(name) if name in known and places[name].name:
                    part.uses.add(places[name])
        yield from ((name, part) for name in names or ("",))


def _without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, field in ast.iter_fields(node):
        for child in (field if isinstance(field, list) else [field]) if name not in ("annotation", "returns") else ():
            if isinstance(child, ast.AST):
                yield from _without_annotations(child)


def _span(node: ast.stmt) -> range:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _names_of_module(table: symtable.SymbolTable) -> set[str]:
    """The names that a top-level statement reads and that are neither parameters nor variables of its functions."""
    top = table.get_type() == "module"
    read = (symbol for symbol in table.get_symbols() if symbol.is_referenced())
    own = {symbol.get_name() for symbol in read if top or symbol.is_global() or symbol.is_imported()}
    return own.union(*map(_names_of_module, table.get_children()))


def _parse_cuda(file: Path) -> Iterator[tuple[str, Definition]]:
    yield "", Definition(code := _code(file.read_text(encoding="utf-8"), "//", "#include", "#pragma once"), set())
    known = defaultdict[str, set[Place]](set)
    for header in _includes(file):
        for name, _, body in _split(header):
            known[name].add(Place(header, name))
            if "__global__" in body:  # what includes a kernel launches it
                yield "", Definition(set(), {Place(header, name)})
    for name, span, body in _split(file):
        words = set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", body))
        yield name, Definition(code & span, set().union(*(known[word] for word in words & known.keys())))


@cache
def _includes(file: Path) -> tuple[Path, ...]:
    """A file and all that it includes."""
    names = re.findall(r'^#include "([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
    return tuple({file: None, **{path: None for name in names for path in _includes((file.parent / name).resolve())}})


_BEFORE_NAME = re.compile(r"template\s*<(?:[^<>]|<[^<>]*>)*>|(?:__\w+__|alignas)\s*\((?:[^()]|\([^()]*\))*\)")
_NAMED = r"#define (\w+)|using (\w+) =|typedef [^;]* (\w+);|enum \{ (\w+)|(?:struct|enum)\s+(\w+)"
_NAME = re.compile(rf"{_NAMED}|(\w+)(?:<[^()]*>)?\s*[({{=[]")


@cache
def _split(file: Path) -> list[tuple[str, set[int], str]]:
    """The definitions at a file's top level: name, numbers of lines, and text without comments and strings."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|//.*', "", file.read_text(encoding="utf-8"))
    found, span, body = list[tuple[str, set[int], str]](), set[int](), ""
    for number, line in enumerate(text.splitlines(), 1):
        if span or (line.strip() and (line[0] != "#" or line.startswith("#define"))):
            span, body = span | {number}, f"{body}{line}\n"
            if body.count("{") == body.count("}") and (line[0] == "#" or line.rstrip().endswith((";", "}"))):
                found += [("".join(names), span, body) for names in _NAME.findall(_BEFORE_NAME.sub("", body))[:1]]
                span, body = set(), ""
    return found
