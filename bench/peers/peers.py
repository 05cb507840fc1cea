"""Other people's kernels, to be measured beside ours: ``kernelzoo bench --module bench/peers/peers.py ...``.

They are taken as their projects publish them, and called the fastest way that these document, on the rows of a matrix
as they want them. What a launcher would allocate is given it instead (the output is ours), so that nobody pays for a
copy. They go through the same gate as everything else: one that breaks the contract is reported as wrong, and not
timed, unless it is named with ``--waive``.

Each project has a module of its own beside this one, which says where its calls are documented. What is not installed
is refused, with what to install.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

PACKAGE = "kernelzoo_peers"
"""What Python calls the folder: as plain ``peers``, its modules could be taken for the projects themselves."""

if PACKAGE not in sys.modules:
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    package = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)

for path in sorted(Path(__file__).parent.glob("*.py")):
    if path.stem not in ("__init__", "peers"):
        importlib.import_module(f"{PACKAGE}.{path.stem}")
