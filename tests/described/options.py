"""The options in docs/cli.md, made of the command line itself: ``python tests/described/options.py`` writes them."""

from pathlib import Path

import typer

from kernelzoo.cli import app
from kernelzoo.report import writing

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
OPTIONS = {
    name: [parameter.opts for parameter in command.params if parameter.opts[0].startswith("-")]
    for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
}
"""Each command's options, and the names that each has."""


def blocks() -> dict[str, str]:
    """What stands between the page's markers."""
    told = {
        command: [name for names in options for name in names if name.startswith("--")]
        for command, options in OPTIONS.items()
    }
    return {name: f"Options: {', '.join(f'`{option}`' for option in options)}." for name, options in told.items()}


if __name__ == "__main__":
    page, changed = writing.insert(PAGE.read_text(encoding="utf-8"), blocks(), PAGE.name)
    PAGE.write_text(page, encoding="utf-8")
    print("written:", ", ".join(changed) or "nothing, all is as it should be")
