"""docs/cli.md names every command, every option, and none that isn't there."""

import re

import options
import pytest

from kernelzoo.report import writing

PAGE = options.PAGE.read_text(encoding="utf-8")
COMMANDS = {name: {flag for names in given for flag in names} for name, given in options.OPTIONS.items()}


def section(command: str) -> str:
    return PAGE.split(f"\n## {command}\n")[1].split("\n## ")[0]


def flags(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def test_every_command_has_its_section() -> None:
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == list(COMMANDS)


def test_options_are_those_of_the_command() -> None:
    """``python tests/described/options.py`` writes the list of each command."""
    assert writing.insert(PAGE, options.blocks(), options.PAGE.name)[1] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_is_named_that_the_command_does_not_have(command) -> None:
    told = flags(re.sub(r"```.*?```", "", section(command), flags=re.DOTALL))
    assert told - COMMANDS[command] == set()
