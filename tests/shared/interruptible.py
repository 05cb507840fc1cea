"""Starts programs that a test sends signals to as a terminal would: whatever the tests themselves were started with."""

import sys

_RESTORES = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def python(*arguments: str) -> list[str]:
    """The command that runs Python with these arguments, with every signal as a terminal's programs have it."""
    return [sys.executable, "-I", "-S", "-c", _RESTORES, *arguments]
