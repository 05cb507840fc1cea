"""The docstrings as the site shows them: examples as code, and names in code font without Sphinx's roles."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:attr|class|func|meth|mod):`~?([^`]+)`")
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Changes every docstring that is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = shown(obj.docstring.value)


def shown(text: str) -> str:
    """Markdown of a docstring: each block from ``>>>`` to the next empty line is code."""
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", ROLE.sub(r"``\1``", text))
