"""Mends Triton's interpreter, in which Gluon's kernels run too, or Numba's simulator, evaluates cuTile's tiles, or
emulates PTX, in the process that fuzzes, which is given this file as a module:

    TRITON_INTERPRET=1 kernelzoo fuzz 'triton/*' --module tests/emulators.py --cases 200
    TRITON_INTERPRET=1 kernelzoo fuzz 'helion/*' --module tests/emulators.py --cases 200
    TRITON_INTERPRET=1 kernelzoo fuzz 'gluon/*' --module tests/emulators.py --cases 200
    KERNELZOO_EVALUATE_CUTILE=1 kernelzoo fuzz 'cutile/*' --module tests/emulators.py --cases 200
    NUMBA_ENABLE_CUDASIM=1 kernelzoo fuzz 'numba/*' --module tests/emulators.py --cases 24
    KERNELZOO_EMULATE_PTX=cupy kernelzoo fuzz 'cupy/*' --module tests/emulators.py --cases 200

A second takes some ten cases of the first, and one of Numba's. KERNELZOO_EMULATE_PTX may also name
another language, for pytest.
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
    ("NUMBA_ENABLE_CUDASIM", "1", "numba/simulator.py"),
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
