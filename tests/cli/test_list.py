"""``kernelzoo list``: what there is, and what of it runs here."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from registered import forget

import kernelzoo as package
from kernelzoo import definitions, packages
from kernelzoo.cli import options
from kernelzoo.cli import probe as probe_of
from kernelzoo.cli.availability import Availability
from kernelzoo.cli.listing import probe_backends
from kernelzoo.errors import BackendUnavailableError, KernelZooError


def test_every_implementation_and_whether_it_runs(process) -> None:
    done = process("list", "--json", CUDA_VISIBLE_DEVICES="", TRITON_INTERPRET="0", NUMBA_ENABLE_CUDASIM="0")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    rows = {row["id"]: row for row in told["implementations"]}
    assert list(rows) == [i.id for i in package.implementations()]
    eager = rows["torch/softmax/eager"]
    assert (
        eager["runs_here"] and eager["may_refuse"] and eager["dtypes"] == ["float16", "bfloat16", "float32", "float64"]
    )
    assert not rows["torch/min/auto"]["may_refuse"] and "int8" in rows["torch/min/auto"]["dtypes"]
    for backend in told["backends"]:  # each either runs somewhere, or says why not and what mends it
        assert bool(backend["devices"]) != bool(backend["reason"] and backend["remedy"]), backend
        assert rows[f"{backend['backend']}/min/auto"]["runs_here"] == bool(backend["devices"])


def test_a_backend_whose_process_gives_no_answer_has_its_reason(monkeypatch) -> None:
    answers = {"backend:torch": asdict(Availability("torch", ("cpu",))), "backend:cpu": {"error": "crashed"}}
    monkeypatch.setattr(probe_of, "run_probes", lambda names: {name: answers[name] for name in names})
    found = probe_backends(["torch", "cpu"])
    assert found["torch"].devices == ("cpu",) and found["cpu"].reason == "crashed"


def test_for_people_with_the_reasons(process) -> None:
    done = process("list", "--backend", "torch,cupy", "--op", "softmax", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0
    assert "torch: runs on cpu" in done.stdout and "cupy: can't run here: " in done.stdout
    assert "torch/softmax/eager" in done.stdout and "torch/min/eager" not in done.stdout
    assert "triton" not in done.stdout


def test_a_file_of_kernels_is_run_in_another_process(answer, bad) -> None:
    witness = bad.with_name("where.txt")
    bad.write_text(bad.read_text() + f"\nopen({str(witness)!r}, 'a').write(sys.argv[0] + chr(10))\n")
    status, told = answer("list", "--module", bad, "--backend", "bad")
    assert status == 0
    assert "bad/softmax/crashes" in [row["id"] for row in told["implementations"]]
    assert all(row["runs_here"] for row in told["implementations"])
    (where,) = witness.read_text().splitlines()
    assert where.endswith("worker.py")


def test_a_file_that_fails_is_told_with_its_line(answer, tmp_path) -> None:
    path = tmp_path / "broken.py"
    for text, told in (
        ("def (:\n", "broken.py, line 1: SyntaxError"),
        ("import sys\nsys.exit('no')\n", "broken.py, line 2: SystemExit: no"),
        ("import kernelzoo\nkernelzoo.register('mine', 'max', 'one')\n", "no operation 'max'"),
        ("x = 1\nx.nothing\n", "broken.py, line 2: AttributeError"),
    ):
        path.write_text(text)
        with pytest.raises(KernelZooError, match=told):  # as the process that loads it does
            definitions.load_file_locating_errors(str(path))
    status, document = answer("list", "--module", path)
    assert status == 2 and told in document["error"]


MIN = "import kernelzoo\n@kernelzoo.register(NAME, 'min', 'one')\ndef one(x, out):\n    'One.'\n"

# Packages of others, by the backend that each announces: a file that it has, and what is told of it.
ODD = {
    "syntax": ("min.py", "def (:\n", "kernels/min.py, line 1: SyntaxError: invalid syntax"),
    "computed": ("min.py", MIN.replace("NAME", "N"), "has other names than literals"),
    "unknown": ("min.py", MIN.replace("'min'", "'max'"), "has other names than literals"),
    "latin": ("min.py", "# \udce9\n", "kernels/min.py: SyntaxError: "),
    "zeros": ("min.py", "x = 1\0\n", "kernels/min.py: "),
    "leaves": ("__init__.py", "import sys\nsys.exit(0)\n", "__init__.py, line 2: importing it ends with sys.exit(0)"),
    "raising": ("../__init__.py", "raise OSError('no')\n", "raising/__init__.py, line 1: importing it ends with raise"),
    "absent": ("", "", "there is no package 'absent.kernels'"),
    "late": ("__init__.py", "import sys\ngetattr(sys, 'exit')('late')\n", "importing it raised SystemExit: late"),
    "broken": ("../__init__.py", "1 / 0\n", "importing it raised ZeroDivisionError: division by zero"),
    "lacking": ("__init__.py", "import nothing_so_named\n", "the package nothing_so_named is not installed"),
}  # fmt: skip
LATE = ("late", "broken", "lacking")
"""What shows only as it is loaded."""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the odd packages write their names to when they are run."""
    site, witness = tmp_path / "site", tmp_path / "witness.txt"
    info = site / "odd-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    points = [f"{name} = {name}.kernels\n" for name in ODD]
    (info / "entry_points.txt").write_text("".join(["[kernelzoo.backends]\n", *points]))
    for name, (file, text, _) in ODD.items():
        if file:
            folder = site / name / "kernels"
            folder.mkdir(parents=True)
            for path in (folder.parent / "__init__.py", folder / "__init__.py"):
                path.write_text(f"with open({str(witness)!r}, 'a') as file:\n    file.write('{name} ')\n")
            (folder / "min.py").write_text(MIN.replace("NAME", repr(name)))
            (folder / file).write_text(text.replace("NAME", repr(name)), errors="surrogateescape")
    monkeypatch.syspath_prepend(site)
    caches = (packages.entry_point_backends, packages.backend_packages, packages._parse_package)
    for cached in caches:
        cached.cache_clear()
    yield witness
    for cached in caches:
        cached.cache_clear()
    forget(*ODD)


def test_an_odd_package_is_a_row_with_its_reason_and_is_not_run(answer, odd) -> None:
    """In a list, among implementations, and as a shell completes; nothing else is lost."""
    rows = {i.backend: i for i in package.implementations() if i.backend in ODD}
    assert list(rows) == sorted(ODD) and {*options.known_ids()} >= {row.id for row in rows.values()}
    status, told = answer("list", "--backend", ",".join(["torch", *ODD]))
    assert status == 0
    torchs = [row["id"] for row in told["implementations"] if row["backend"] == "torch"]
    assert sorted(torchs) == sorted(i.id for i in package.implementations("torch")) and "torch/softmax/eager" in torchs
    reasons = {backend["backend"]: backend["reason"] for backend in told["backends"]}
    for name, (_, _, words) in ODD.items():
        (row,) = [row for row in told["implementations"] if row["backend"] == name]
        if name in LATE:
            assert (row["id"], row["runs_here"]) == (f"{name}/min/one", None)
        else:
            assert rows[name].variant == "unreadable" and row["runs_here"] is False
            assert words in rows[name].summary and words in reasons[name], rows[name].summary
    assert not odd.exists()


def test_an_odd_package_is_refused_with_its_reason(odd) -> None:
    for name, (_, _, words) in ODD.items():
        with pytest.raises(BackendUnavailableError) as caught:
            package.get(name)
        assert words in str(caught.value)
    assert {*odd.read_text().split()} <= {*LATE}
