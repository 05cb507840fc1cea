"""docs/cli.md names every command, every option, and none that isn't there."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from kernelzoo.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = {
    name: {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
}
TYPER = sorted(set(COMMANDS) - {"report"})
"""Those whose options are typer's; report has a parser of its own."""


def section(command: str) -> str:
    return PAGE.split(f"\n## {command}\n")[1].split("\n## ")[0]


def flags(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def test_every_command_has_its_section() -> None:
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize("command", TYPER)
def test_options_are_those_of_the_command(command: str) -> None:
    options = {flag for flag in COMMANDS[command] if flag.startswith("-")} - {"--help", "-h"}
    told = flags(re.sub(r"```.*?```", "", section(command), flags=re.DOTALL))
    assert options - told == set()
    assert told - options == set()


def test_examples_use_options_that_exist() -> None:
    examples = re.findall(r"^\$ kernelzoo (.+)$", PAGE, re.MULTILINE)
    assert len(examples) >= len(COMMANDS)
    for example in examples:
        command, *words = shlex.split(example)
        given = {word for word in words if word.startswith("-")}
        assert command == "report" or given <= COMMANDS[command], example
