"""Makes ready what runs kernels on the host, in pytest's process or in one that fuzzes:

    TRITON_INTERPRET=1 PYTHONPATH=tests/everywhere kernelzoo fuzz 'triton/*' --cases 200

A ``--module`` would not do: kernelzoo's own kernels run in a process without a user's files. So for gluon, helion;
KERNELZOO_EVALUATE_CUTILE=1, KERNELZOO_EMULATE_PTX=LANGUAGE.
"""

import importlib.util
import os
import sys
from pathlib import Path

# Where fuzzing loads this file, and no test does.
sys.path += [str(Path(__file__).parent / name) for name in ("shared", "emulation")]

for variable, value, name in (
    ("TRITON_INTERPRET", "1", "triton/interpreter.py"),
    ("TRITON_INTERPRET", "1", "gluon/stripped.py"),
    ("TRITON_INTERPRET", "1", "helion/bound_once.py"),
    ("KERNELZOO_EVALUATE_CUTILE", "1", "cutile/evaluated.py"),
    ("KERNELZOO_EMULATE_PTX", "cupy", "cupy/compiled_cupy.py"),
    ("KERNELZOO_EMULATE_PTX", "triton", "triton/compiled_triton.py"),
    ("KERNELZOO_EMULATE_PTX", "triton", "helion/bound_once.py"),
    ("KERNELZOO_EMULATE_PTX", "numba", "numba/compiled_numba.py"),
    ("KERNELZOO_EMULATE_PTX", "cutile", "cutile/compiled_cutile.py"),
    ("KERNELZOO_EMULATE_PTX", "cute", "cute/compiled_cute.py"),
):
    if os.environ.get(variable) == value:
        spec = importlib.util.spec_from_file_location(Path(name).stem, Path(__file__).parent / name)
        assert spec is not None and spec.loader is not None
        module = sys.modules[Path(name).stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.install()
