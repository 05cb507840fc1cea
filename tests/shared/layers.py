"""The layers that reject a kernel, in the order in which it meets them, and by what words each is known."""

from __future__ import annotations

import re

_AS_TIMED = "right when checked alone, wrong when timed: "

FIRST, STIRRED, LAST = "first check", "stirred rows", "last check"
CAPTURED = "captured launches"
STATE, HARNESS = "process state", "replaced names"
RAISED, ENDED, HUNG = "its own error", "end of the process", "patience"
REPLIES, ANSWER, CLOCK, LIMITS = "numbered replies", "answer", "the guard's clock", "limits"
SUITE = "conformance"

WORDS = {
    STATE: r"(while it was timed, it )?(left .* behind|changed )",
    HARNESS: r"(while it was timed, it )?replaced ",
    CAPTURED: r"its \d+ launches in a CUDA graph differ",
    STIRRED: f"{_AS_TIMED}.*(after a change between two launches|written after the launch had returned)",
    LAST: _AS_TIMED,
    CLOCK: "a turn said to take|the guard has not seen",
    LIMITS: ".*: a measurement error$",
    RAISED: r"raised \w+: ",
    ENDED: r"the process (was killed|ended|closed)",
    HUNG: "hung ",
    REPLIES: "something else wrote to the answer pipe",
    ANSWER: "the answer does not match the request: ",
}
"""How what each says begins. Of wrong results, what none of these says is the first check's."""


def layer_of(reason: str) -> str:
    """The layer that says so.

    >>> layer_of("hung in check of mine/min/slow: no sign of life for 3 s")
    'patience'
    """
    return next((layer for layer, words in WORDS.items() if re.match(words, reason, re.DOTALL)), FIRST)
