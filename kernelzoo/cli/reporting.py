"""``kernelzoo report``: what results files hold, as ``python -m kernelzoo.report`` prints, draws and writes it."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import typer

from kernelzoo.cli import output

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""How typer leaves all the options to the report's own parser."""


def report(context: typer.Context) -> int:
    """Print, draw and write what results files hold: tables, a page, figures, and blocks in documents.

    Exit status: 0; 1 if --check finds a document that would change; 2 for bad usage or a file that can't be read.
    """
    from kernelzoo.report.__main__ import main

    arguments = list(context.args)
    if "--json" not in arguments:
        return main(arguments)
    arguments.remove("--json")
    said, complaints = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(complaints):
        try:
            status = main(arguments)
        except SystemExit as exit:  # the parser's, for bad usage
            status = int(exit.code or 0)
    sys.stderr.write(complaints.getvalue())
    output.emit(
        {"status": status, "said": said.getvalue().splitlines(), "complaints": complaints.getvalue().splitlines()}
    )
    return status
