"""``kernelzoo report``: what results files hold, as ``python -m kernelzoo.report`` prints, draws and writes it."""

from __future__ import annotations

import typer

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Makes typer leave all options to the report's own parser."""


def report(context: typer.Context) -> int:
    """Show what results files hold: tables here, or one page, or a folder with figures, or blocks in documents.

    Exit status: 0; 1 if --check finds a document that would change; 2 for bad usage, or a file that can't be read.
    """
    from kernelzoo.report.__main__ import main

    try:
        return main(context.args, "kernelzoo report")
    except SystemExit as exit:  # the parser's, for --help and for bad usage
        return int(exit.code or 0)
