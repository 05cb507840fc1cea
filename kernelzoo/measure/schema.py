"""What a results file may hold, as a JSON schema says it: ``results.schema.json`` beside this file."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from kernelzoo.files import printable

FORMAT = 1
"""The newest layout that is known here of the object ``kernelzoo`` in a results file."""


def wrong(document: Any) -> str:
    """What is wrong with a document as a results file: where, what is there and what is allowed; or ""."""
    if not isinstance(document, dict) or not isinstance(document.get("benchmarks"), list):
        return "holds no list 'benchmarks', so it is no results file; kernelzoo bench -o FILE.json writes one"
    ours = document.get("kernelzoo")
    format = ours.get("format") if isinstance(ours, dict) else None
    if isinstance(format, int) and format > FORMAT:  # whatever else it holds then
        return (
            f"is of format {format:.30g}, and this kernelzoo reads formats up to {FORMAT}; "
            "read it with the kernelzoo that wrote it, or a newer one"
        )
    error = next(_validator().iter_errors(document), None)
    return "" if error is None else _words(document, error)


def is_name(value: object) -> bool:
    """An identifier, as the registry takes them; that also makes it safe as a part of a file's name."""
    return isinstance(value, str) and value.isidentifier()


@cache
def _validator() -> Any:
    text = resources.files("kernelzoo.measure").joinpath("results.schema.json").read_text(encoding="utf-8")
    formats = FormatChecker(formats=())
    formats.checks("identifier")(lambda v: not isinstance(v, str) or is_name(v))
    formats.checks("implementation")(
        lambda v: not isinstance(v, str) or (v.count("/") == 2 and all(map(is_name, v.split("/"))))
    )
    formats.checks("printable")(lambda v: not isinstance(v, str) or bool(printable(v)))
    # In the schema's own terms 1.0 is an integer; nothing here writes one so.
    strict = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    return extend(Draft202012Validator, type_checker=strict)(json.loads(text), format_checker=formats)


def _words(document: Any, error: ValidationError) -> str:
    """Names the entry of a list, such as ``benchmarks[3] (its name)``, the object in it, and the object's field."""
    place = list(error.absolute_path)
    told = next((i + 1 for i, key in enumerate(place) if isinstance(key, int)), 0)  # past the entry's number
    where = f": {' '.join(map(str, place[: told - 1]))}[{place[told - 1]}]" if told else ""
    bench = place[0] == "benchmarks"
    if bench and isinstance(entry := document["benchmarks"][place[1]], dict):
        where += f" ({printable(str(entry.get('name', 'no name')))[:200]})"
    allowed = error.schema["description"] if isinstance(error.schema, dict) else ""
    if len(place) == told and error.validator == "type":
        return f"{where} is not {allowed}"
    if bench and (len(place) == told or (len(place) == told + 1 and error.validator == "type")):
        return f"{where} lacks the objects 'stats' and 'extra_info'; the benches of kernelzoo write both"
    if error.validator == "required":
        lacking = next(key for key in error.validator_value if key not in error.instance)
        where += f": {place[told]}" if len(place) > told else ""
        return f"{where} lacks {lacking!r}, which the benches of kernelzoo write"
    *objects, field = [key for key in place[told:] if isinstance(key, str)][:2]
    where += f": {objects[0]}" if objects else "" if told else ":"
    return f"{where} {field!r} must be {allowed}, got {error.instance!r:.80}"
