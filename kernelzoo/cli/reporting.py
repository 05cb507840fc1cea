"""``kernelzoo report``: the same as ``python -m kernelzoo.report``."""

import typer

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Makes typer leave all options to the report's own parser."""


def report(context: typer.Context) -> int:
    """Show the contents of results files: tables here, a page, a folder with figures, or blocks in documents.

    Exit status: 0; 1 if --check finds a document that would change; 2 for bad usage, or a file that can't be read.
    """
    from kernelzoo.report.__main__ import main

    try:
        return main(context.args, "kernelzoo report")
    except SystemExit as exit:  # the parser exits after --help and for bad usage
        return int(exit.code or 0)
