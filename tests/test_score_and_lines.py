"""bench/score_and_lines.py: the table of the best forms, the page and the picture."""

from pathlib import Path

from scripts import loaded

from kernelzoo.report.short_forms import Form, by_language

score_and_lines = loaded(Path(__file__).parents[1] / "bench" / "score_and_lines.py")

SOFTMAX = [
    *(Form("cute", 60, {1: 0.4, 2: 0.9}), Form("cute", 61, {1: 0.8, 2: 0.2}), Form("cupy", 60, {1: 0.6})),
    *(Form("triton", 50, {1: 0.6, 2: 0.6}), Form("triton", 40, {1: 0.6, 2: 0.6}), Form("numba", 151, {1: 1.0})),
]
FORMS = {"softmax": SOFTMAX, "min": [Form("cute", 200, {1: 0.5}), Form("numba", 60, {1: 0.25})]}


def test_the_best_form_took_all_problems() -> None:
    text = score_and_lines.best_forms(FORMS).markdown()
    assert "| softmax | Triton 0.60 (40) | Triton 0.60 (40) | Triton 0.60 (40) | CuTe 0.85 |" in text
    assert "| min | Numba 0.25 (60) | Numba 0.25 (60) | CuTe 0.50 (200) | CuTe 0.50 |" in text
    page = score_and_lines.document(FORMS, "a GPU")
    assert text in page and by_language("min", FORMS["min"]).markdown() in page


def test_the_same_forms_give_the_same_picture() -> None:
    assert b"hollow" in score_and_lines.drawn(FORMS) == score_and_lines.drawn(FORMS)
