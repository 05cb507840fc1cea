"""The lines of code that a reader of a form must read."""

from pathlib import Path

from kernelzoo.report.lines import lines_by_file

PYTHON = {
    "cute/softmax/fused.py": '"""Not counted."""\nimport torch\n'
    "from kernelzoo.kernels.cute import tiles\n"
    "from kernelzoo.kernels.cute.launch import Tile, bind\n"
    "from kernelzoo.kernels.cute.softmax.choose import LIMIT\n\n\n"
    '@kernel\ndef fused(x, other):\n    """Not counted."""\n    # nor this\n'
    "    return bind(Tile, tiles.wide(x), other(x), LIMIT)\n",  # 3 lines of its own
    "cute/tiles.py": "import math\n\nSIZE = (\n    1,\n    2,\n)\nUNUSED = 3\n\n\n"  # SIZE: 4
    "def wide(x):\n    UNUSED = math.inf\n    return x, SIZE, UNUSED\n\n\n"  # 3
    "def other(x):\n    return x\n\n\n"  # no: the form's ``other`` is a parameter
    "@dataclass\nclass Tile:\n    size: int\n\n    def half(self):\n        return half(self)\n\n\n"  # 5
    "def half(x):\n    return x\n",  # 2
    "cute/launch.py": "from kernelzoo.kernels.cute.tiles import Tile\n\n\ndef bind(tile):\n    return helper(tile)\n",
    "cute/softmax/choose.py": "LIMIT = 1\n",
}
CUDA = {
    "cupy/softmax/fused.py": "WIDTH = 1\n",
    "cupy/softmax/fused.cu": '// Not counted.\n#include "row.cuh"\n\n__global__ void __launch_bounds__(32) fused() {\n'
    '  asm("max; // idle()");  // sum()\n  Row<float> row;\n  row.unused(), p->sum();\n}\n',  # 5
    "cupy/softmax/row.cuh": '#pragma once\n#include "../common.cuh"\n\ntemplate <class T>\nstruct alignas(4) Row {\n'
    "  static constexpr int COUNT = SIZE;\n  u32 bits;\n};\nvoid unused() {}\nvoid sum() {}\n",  # Row: 5
    "cupy/common.cuh": "#define SIZE twice(1)\ntypedef unsigned u32;\ntypedef unsigned short u16;\n"  # 2
    "inline int twice(int a) { return 2 * a; }\ninline float twice(float a) {\n  return 2 * a;\n}\nvoid max() {}\n"  # 4
    "__global__ void __launch_bounds__(32) fill(u16* x) {\n}\n",  # 2, and u16: 1
}


HOST = {
    "triton/sum/split.py": "from kernelzoo.kernels.triton.sum.rows import launch_parts\n"
    "from kernelzoo.kernels.triton.tiles import plan\n\n\ndef split(x):\n    return launch_parts(plan(x))\n",
    "triton/sum/rows.py": "from kernelzoo.kernels.triton.tiles import TILE, plan\n\n\n"
    "@triton.jit\ndef kernel(x: TILE):\n    return add(x)\n\n\n"  # 3
    "@triton.jit\ndef add(x):\n    return x\n\n\n"  # 3
    "def launch_parts(plan):\n    return bind(kernel, plan)\n",
    "triton/tiles.py": "TILE = 1\n\n\ndef plan(x):\n    def each():\n        return x\n\n    return each\n",
    "numba/sum/rows.py": "from kernelzoo.kernels.numba.row import load, plan\n\n\n"
    "def kernel(dtype):\n    def add(x):\n        return load(x)\n\n    return add\n\n\n"
    "def rows(x):\n    return kernel(plan(x))\n",  # 4 and 2
    "numba/source.py": "",
    "numba/row.py": "def load(x):\n    return x\n\n\ndef plan(x):\n    return x\n",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / "kernelzoo" / "kernels" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "kernelzoo" / "kernels" / name).write_text(text, encoding="utf-8")
    return folder / "kernelzoo" / "kernels"


def test_lines_are_of_what_a_form_uses_in_other_files(tmp_path: Path) -> None:
    folder = write(tmp_path, PYTHON | CUDA)
    found = lines_by_file([folder / "cute/softmax/fused.py"])
    assert {file.name: len(lines) for file, lines in found.items()} == {"fused.py": 3, "tiles.py": 4 + 3 + 5 + 2}
    found = lines_by_file([folder / "cupy/softmax/fused.py", folder / "cupy/softmax/fused.cu"])
    counts = {file.name: len(lines) for file, lines in found.items()}
    assert counts == {"fused.py": 1, "fused.cu": 5, "row.cuh": 5, "common.cuh": 2 + 4 + 2 + 1}


def test_plans_of_other_files_are_not_counted_but_the_kernels_that_they_launch(tmp_path: Path) -> None:
    folder = write(tmp_path, HOST)
    found = lines_by_file([folder / "triton/sum/split.py"])
    assert {file.name: len(lines) for file, lines in found.items()} == {"split.py": 2, "rows.py": 3 + 3}
    found = lines_by_file([folder / "numba/sum/rows.py"])
    assert {file.name: len(lines) for file, lines in found.items()} == {"rows.py": 4 + 2, "row.py": 2}
