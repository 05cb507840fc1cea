"""On PYTHONPATH, makes each process ready that Python starts, the judge's too: see tests/emulators.py."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[1] / "emulators.py"))
