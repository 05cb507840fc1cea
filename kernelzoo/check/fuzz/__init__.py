"""Fuzzing: random cases over the whole contract, drawn from a seed, stored as JSON, and reduced when they fail.

A :class:`Case` describes one call completely: dtype, shape, strides, storage offset, axis, ``out``, values, and the
fault, if any. The same case is the same call on any machine, with the same values on the same kind of device. The
module ``running`` runs cases.
"""

from kernelzoo.check.fuzz.case import FAR, Case, CaseError, CompanionInput, Layout, dense_strides, span
from kernelzoo.check.fuzz.drawing import GROUP, case_strategy, draw, max_elements
from kernelzoo.check.fuzz.faulty import possible_faults
from kernelzoo.check.fuzz.parsing import parse_case
from kernelzoo.check.fuzz.reducing import NEEDED, reduce_case, stored_failures, update_failure

__all__ = [
    "FAR",
    "GROUP",
    "NEEDED",
    "Case",
    "CaseError",
    "CompanionInput",
    "Layout",
    "case_strategy",
    "dense_strides",
    "draw",
    "max_elements",
    "parse_case",
    "possible_faults",
    "reduce_case",
    "span",
    "stored_failures",
    "update_failure",
]
