"""``kernelzoo show``: an operation's plain form in each language."""

import json
from pathlib import Path
from typing import Any

from kernelzoo.cli import main
from kernelzoo.packages import LANGUAGES

RECORD = Path(__file__).parents[2] / "bench" / "results" / "h200-axes.json.gz"


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
