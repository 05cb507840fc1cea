"""Tables and figures from the JSON of benchmark results, without any kernel language; see ``kernelzoo report``."""

from kernelzoo.report.reading import load
from kernelzoo.report.results import ComparableRows, Results, ResultsError, Row
from kernelzoo.report.writing import write

__all__ = ["ComparableRows", "Results", "ResultsError", "Row", "load", "write"]
