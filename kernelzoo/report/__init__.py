"""Tables and figures from benchmark results; ``python -m kernelzoo.report --help`` is the way in.

Reads the JSON that the benches write; imports no kernel language.
"""

from kernelzoo.report.reading import load
from kernelzoo.report.results import Group, Results, ResultsError, Row
from kernelzoo.report.writing import write

__all__ = ["Group", "Results", "ResultsError", "Row", "load", "write"]
