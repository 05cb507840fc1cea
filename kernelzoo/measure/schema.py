"""Validation of results files by the JSON schema in ``results.schema.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from kernelzoo.files import printable
from kernelzoo.registry import BATCH_INVARIANT

FORMAT = 1
"""The number of the newest known layout of the object ``kernelzoo`` in a results file."""


def find_error(document: Any) -> str:
    """Return the first error in a results file, with its position and the allowed values; "" if there is none."""
    if not isinstance(document, dict) or not isinstance(document.get("benchmarks"), list):
        return "holds no list 'benchmarks', so it is no results file; kernelzoo bench -o FILE.json writes one"
    ours = document.get("kernelzoo")
    format = ours.get("format") if isinstance(ours, dict) else None
    if isinstance(format, int) and format > FORMAT:  # the rest may be anything
        return (
            f"is of format {format:.30g}, and this kernelzoo reads formats up to {FORMAT}; "
            "read it with the kernelzoo that wrote it, or a newer one"
        )
    error = next(_validator().iter_errors(document), None)
    return "" if error is None else _describe_error(document, error)


def is_implementation_name_part(value: object) -> bool:
    """Whether a value could be one of the three names in an id: a backend, operation or variant."""
    return isinstance(value, str) and value.removesuffix(BATCH_INVARIANT).isidentifier()


_FORMATS: dict[str, Callable[[str], bool]] = {
    "identifier": is_implementation_name_part,
    "implementation": lambda v: v.count("/") == 2 and all(map(is_implementation_name_part, v.split("/"))),
    "printable": lambda v: bool(printable(v)),
}


@cache
def _validator() -> Any:
    # Slow to import, and the command line starts without it.
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend

    schema = json.loads(
        resources.files("kernelzoo.measure").joinpath("results.schema.json").read_text(encoding="utf-8")
    )
    formats = FormatChecker(formats=())
    for name, right in _FORMATS.items():
        formats.checks(name)(lambda v, right=right: not isinstance(v, str) or right(v))
    # JSON schema accepts 1.0 as an integer, and NaN as a number. kernelzoo writes neither.
    strict = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: (
                isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
            ),
        }
    )
    return extend(Draft202012Validator, type_checker=strict)(schema, format_checker=formats)


def _describe_error(document: Any, error: Any) -> str:
    """Return an error as text. It names the list entry, such as ``benchmarks[3] (NAME)``, and the wrong field."""
    place = list(error.absolute_path)
    told = next((i + 1 for i, key in enumerate(place) if isinstance(key, int)), 0)  # after the entry's number
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
