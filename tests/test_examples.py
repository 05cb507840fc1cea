"""The examples do what they are there to show: a kernel in a file, and a backend in a package of its own."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import commands
import pytest
import torch

from kernelzoo.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PACKAGE = EXAMPLES / "kernelzoo-example"

# What the largest cases show, smaller ones do, and each dtype what the others: they take seconds.
SOME = ("--case", "*special*", "--case", "*-3x*", "--case", "*dim0*")
_LARGE = ("1048576x64", "3000017", "8388608", "262144", "40000")
NOT_LARGE = ("-k", "(bfloat16 or not test_conforms)" + "".join(f" and not {size}" for size in _LARGE))

SHAPES = "256x128,256x256,256x512,256x1024,256x2048,256x4096"
"""Of the notebook's figure."""

WHOLE = re.compile(r"(?m)^[1-9]\d\d passed\b(?!.*failed)")
"""The last line of a suite that was run over many cases."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the example package as pip would install it, built by its own build system."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the example, is not installed")
    folder = tmp_path_factory.mktemp("example")
    source = shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = (folder / "wheel").glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_a_file_of_kernels_passes_the_whole_suite(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import my_kernel\n"
        "from kernelzoo.testing import Conformance\n\n\n"
        "class TestMine(Conformance):\n"
        '    backends = ("mine",)\n'
    )
    (tmp_path / "my_kernel.py").symlink_to(EXAMPLES / "my_kernel.py")
    status, out, err = commands.run(tmp_path, ["pytest", "-q", *NOT_LARGE, "test_mine.py"])
    assert status == 0 and WHOLE.search(out), out[-3000:] + err[-1000:]


def test_a_file_of_kernels_is_measured_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As its docstring says, on a small shape. It is verified in docs/extending.md and in the notebook."""
    options = ("--backend", "mine", "--shape", "64x33", "--dtype", "float32", "--device", "cpu", "--rounds", "1")
    file, given = str(EXAMPLES / "my_kernel.py"), (*options, "--cache", "hot", "-o", str(tmp_path / "out.json"))
    assert main(["bench", "--module", file, *given]) == 0
    told = capsys.readouterr().out
    assert "mine/softmax/base_two" in told and "mine/min/halving" in told


def test_the_triton_file_says_where_it_runs() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    code = (
        "import torch, kernelzoo\n"
        "from kernelzoo.packages import load_module\n"
        f"load_module({str(EXAMPLES / 'my_triton_kernel.py')!r})\n"
        f"x = torch.randn(37, 129, device={device!r})\n"
        "result = kernelzoo.get('mine').softmax(x, variant='one_row')\n"
        "kernelzoo.implementation('mine/softmax/one_row').operation.assert_close(result, x)\n"
    )
    status, _, err = commands.run(ROOT, ["-c", code], gpu=device == "cuda")
    if device == "cuda":
        assert status == 0, err
    else:
        assert "UnsupportedProblemError" in err and "Triton compiles it for a GPU, and x is on the cpu" in err


def test_an_installed_package_is_a_backend(installed: Path, tmp_path: Path) -> None:
    """Found by its entry point, listed without importing it, and used like any other."""
    code = """
import sys, kernelzoo
print(*(i.id for i in kernelzoo.implementations("example")), "numpy" in sys.modules)
import torch
x = torch.randn(5, 7)
torch.testing.assert_close(kernelzoo.get("example").softmax(x, 0), torch.softmax(x, 0))
torch.testing.assert_close(kernelzoo.get("example").min(x), x.amin(-1))
"""
    path = os.pathsep.join(filter(None, (str(installed), str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-c", code]  # a fork has imported NumPy
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["example/mean/auto", "example/min/auto", "example/softmax/auto", "False"]


def test_an_installed_package_has_an_operation(installed: Path, tmp_path: Path) -> None:
    """Known by its entry point to every command; nothing of this repository names it."""
    results, file = str(tmp_path / "r.json"), str(tmp_path / "b.json")
    bench = ("bench", "--op", "mean", "--axes", "outer=4,n=30", "--rounds", "2", "--cache", "hot", "-o", file)
    for arguments, words in (
        (("list", "--op", "mean"), "example/mean/auto"),
        (("verify", "example/mean/auto", *SOME), "0 findings"),
        (("fuzz", "example/mean/auto", "--cases", "40", "--seed", "1"), "40 cases, 0 failed"),
        (
            ("accuracy", "example/mean/auto", "--values", "1e4", "--dtype", "float32", "--seed", "1"),
            "example/mean/auto",
        ),
        (
            ("compare", "example/mean/auto", "--shape", "64x33", "--rounds", "2", "--cache", "hot", "-o", results),
            "example/mean/auto",
        ),
        (bench, "results"),
        ((*bench, "--resume"), "2 results"),
        (("report", results, "-o", str(tmp_path / "page")), ""),
    ):
        status, out, err = commands.run(installed, ["kernelzoo", *arguments])
        assert status == 0, (arguments, out[-2000:] + err[-2000:])
        assert words in out + err, arguments
    assert "example/mean/auto" in (tmp_path / "page" / "report.md").read_text(encoding="utf-8")


def test_an_installed_package_passes_its_own_tests(installed: Path, tmp_path: Path) -> None:
    command = ("pytest", "-q", "-c", str(PACKAGE / "pyproject.toml"), *NOT_LARGE, str(PACKAGE / "tests"))
    status, out, err = commands.run(installed, command)
    assert status == 0 and WHOLE.search(out), out[-3000:] + err[-1000:]
    # Where it is not installed, its tests are an error, and no empty run.
    status, out, _ = commands.run(tmp_path, command)
    assert status != 0 and "no backend 'example'; known: " in out


@pytest.mark.parametrize("named", [True, False], ids=["named too", "announced alone"])
def test_the_plugin_may_be_announced_and_named(named: bool, tmp_path: Path) -> None:
    """An entry point of the plugin's own name, beside ``-p kernelzoo.testing``, registers it once."""
    info = tmp_path / "announced-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nkernelzoo.testing = kernelzoo.testing\n")
    options = ("-p", "kernelzoo.testing") if named else ()
    command = ("pytest", "-c", os.devnull, *options, "--kernelzoo-require", "torch", "--help")
    status, out, err = commands.run(tmp_path, command)
    assert status == 0, err
    assert out.count("--kernelzoo-require=BACKENDS") == 1


@pytest.mark.nightly
def test_the_notebook_runs(tmp_path: Path) -> None:
    """Its code, cell after cell in one process; it was saved with what it prints."""
    pytest.importorskip("matplotlib", reason="matplotlib, which draws the notebook's figure, is not installed")
    cells = json.loads((EXAMPLES / "first_kernel.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [line for cell in cells if cell["cell_type"] == "code" for line in [*cell["source"], "\n\n"]]
    for name in ("my_kernel.py", "my_triton_kernel.py"):
        (tmp_path / name).symlink_to(EXAMPLES / name)
    program = "".join(line for line in code if not line.startswith("%"))
    assert SHAPES in program
    program = program.replace(SHAPES, "256x128,256x4096")  # which show what all of them do
    status, out, err = commands.run(tmp_path, ["-c", program], gpu=torch.cuda.is_available())
    assert status == 0, out + err
    assert re.search(r"mine/softmax/base_two: \d+ passed, 0 refused, 0 findings", out)
    assert "elements wrong; first at" in out and "got nan" in out  # of the first try
    shown = [output for cell in cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in shown)
    saved = [line for output in shown for line in output.get("text", ()) if " passed, " in line]
    assert saved and commands.missing(saved, out) == []
