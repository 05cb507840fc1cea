"""Reads definitions, solutions and workloads, and checks that they are complete."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from kernelzoo.errors import KernelZooError
from kernelzoo.operations.arguments import FLOATS, INTEGERS, NARROW
from kernelzoo.operations.declared import ROW
from kernelzoo.operations.declaring import HOOKS, TAKEN

Json = dict[str, Any]


class DefinitionError(KernelZooError, ValueError):
    """A file is no definition, solution or list of workloads, or refers to something missing."""


def read(path: str | Path) -> tuple[str, Any]:
    """Return the kind of a file, ``"definition"``, ``"solution"`` or ``"workloads"``, and its contents.

    None of the file's code runs. Raises DefinitionError.
    """
    text = _read_text(path)
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        data = json.loads(text)
    except ValueError as error:
        if len(lines) < 2 or Path(path).suffix != ".jsonl":
            raise DefinitionError(f"{path} is no JSON: {error}") from None
        return "workloads", [_parse_workload(path, line, number) for number, line in enumerate(lines, 1)]
    if not isinstance(data, dict):
        raise DefinitionError(f"{path} holds no JSON object")
    if "workload" in data or "uuid" in data or (len(lines) == 1 and Path(path).suffix == ".jsonl"):
        return "workloads", [_parse_workload(path, text, 1)]
    kind = "solution" if {"sources", "spec", "definition"} & data.keys() else "definition"
    _check_data(path, data, kind)
    return kind, data


_DEFINED = re.compile(r"^(?:def +|class +)?(\w+)(?= *[=(:])", re.MULTILINE)


def top_level_names(path: str | Path) -> set[str]:
    """Return the names that a Python file defines at top level, without running it, even if it has syntax errors."""
    try:
        code = ast.parse(Path(path).read_bytes())
    except OSError:
        return set()
    except (SyntaxError, ValueError):
        return {*_DEFINED.findall(Path(path).read_text(encoding="utf-8", errors="replace"))}
    targets = [one for node in code.body if isinstance(node, ast.Assign) for one in node.targets]
    found = {node.name for node in code.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return found | {one.id for one in targets if isinstance(one, ast.Name)}


def identifier(name: str) -> str:
    """Return a name as an identifier: ``gpt_5_2`` for ``gpt-5.2``."""
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def safe_name(name: str) -> str:
    """Return the name that a definition's input, output or axis has in its operation: with ``_`` added if reserved."""
    return f"{name}_" if name in (*ROW, *TAKEN, *HOOKS) and name != "out" else name


def _read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{path} can't be read: {error}") from None


def _parse_workload(path: str | Path, line: str, number: int) -> Json:
    where = f"{path}, line {number}"
    try:
        data = json.loads(line)
    except ValueError as error:
        raise DefinitionError(f"{where} is no JSON: {error}") from None
    workload = data.get("workload", data) if isinstance(data, dict) else data
    _check_data(where, workload, "workload")
    found: Json = workload
    return found


def _check_data(where: str | Path, data: Any, kind: str) -> None:
    """Raise DefinitionError unless the data is a complete definition, solution or workload."""
    error = next(iter(_schema_validator(kind).iter_errors(data)), None)
    if error is not None:
        place = ".".join(map(str, error.absolute_path))
        if error.validator == "required":
            lacking = next(key for key in error.validator_value if key not in error.instance)
            raise DefinitionError(f"{where} is no {kind}: {place or 'it'} lacks {lacking!r}")
        if error.validator == "anyOf":
            lacking = " or ".join(repr(one["required"][0]) for one in error.validator_value)
            raise DefinitionError(f"{where} is no {kind}: {place or 'it'} lacks {lacking}")
        allowed = error.schema.get("description", error.message) if isinstance(error.schema, dict) else error.message
        raise DefinitionError(f"{where} is no {kind}: {place or 'it'} must be {allowed}, got {error.instance!r:.60}")
    if kind == "definition":
        _check_definition(where, data)
    elif kind == "solution":
        _check_solution(where, data)


def _check_definition(where: str | Path, data: Json) -> None:
    for name, tensor in {**data["inputs"], **data["outputs"]}.items():
        if (dtype := tensor["dtype"]) not in (*FLOATS, *INTEGERS, *NARROW):
            raise DefinitionError(
                f"{where}: {name} is of {dtype}, which torch does not have or kernelzoo does not take"
            )
    if same := {*data["inputs"]} & {*data["outputs"]}:
        raise DefinitionError(f"{where}: {', '.join(sorted(same))} is an input and an output")
    try:
        code = ast.parse(data["reference"])
    except SyntaxError as error:
        raise DefinitionError(f"{where}: the reference is no Python: line {error.lineno}: {error.msg}") from None
    functions = {node.name for node in code.body if isinstance(node, ast.FunctionDef)}
    for name in filter(None, ("run", data.get("custom_inputs_entrypoint"))):
        if name not in functions:
            raise DefinitionError(f"{where}: the reference has no function {name!r}")
    if drawn := random_calls(code, "run"):
        raise DefinitionError(f"{where}: the reference draws random numbers ({drawn}), so no result is the right one")


_DRAWS = re.compile(
    r"(rand|randn|randint|randperm)(_like)?|multinomial|bernoulli_?|(normal|uniform|random|exponential)_"
)


def random_calls(code: ast.Module, start: str) -> str:
    """Return the random functions that function ``start`` of a module calls, directly or not; "" if none."""
    known = {node.name: node for node in code.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    left, seen, found = [start], {start}, list[str]()
    while left:
        for node in ast.walk(known[left.pop()]):
            if isinstance(node, ast.Name) and node.id in known and node.id not in seen:
                seen.add(node.id)
                left.append(node.id)
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if _DRAWS.fullmatch(name) or (name == "dropout" and not _is_disabled_dropout(node)):
                    found.append(name)
    return ", ".join(dict.fromkeys(found))


def _is_disabled_dropout(call: ast.Call) -> bool:
    """Whether a call of dropout drops nothing, because its ``training`` is false."""
    said = {word.arg: word.value for word in call.keywords}
    training = said.get("training", call.args[2] if len(call.args) > 2 else None)
    return isinstance(training, ast.Constant) and not training.value


def _check_solution(where: str | Path, data: Json) -> None:
    """Check a solution. Add sources from files in its folder, and fields that older formats leave out."""
    spec = data["spec"]
    spec["languages"] = [language.lower() for language in spec.get("languages") or [spec["language"]]]
    if "::" not in spec["entry_point"]:
        named = [source["path"] for source in data["sources"] if PurePosixPath(source["path"]).stem == "main"]
        spec["entry_point"] = f"{(named or [data['sources'][0]['path']])[0]}::{spec['entry_point']}"
    paths = [source["path"] for source in data["sources"]]
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise DefinitionError(f"{where}: the source {path!r} lies outside of the solution's folder")
    for source in data["sources"]:
        if source.get("content") is None:
            source["content"] = _read_text(Path(where).parent / source["path"])
    entry = data["spec"]["entry_point"].partition("::")[0]
    if entry not in paths:
        raise DefinitionError(f"{where}: the entry point's file {entry!r} is not among the sources")


@cache
def _schema_validator(kind: str) -> Any:
    schema = json.loads(resources.files("kernelzoo.definitions").joinpath("schema.json").read_text(encoding="utf-8"))
    from jsonschema import Draft202012Validator  # slow to import, and the command line starts without it

    return Draft202012Validator({**schema, "$ref": f"#/$defs/{kind}"})
