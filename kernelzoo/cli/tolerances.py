"""The option for the tolerances that other people's problem sets state."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kernelzoo.definitions.tolerance import VARIABLE

TheirTolerance = Annotated[
    bool,
    typer.Option(
        "--their-tolerance",
        help="Judge by the tolerances of a definition's workloads, as its own set does, in place of bounds.",
    ),
]


def use(asked: bool) -> None:
    """Let the processes that judge use the tolerances of definitions, or not."""
    os.environ[VARIABLE] = str(int(asked))
