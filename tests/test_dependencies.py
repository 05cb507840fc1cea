"""What is depended on: bounded below, above only with a reason, pinned within those bounds, and audited honestly."""

import importlib.metadata
import json
import re
import sys
import tomllib
import types
from pathlib import Path
from typing import NoReturn

import pytest
import scripts
from packaging.requirements import Requirement

from kernelzoo import errors, packages

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
PROBES = [
    Requirement(text)
    for texts in (
        PROJECT["project"]["dependencies"],
        PROJECT["build-system"]["requires"],
        *EXTRAS.values(),
        *PROJECT["dependency-groups"].values(),
    )
    for text in texts
]
PINNED = dict(
    re.fullmatch(r"([\w.-]+)==([\w.+]+)", line).groups()  # type: ignore[union-attr]
    for line in (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)
# Pinned for CUDA 13 alone; and for numba-cuda, where cuTile takes that of its own compiler, as noxfile.py says.
ELSEWHERE = {"cupy-cuda12x", "nvidia-nvvm"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


BROKEN = {"numpy": "<2.5", "cuda-toolkit": "==13.0.*"}
"""Newer ones are known not to work."""
USERS = {text for texts in (PROJECT["project"]["dependencies"], *EXTRAS.values()) for text in texts}


@pytest.mark.parametrize("text", sorted(USERS))
def test_a_user_meets_an_upper_bound_only_where_newer_versions_are_known_to_break(text: str) -> None:
    asked = Requirement(text)
    assert all(s.operator == ">=" or BROKEN.get(asked.name) == str(s) for s in asked.specifier)
    assert asked.specifier


@pytest.mark.parametrize(
    ("backend", "package", "version"),
    [
        *((name, "triton", "3.5.1") for name in ("triton", "gluon", "helion")),
        ("numba", "numpy", "2.5.0"),
        ("cute", "nvidia-cutlass-dsl", "4.5.2"),
        ("cutile", "nvidia-cuda-tileiras", "13.2"),
    ],
)
def test_an_error_names_the_versions_that_the_distribution_asks_for(backend, package, version, monkeypatch) -> None:
    """Those of pyproject.toml, and no others: the probe reads them off the installed metadata."""
    (extra,) = {name for name in EXTRAS if name in (backend, f"{backend}-cuda13")}
    (asked,) = (Requirement(text) for text in EXTRAS[extra] if Requirement(text).name == package)
    given = packages.requirement(package, backend)
    assert (Requirement(given).specifier, Requirement(given).extras) == (asked.specifier, asked.extras)
    assert not asked.specifier.contains(version) and packages.why_version_unfit(package, version, backend)
    assert not packages.why_version_unfit(package, PINNED[package] + "+git", backend)
    if package in ("triton", "numpy"):
        stand_ins = {name: types.ModuleType(name) for name in ("torch", "helion", package)}
        stand_ins[package].__version__ = version  # type: ignore[attr-defined]
        for name, module in stand_ins.items():
            monkeypatch.setitem(sys.modules, name, module)
        with pytest.raises(errors.BackendUnavailableError) as caught:
            importlib.import_module(f"kernelzoo.kernels.{backend}").probe()
        assert caught.value.remedy.endswith(f" with: pip install '{given}'") and version in caught.value.reason


def test_without_the_metadata_no_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "metadata", absent)
    assert packages.requirement("triton", "triton") == "triton"
    assert packages.why_version_unfit("triton", "1.0", "triton") == ""


@pytest.mark.parametrize("asked", PROBES, ids=str)
def test_every_range_holds_what_is_pinned(asked: Requirement) -> None:
    pinned = {normal(name): version for name, version in PINNED.items()}
    if asked.name not in ELSEWHERE:
        assert asked.specifier.contains(pinned[normal(asked.name)])


def test_each_is_pinned_once() -> None:
    names = [
        normal(line.partition("==")[0]) for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines()[1:]
    ]
    assert len(names) == len(set(names))


@pytest.fixture(scope="module")
def audit() -> types.ModuleType:
    return scripts.loaded(ROOT / ".ci" / "audit.py")


FINE = {"name": "fine", "version": "1", "vulns": []}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": []}]}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI and could not be audited: unknown (3)"}


@pytest.mark.parametrize(
    ("found", "complaints", "ignored", "failed", "words"),
    [
        ([FINE], "", {}, False, "1 of 1 packages audited, no vulnerability that matters is known"),
        ([FINE, BAD], "", {}, True, "bad 2: PYSEC-1, mended by 2.1"),
        ([FINE, BAD], "", {"PYSEC-1": "not reachable here"}, False, "bad 2: PYSEC-1, ignored: not reachable here"),
        ([FINE], "", {"PYSEC-1": "not reachable here"}, False, "PYSEC-1 is ignored, and nothing has it"),
        ([FINE, UNKNOWN], "", {}, False, "1 of 2 packages audited"),
        ([FINE, UNKNOWN], "", {}, False, "not audited, since the service does not know them: unknown"),
        ([UNKNOWN], "", {}, False, "NOTHING WAS AUDITED: the service knows none of these 1 packages"),
        ([], "", {}, False, "NOTHING WAS AUDITED"),
        ("", "requests.exceptions.ConnectionError: Max retries exceeded", {}, False, "can't be reached"),
        ("", "timed out after 120 s", {}, False, "can't be reached"),
        ("", "No module named pip_audit", {}, True, "the audit is broken: No module named pip_audit"),
        ("{}", "", {}, True, "the audit is broken"),
        ("[]", "usage: pip-audit", {}, True, "the audit is broken"),
    ],
)
def test_what_an_audit_found_is_said(audit, found, complaints, ignored, failed: bool, words: str) -> None:
    """A service that is away is no vulnerability, and no audit."""
    said = found if isinstance(found, str) else json.dumps({"dependencies": found})
    fails, lines = audit.judge(said, complaints, ignored)
    assert fails == failed and any(words in line for line in (lines[:1] if said is found else lines))
    assert failed or said is not found or lines[0].startswith("NOTHING WAS AUDITED")


def test_what_is_ignored_has_a_reason(audit: types.ModuleType) -> None:
    assert all(len(reason.split()) >= 3 for reason in audit.IGNORED.values())
