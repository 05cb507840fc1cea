"""The scores of forms of at most so many lines."""

from types import SimpleNamespace

from kernelzoo.report import load
from kernelzoo.report.results import Problem
from kernelzoo.report.short_forms import Form, by_language, forms_of


def row(id: str, length: int, score: float | None, form: str = "") -> SimpleNamespace:
    problem = Problem(1, (1, length), "bfloat16")
    return SimpleNamespace(id=id, backend=id.split("/")[0], form=form, problem=problem, of_limit=score)


def test_a_row_counts_for_the_form_that_ran() -> None:
    lines = {"cute/min/rows": 50, "triton/min/rows": 90}
    rows = [row("cute/min/auto", 1, 0.7, "cute/min/rows"), row("cute/min/rows", 1, 0.5), row("cute/min/rows", 2, 0.9)]
    rows += [row("triton/min/rows", 1, 0.6), row("triton/min/gone", 2, 0.9), row("triton/min/rows", 3, None)]
    forms = forms_of([*rows, row("rival/min/rows", 2, 0.9)], lambda id: lines.get(id, 0))
    one, two = (Problem(1, (1, length), "bfloat16") for length in (1, 2))
    assert forms == {"min": [Form("cute", 50, {one: 0.7, two: 0.9}), Form("triton", 90, {one: 0.6})]}


def test_a_cell_has_the_fastest_forms_that_are_short_enough() -> None:
    forms = [Form("cute", 60, {1: 0.4, 2: 0.9}), Form("cute", 61, {1: 0.8, 2: 0.2}), Form("cupy", 60, {1: 0.6})]
    forms += [Form("triton", 50, {1: 0.6, 2: 0.6}), Form("triton", 40, {1: 0.6, 2: 0.6}), Form("numba", 151, {1: 1.0})]
    text = by_language("softmax", forms).markdown()
    assert text.startswith("| softmax | ≤ 60 lines | ≤ 150 lines | all forms |\n")
    assert "| CuTe | **0.60** | **0.85** | **0.85** |" in text
    assert "| Triton | **0.60** | 0.60 | 0.60 |" in text  # a tie, by what is shown
    assert "| CUDA C | 0.60 (1 of 2) | 0.60 (1 of 2) | 0.60 (1 of 2) |" in text
    assert "| Numba | - | - | 1.00 (1 of 2) |" in text and "Gluon" not in text
    apart = by_language("softmax", [Form("cute", 60, {1: 0.4}), Form("cupy", 60, {2: 0.6})]).markdown()
    assert "0.60 (1 of 2)" in apart and "**" not in apart


def test_the_page_has_the_table_of_each_operation_that_has_forms(entry, write, made) -> None:
    ours = [entry("triton/softmax/fused", of_limit=0.5), entry("triton/softmax/auto", form="triton/softmax/fused")]
    page = made(load([write([*ours, entry()])]))
    assert page.tables["softmax: the score of short forms"][0] == ["language", "≤ 60 lines", "≤ 150 lines", "all forms"]
    chosen = entry("triton/softmax/auto", form="triton/softmax/fused")
    alone = made(load([write([entry("rival/softmax/library"), chosen, entry("triton/softmax/fused", clock="submit")])]))
    assert not any("short forms" in caption for caption in alone.tables)
