"""The page of languages: a form's files and lines, and what stands where nothing is measured."""

from pathlib import Path

import pytest
from scripts import loaded

ROOT = Path(__file__).parents[1]
languages = loaded(ROOT / "bench" / "languages.py")
KERNELS = ROOT / "kernelzoo" / "kernels"


def test_a_form_is_read_with_what_it_takes_from_its_folder() -> None:
    def named(place: str) -> set[str]:
        return {file.name for file in languages.read_for(KERNELS / place)}

    assert named("cute/softmax/fused.py") == {"fused.py", "device_functions.py"}
    assert {"fused.py", "fused.cu", "register_row.cuh", "pairs.cuh"} <= named("cupy/softmax/fused.py")
    assert "choose.py" not in named("triton/min/rows.py")


@pytest.mark.parametrize("op", languages.OPS)
def test_every_language_is_in_every_table(op: str) -> None:
    lines = languages.lines_of(op)
    assert lines.headers[1:] == list(languages.NAMES.values())
    (shared,) = [row for row in lines.rows if row[0].text == {"softmax": "fused", "min": "rows"}[op]]
    assert all(int(cell.text) > 20 for cell in shared[1:])
    rows = languages.measurements(op, []).rows
    assert [[cell.text for cell in row] for row in rows] == [[name, *"-------"] for name in languages.NAMES.values()]
