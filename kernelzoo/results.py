"""Results files as plain rows, for programs: ``pandas.DataFrame(kernelzoo.results.read("r.json"))``."""

from kernelzoo.report.rows import Rows as Rows
from kernelzoo.report.rows import read as read
from kernelzoo.report.rows import to_csv as to_csv
