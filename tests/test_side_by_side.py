"""An operation's plain forms in all languages, read from source."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernelzoo import operations
from kernelzoo.cli import main
from kernelzoo.packages import LANGUAGES
from kernelzoo.side_by_side import format_comparison_page, lines_of, simplest_variants


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
    found = {backend: form for backend, form in simplest_variants(op).items() if form is not None}
    assert {"triton", "torch", "cpu"} <= set(found)
    for backend, form in found.items():
        code = "\n".join(text for _, text in form.code)
        assert f'@register("{backend}", "{op}"' in code and "import" not in code.partition("\n")[0]
        assert form.summary and form.lines > 5
    text = format_comparison_page(op, {found["triton"].id: 0.5, f"triton/{op}/auto": 0.75})
    assert text.count("<details") == text.count("</details>") == len(found)
    assert "lines of code, score 0.50, its best form 0.75</summary>" in text


def test_softmax_and_min_have_it_in_every_language() -> None:
    assert None not in [*simplest_variants("softmax").values(), *simplest_variants("min").values()]
    cuda = simplest_variants("softmax", ["cupy"])["cupy"]
    assert cuda is not None and [kind for kind, _ in cuda.code] == ["cuda", "python"]
    assert simplest_variants("softmax", ["triton"])["triton"].id == "triton/softmax/fused"


# ``kernelzoo show``

RECORD = Path(__file__).parents[1] / "bench" / "results" / "h200-axes.json.gz"


def test_every_language_is_shown(capsys) -> None:
    assert main(["show", "softmax"]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if " lines of code" in line] == [
        line for name in LANGUAGES.values() for line in printed.splitlines() if line.startswith(f"{name}: ")
    ]
    assert "def fused_kernel(" in printed and "__global__" in printed


def test_chosen_languages_alone_and_json(capsys) -> None:
    assert main(["show", "softmax", "--language", "triton,cute", "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [form["id"] for form in said["forms"]] == ["triton/softmax/fused", "cute/softmax/fused"]
    assert said["forms"][0]["score"] is None and said["forms"][0]["lines"] > 20
    assert "def fused_kernel(" in said["forms"][0]["code"][0]["text"]


def test_scores_are_those_of_a_file(capsys) -> None:
    assert main(["show", "min", "--language", "triton", "--results", str(RECORD)]) == 0
    assert "its best form 0." in capsys.readouterr().out


def test_a_page_folds_each_kernel(capsys) -> None:
    assert main(["show", "min", "--markdown"]) == 0
    assert capsys.readouterr().out.count("<details markdown>") == len(LANGUAGES)
