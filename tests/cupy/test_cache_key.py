"""CuPy keeps machine code by a digest of its source: every file of a kernel is in it, and no other."""

import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("cupy", reason="CuPy is not installed")

import kernelzoo
import kernelzoo.kernels.cupy as backend
from kernelzoo.kernels.cupy import compiler

PACKAGE = Path(backend.__file__).parent
FORMS = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/*.cu"))


@pytest.mark.parametrize("form", FORMS)
def test_the_key_is_of_a_form_s_own_files(form: str, tmp_path: Path) -> None:
    def copied(name: str) -> Path:
        shutil.copytree(PACKAGE, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
        return tmp_path / name

    source, whole = compiler.full_source(PACKAGE / form), copied("whole")
    assert compiler.full_source(whole / form) == source
    names = [path.relative_to(whole) for path in compiler.list_included_files(whole / form)]
    assert Path("device_functions.cuh") in names and names[-1] == Path(form)
    for number, name in enumerate(names):
        edited = copied(str(number))
        (edited / name).write_text((edited / name).read_text(encoding="utf-8") + "\n", encoding="utf-8")
        assert compiler.full_source(edited / form) != source, name
    others = copied("others")
    for path in others.rglob("*.cu*"):
        if path.relative_to(others) not in names:
            path.write_text("nothing")
    assert compiler.full_source(others / form) == source


def test_no_include_is_left_to_the_compiler_and_every_file_is_used() -> None:
    used = {path for form in FORMS for path in compiler.list_included_files(PACKAGE / form)}
    assert used == set(PACKAGE.rglob("*.cu*"))
    for form in FORMS:
        assert not re.search(r"^\s*#\s*include", compiler.full_source(PACKAGE / form), re.MULTILINE), form


def test_every_form_has_its_kernels_beside_it() -> None:
    registered = {f"{i.op}/{i.variant}.cu" for i in kernelzoo.implementations("cupy")}
    assert {form for form in FORMS if form not in registered} == set()
