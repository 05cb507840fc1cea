"""Mends Triton's interpreter, in which Gluon's kernels run too, or Numba's simulator, evaluates cuTile's tiles, or
emulates CUDA C++, in the process that fuzzes, which is given this file as a module:

    TRITON_INTERPRET=1 kernelzoo fuzz 'triton/*' --module tests/emulators.py --cases 200
    TRITON_INTERPRET=1 kernelzoo fuzz 'gluon/*' --module tests/emulators.py --cases 200
    KERNELZOO_EVALUATE_CUTILE=1 kernelzoo fuzz 'cutile/*' --module tests/emulators.py --cases 200
    NUMBA_ENABLE_CUDASIM=1 kernelzoo fuzz 'numba/*' --module tests/emulators.py --cases 24
    KERNELZOO_EMULATE_CUDA=1 kernelzoo fuzz 'cupy/*' --module tests/emulators.py --cases 200

A second takes some ten cases of the first, and one of the second.
"""

import importlib.util
import os
import sys
from pathlib import Path

for variable, name in (
    ("TRITON_INTERPRET", "triton/interpreter.py"),
    ("TRITON_INTERPRET", "gluon/stripped.py"),
    ("KERNELZOO_EVALUATE_CUTILE", "cutile/evaluated.py"),
    ("KERNELZOO_EMULATE_CUTILE", "cutile/compiled_cutile.py"),
    ("NUMBA_ENABLE_CUDASIM", "numba/simulator.py"),
    ("KERNELZOO_EMULATE_CUDA", "cupy/emulator.py"),
):
    if os.environ.get(variable) == "1":
        spec = importlib.util.spec_from_file_location(Path(name).stem, Path(__file__).parent / name)
        assert spec is not None and spec.loader is not None
        module = sys.modules[Path(name).stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.install()
