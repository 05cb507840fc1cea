"""Tables and figures from benchmark results; ``python -m kernelzoo.report --help`` is the way in.

Knows results, not kernels: reads the JSON that the benches write, and imports no kernel language.
"""

from kernelzoo.report.output import write
from kernelzoo.report.results import Group, Results, ResultsError, Row, load

__all__ = ["Group", "Results", "ResultsError", "Row", "load", "write"]
