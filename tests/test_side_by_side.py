"""An operation's plain forms in all languages, read from source."""

from pathlib import Path

import pytest

from kernelzoo import operations
from kernelzoo.side_by_side import forms, lines_of, page


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", '"""One."""\n\nx = 1  # two\n# three\n\ndef f():\n    """Four,\n    five."""\n    return "six"\n', 3),
        ("a.py", 'x = """a\nb"""\n', 2),
        ("a.cu", "// one\n\nint x;  // two\n  // three\n#define Y\n", 2),
    ],
)
def test_lines_are_of_code(tmp_path: Path, name: str, text: str, expected: int) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    assert lines_of(file) == expected


@pytest.mark.parametrize("op", operations.CALLED)
def test_a_plain_form_is_short_and_shows_its_kernel(op: str) -> None:
    found = {backend: form for backend, form in forms(op).items() if form is not None}
    assert {"triton", "torch", "cpu"} <= set(found)
    for backend, form in found.items():
        code = "\n".join(text for _, text in form.code)
        assert f'@register("{backend}", "{op}"' in code and "import" not in code.partition("\n")[0]
        assert form.summary and form.lines > 5
    text = page(op, {found["triton"].id: 0.5, f"triton/{op}/auto": 0.75})
    assert text.count("<details") == text.count("</details>") == len(found)
    assert "lines of code, score 0.50, its best form 0.75</summary>" in text


def test_softmax_and_min_have_it_in_every_language() -> None:
    assert None not in [*forms("softmax").values(), *forms("min").values()]
    cuda = forms("softmax", ["cupy"])["cupy"]
    assert cuda is not None and [kind for kind, _ in cuda.code] == ["cuda", "python"]
    assert forms("softmax", ["triton"])["triton"].id == "triton/softmax/fused"
