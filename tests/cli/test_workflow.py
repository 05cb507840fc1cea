"""examples/slower.yml: its commands, run as GitHub's runner would, with a stand-in for kernelzoo that ends as told."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import options
import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "examples" / "slower.yml").read_text(encoding="utf-8")
SETTINGS = dict(re.findall(r"^      ([A-Z]+): (.+)$", TEXT, re.MULTILINE))
STAND_IN = """#!/bin/sh
echo "$@" >> called.txt
case "$*" in *--against*) echo "a table, | and \\$(all)"; exit $STATUS;; esac
"""


def commands() -> str:
    """The lines of the step that measures."""
    (block,) = re.findall(r"^        run: \|\n((?:          .+\n)+)", TEXT, re.MULTILINE)
    return textwrap.dedent(block)


@pytest.fixture
def run(tmp_path: Path):
    """Run them; what was called, the comment, the summary and the status that the job ends with."""

    def run(status: int) -> tuple[list[str], str, str, str]:
        program = tmp_path / "bin" / "kernelzoo"
        program.parent.mkdir()
        program.write_text(STAND_IN)
        program.chmod(0o755)
        told = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
        path = {"PATH": os.pathsep.join([str(program.parent), os.environ["PATH"]]), "STATUS": str(status)}
        command = ["bash", "-e", "-c", commands()]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | SETTINGS | told | path, capture_output=True)
        assert done.returncode == 0, done.stderr
        called = (tmp_path / "called.txt").read_text().splitlines()
        return called, *((tmp_path / name).read_text() for name in ("comment.md", *told))

    return run


@pytest.mark.skipif(sys.platform == "win32", reason="the workflow's shell is bash")
@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_pull_request_gets_its_table_and_its_status(run, status: int) -> None:
    called, comment, summary, output = run(status)
    assert comment == summary and output == f"status={status}\n"
    assert comment.startswith(f"Status {status}: ") and "```\na table, | and $(all)\n```" in comment
    before, after = called
    assert "--module base/" in before and "-o base.json" in before
    assert "--module new/" in after and "--against base.json" in after


@pytest.mark.skipif(sys.platform == "win32", reason="the workflow's shell is bash")
def test_what_it_calls_is_there(run) -> None:
    known = {flag for names in options.OPTIONS["compare"] for flag in names}
    for line in run(0)[0]:
        command, *words = line.split()
        assert command == "compare" and {word for word in words if word.startswith("-")} <= known
    assert (ROOT / SETTINGS["MODULE"]).exists()


def test_nothing_of_a_pull_request_is_pasted_into_a_command() -> None:
    """Its title, branch and texts are a stranger's; numbers and commits are GitHub's."""
    used = set(re.findall(r"\$\{\{ (.+?) \}\}", TEXT))
    assert used == {
        "github.event.pull_request.base.sha",
        "github.event.pull_request.number",
        "github.token",
        "steps.measured.outputs.status",
    }
