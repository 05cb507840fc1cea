"""The action that compares: its commands, run as GitHub's runner would, with stand-ins for kernelzoo and gh."""

import os
import re
import subprocess
import sys
from pathlib import Path

import options
import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
ROOT = Path(__file__).parents[2]
PATH = ROOT / ".github" / "actions" / "compare" / "action.yml"
if not PATH.exists() or sys.platform == "win32":
    pytest.skip("an sdist has no action, and its shell is bash", allow_module_level=True)
ACTION = yaml.safe_load(PATH.read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
KERNELZOO = """#!/bin/sh
printf '[%s]' "$@" >> called.txt
case $1 in report) echo '| a | table |';; *) touch results.json; exit $STATUS;; esac
"""
GH = """#!/bin/sh
printf '[%s]' "$@" >> called.txt
case "$*" in *--paginate*) printf "$COMMENTS";; esac
"""


@pytest.fixture
def run(tmp_path: Path):
    def run(status: int, **given: str) -> tuple[str, str, int]:
        """Run the steps; what was called, the summary and the exit status."""
        for name, text in (("kernelzoo", KERNELZOO), ("gh", GH)):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        summary = tmp_path / "summary.md"
        env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "NUMBER": "7"}
        env |= {"COMMAND": "compare", "AGAINST": "", "OUTPUT": "results.json", "TITLE": "A title", "COMMENTS": ""}
        env |= {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(tmp_path / "told"), **given}
        env |= {"STATUS": str(status), "GITHUB_REPOSITORY": "a/b"}
        for step in STEPS:
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(command, cwd=tmp_path, env=os.environ | env, capture_output=True, text=True)
            assert done.stderr == ""
        return (tmp_path / "called.txt").read_text(), summary.read_text(), done.returncode

    return run


def test_the_table_is_shown_posted_and_the_status_kept(run, tmp_path) -> None:
    called, summary, status = run(1, ARGUMENTS="torch/* --op softmax\n--allowed $(id)", AGAINST="old.json")
    measured = "[compare][torch/*][--op][softmax][--allowed][$(id)][--against][old.json][-o][results.json]"
    assert called.startswith(f"{measured}[report][results.json][--markdown][--against][old.json]") and status == 1
    assert summary.startswith("<!-- kernelzoo: A title -->\n### A title\n\nStatus 1: ") and "\n\n| a | table" in summary
    assert called.endswith(f"[pr][comment][7][--repo][a/b][--body-file][{tmp_path}/kernelzoo-comment.md]")


def test_its_own_comment_is_written_anew(run, tmp_path) -> None:
    called, _, status = run(0, ARGUMENTS="--op min", COMMAND="bench", AGAINST="old.json", COMMENTS="12\\n13\\n")
    assert not any("${{" in step["run"] for step in STEPS)  # what is given is never pasted into a command
    assert called.startswith("[bench][--op][min][-o][results.json][report]") and status == 0
    body = f"[-F][body=@{tmp_path}/kernelzoo-comment.md]"
    assert called.endswith(f"[api][--silent][-X][PATCH][repos/a/b/issues/comments/12]{body}")


def test_the_example_asks_for_what_there_is_and_pastes_nothing_of_a_stranger() -> None:
    """A pull request's title, branch and texts are a stranger's; commits are GitHub's."""
    text = (ROOT / "examples" / "slower.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    assert job["steps"][-1]["with"].keys() <= ACTION["inputs"].keys() and (ROOT / job["env"]["MODULE"]).exists()
    known = {flag for names in options.OPTIONS["compare"] for flag in names}
    assert set(re.findall(r" (--?\w+)", text)) <= known | {"-"}
    pasted = {f"env.{name}" for name in job["env"]} | {"github.event.pull_request.base.sha"}
    assert set(re.findall(r"\$\{\{ (.+?) \}\}", text)) == pasted
