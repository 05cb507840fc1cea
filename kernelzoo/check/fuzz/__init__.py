"""Fuzzing: random cases over the whole contract, drawn from a seed, stored as JSON, and reduced when they fail.

A :class:`Case` describes one call completely: dtype, shape, strides, storage offset, axis, ``out``, values, and the
fault, if any. The same case is the same call on any machine, with the same values on the same kind of device. The
module ``running`` runs cases.
"""

from kernelzoo.check.fuzz.case import FAR, Case, CaseError, Companion, Layout, contiguous, span
from kernelzoo.check.fuzz.drawing import GROUP, draw, largest, strategy
from kernelzoo.check.fuzz.faulty import faults
from kernelzoo.check.fuzz.parsing import parse
from kernelzoo.check.fuzz.reducing import NEEDED, keep, kept, reduce

__all__ = [
    "FAR",
    "GROUP",
    "NEEDED",
    "Case",
    "CaseError",
    "Companion",
    "Layout",
    "contiguous",
    "draw",
    "faults",
    "keep",
    "kept",
    "largest",
    "parse",
    "reduce",
    "span",
    "strategy",
]
