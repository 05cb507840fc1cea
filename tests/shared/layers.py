"""What rejects a kernel, and by what words each is known."""

from __future__ import annotations

import re

CAPTURED, RAISED, FIRST = "captured launches", "its own error", "the gate"

WORDS = {
    CAPTURED: r"its \d+ launches in a CUDA graph differ",
    "a turn": "right when checked alone, wrong when timed: ",
    RAISED: r"raised \w+: ",
    "end of the process": r"the process (was killed|ended|closed)",
    "patience": "hung ",
    "numbered replies": "something else wrote to the answer pipe",
    "answer": "the answer does not match the request: ",
}
"""How what each says begins. Of wrong results, what none of these says is the gate's."""


def layer_of(reason: str) -> str:
    """What says so.

    >>> layer_of("hung in check of mine/min/slow: no sign of life for 3 s")
    'patience'
    """
    return next((layer for layer, words in WORDS.items() if re.match(words, reason, re.DOTALL)), FIRST)
