"""Fuzzing: random cases over the whole contract, drawn from a seed, written as JSON, made simpler when they fail.

A :class:`Case` says everything about one call: dtype, shape, strides, storage offset, axis, where ``out`` lies and how,
which values, and what is wrong with the call, if something is. What it says is all there is: the same case is the same
call on any machine, and the same values on the same kind of device. The module ``running`` runs it.
"""

from kernelzoo.check.fuzz.case import FAR, FAULTS, Case, CaseError, Layout, Other, contiguous, faults, span
from kernelzoo.check.fuzz.drawing import GROUP, draw, largest, strategy
from kernelzoo.check.fuzz.parsing import parse
from kernelzoo.check.fuzz.reducing import reduce, simpler

__all__ = [
    "FAR",
    "FAULTS",
    "GROUP",
    "Case",
    "CaseError",
    "Layout",
    "Other",
    "contiguous",
    "draw",
    "faults",
    "largest",
    "parse",
    "reduce",
    "simpler",
    "span",
    "strategy",
]
