"""Tables and figures from benchmark results; see ``kernelzoo report --help``.

It reads the JSON that the benchmarks write, and imports no kernel language.
"""

from kernelzoo.report.reading import load
from kernelzoo.report.results import Group, Results, ResultsError, Row
from kernelzoo.report.writing import write

__all__ = ["Group", "Results", "ResultsError", "Row", "load", "write"]
