"""What a public project promises beside its code: its workflows, its versions, and what a package index is given."""

import email
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

import kernelzoo

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[1]
if not (ROOT / ".github").is_dir():
    pytest.skip("an sdist has no workflows", allow_module_level=True)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOX = (ROOT / "noxfile.py").read_text(encoding="utf-8")
SESSIONS = {*re.findall(r'@nox.session\(name="([\w-]+)"', NOX), *re.findall(r"^def (\w+)\(session", NOX, re.MULTILINE)}
LINK = re.compile(r'\]\(([^)\s]+)\)|\b(?:src|srcset)="([^"]+)"')
LARGEST = 7_000_000
"""Bytes of an sdist's files, apart from what is measured in bench/results/, which tests read."""


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


WORKFLOWS = {path.stem: read(f".github/workflows/{path.name}") for path in (ROOT / ".github/workflows").iterdir()}


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_a_workflow_runs_sessions_that_exist_with_pinned_actions_and_no_rights(name: str) -> None:
    steps = [step for job in WORKFLOWS[name]["jobs"].values() for step in job["steps"]]
    runs = [found for step in steps for found in re.findall(r"nox -s (.+)", step.get("run", ""))]
    assert runs and {session for run in runs for session in run.split()} <= SESSIONS
    assert all(re.search("@[0-9a-f]{40}$", step["uses"]) for step in steps if "uses" in step)
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}


def test_the_versions_of_python_are_those_that_are_tested() -> None:
    tested = WORKFLOWS["ci"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    versions = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", text) for text in PROJECT["classifiers"])
    assert tested == [found[1] for found in versions if found]
    assert PROJECT["requires-python"] == f">={tested[0]}"
    assert f"Python {tested[0]} to {tested[-1]}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_citation_and_changelog_are_of_this_version() -> None:
    citation = read("CITATION.cff")
    assert citation["version"] == kernelzoo.__version__ and citation["repository-code"] == PROJECT["urls"]["Source"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\S+)(?: - (\d{4}-\d\d-\d\d))?$", changelog, re.MULTILINE)
    assert releases[:2] == [("Unreleased", ""), (citation["version"], citation["date-released"])]
    assert len(releases) == changelog.count("\n## ") and all(date for _, date in releases[1:])


def test_pre_commit_runs_the_ruff_that_is_pinned() -> None:
    revs = {repo["repo"].rpartition("/")[2]: repo["rev"] for repo in read(".pre-commit-config.yaml")["repos"]}
    pins = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"ruff=={revs['ruff-pre-commit'].removeprefix('v')}" in pins


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for needed in ("hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(needed, reason=f"{needed}, which builds the sdist, is not installed")
    folder = tmp_path_factory.mktemp("sdist")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.mark.slow
def test_an_index_shows_a_readme_without_relative_links(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        info = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert info is not None
        page = str(email.message_from_bytes(info.read()).get_payload())
    targets = [found[1] or found[2] for found in LINK.finditer(page)]
    assert len(targets) == len(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))) > 10
    assert [target for target in targets if not target.startswith("https://")] == []


@pytest.mark.slow
def test_an_sdist_holds_sources_tests_and_documents_and_is_small(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        sizes = {member.name.partition("/")[2]: member.size for member in archive}
    folders = {name.partition("/")[0] for name in sizes if "/" in name}
    assert folders == {".ci", "bench", "docs", "examples", "kernelzoo", "tests"}
    assert {"README.md", "LICENSE", "CITATION.cff", "docs/kernels.md", "tests/test_public.py"} <= sizes.keys()
    assert not any(name.startswith("docs/records/") for name in sizes)
    assert sum(size for name, size in sizes.items() if not name.startswith("bench/results/")) < LARGEST
