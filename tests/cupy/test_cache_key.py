"""CuPy keeps machine code on disk by a digest of the source that it is given: every file of a kernel must be in it, and
no file that isn't."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("cupy", reason="CuPy is not installed")

import kernelzoo
import kernelzoo.kernels.cupy as backend
from kernelzoo.kernels.cupy import compiler

PACKAGE = Path(backend.__file__).parent
FORMS = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/*.cu"))


def copied(folder: Path, form: str) -> Path:
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    return folder / form


@pytest.mark.parametrize("form", FORMS)
def test_an_edit_of_any_file_of_a_form_is_another_key(form: str, tmp_path: Path) -> None:
    original = copied(tmp_path / "original", form)
    source = compiler.source(original)
    assert source == compiler.source(PACKAGE / form)
    names = [path.relative_to(original.parents[1]) for path in compiler.files(original)]
    assert Path("device_functions.cuh") in names and names[-1] == Path(form)
    for number, name in enumerate(names):
        edited = copied(tmp_path / f"edited {number}", form)
        file = edited.parents[1] / name
        file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        assert compiler.source(edited) != source, name


@pytest.mark.parametrize("form", FORMS)
def test_an_edit_of_another_file_is_the_same_key(form: str, tmp_path: Path) -> None:
    changed = copied(tmp_path / "changed", form)
    its_own = set(compiler.files(changed))
    for path in changed.parents[1].rglob("*.cu*"):
        if path not in its_own:
            path.write_text("nothing")
    compiler.source.cache_clear()
    assert compiler.source(changed) == compiler.source(PACKAGE / form)


def test_no_include_is_left_to_the_compiler_and_every_file_is_used() -> None:
    used = {path for form in FORMS for path in compiler.files(PACKAGE / form)}
    assert used == set(PACKAGE.rglob("*.cu*"))
    for form in FORMS:
        assert not re.search(r"^\s*#\s*include", compiler.source(PACKAGE / form), re.MULTILINE), form


def test_every_form_has_its_kernels_beside_it() -> None:
    registered = {f"{i.op}/{i.variant}.cu" for i in kernelzoo.implementations("cupy")}
    assert {form for form in FORMS if form not in registered} == set()
