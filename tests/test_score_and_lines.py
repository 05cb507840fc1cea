"""bench/score_and_lines.py: which rows count for a form, and what its tables say."""

from pathlib import Path
from types import SimpleNamespace

from scripts import loaded

from kernelzoo.report.results import Problem

BENCH = Path(__file__).parents[1] / "bench"
score_and_lines = loaded(BENCH / "score_and_lines.py")
Form = score_and_lines.Form


def row(id: str, length: int, score: float | None, form: str = "", dtype: str = "bfloat16") -> SimpleNamespace:
    problem = Problem(1, (1, length), dtype)
    return SimpleNamespace(id=id, backend=id.split("/")[0], form=form, problem=problem, of_limit=score)


def test_a_row_counts_for_the_form_that_ran_on_problems_of_two_languages() -> None:
    lines = {"cute/min/rows": 50, "triton/min/rows": 90}
    rows = [row("cute/min/auto", 1, 0.7, "cute/min/rows"), row("cute/min/rows", 1, 0.5), row("cute/min/rows", 2, 0.9)]
    rows += [row("triton/min/rows", 1, 0.6), row("triton/min/rows", 1, 0.9, dtype="float32")]
    rows += [row("triton/min/gone", 2, 0.9), row("triton/min/rows", 3, None), row("torch/min/eager", 2, 0.9)]
    forms = score_and_lines.forms_of(rows, lambda id: lines.get(id, 0))
    one = Problem(1, (1, 1), "bfloat16")
    assert forms == {"min": [Form("cute", 50, {one: 0.7}), Form("triton", 90, {one: 0.6})]}
    assert b"hollow" in score_and_lines.drawn(forms) == score_and_lines.drawn(forms)


SOFTMAX = [
    *(Form("cute", 60, {1: 0.4, 2: 0.9}), Form("cute", 61, {1: 0.8, 2: 0.2}), Form("cupy", 60, {1: 0.6})),
    *(Form("triton", 50, {1: 0.6, 2: 0.6}), Form("triton", 40, {1: 0.6, 2: 0.6}), Form("numba", 151, {1: 1.0})),
]
FORMS = {"softmax": SOFTMAX, "min": [Form("cute", 200, {1: 0.5}), Form("numba", 60, {1: 0.25})]}


def test_a_cell_has_the_fastest_forms_that_are_short_enough() -> None:
    text = score_and_lines.languages("softmax", SOFTMAX).markdown()
    assert text.startswith("| softmax | ≤ 60 lines | ≤ 150 lines | all forms |\n")
    assert "| CuTe | **0.60** | **0.85** | **0.85** |" in text
    assert "| Triton | **0.60** | 0.60 | 0.60 |" in text  # a tie, by what is shown
    assert "| CUDA C | 0.60 (1 of 2) | 0.60 (1 of 2) | 0.60 (1 of 2) |" in text
    assert "| Numba | - | - | 1.00 (1 of 2) |" in text
    assert "| Gluon | - | - | - |" in text


def test_the_best_form_took_all_problems() -> None:
    text = score_and_lines.best_forms(FORMS).markdown()
    assert "| softmax | Triton 0.60 (40) | Triton 0.60 (40) | Triton 0.60 (40) | CuTe 0.85 |" in text
    assert "| min | Numba 0.25 (60) | Numba 0.25 (60) | CuTe 0.50 (200) | CuTe 0.50 |" in text
    page = score_and_lines.document(FORMS)
    assert text in page and score_and_lines.languages("min", FORMS["min"]).markdown() in page
