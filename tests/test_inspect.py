"""What every language's inspection shares: the occupancy rule, the process of its own, errors that come back whole."""

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from kernelzoo import inspect, registry
from kernelzoo.errors import (
    AxisError,
    BackendUnavailableError,
    EmptyReductionError,
    InputTypeError,
    InspectionError,
    UnknownNameError,
    UnsupportedProblemError,
)
from kernelzoo.inspect import ARCHITECTURES, Kernel, Occupancy, Request, counted, described, occupancy, place, plain

HERE = Path(__file__)


@pytest.mark.parametrize(
    ("arch", "registers", "threads", "shared", "blocks", "limited_by"),
    [
        ("sm_90", 32, 256, 0, 8, ("threads", "registers")),  # 64 warps, of 1024 registers each
        ("sm_90", 33, 256, 0, 6, ("registers",)),  # 40 registers a thread: 12 warps a quarter
        ("sm_90", 128, 512, 0, 1, ("registers",)),
        ("sm_90", 129, 512, 0, 0, ("registers",)),  # 136 a thread: 69632 registers
        ("sm_90", 16, 32, 0, 32, ("blocks",)),
        ("sm_90", 16, 128, 56 * 1024, 4, ("shared memory",)),  # 57 KiB each, of 228
        ("sm_90", 16, 128, 57 * 1024, 3, ("shared memory",)),  # with the system's KiB, a bit too much for four
        ("sm_90", 16, 128, 227 * 1024, 1, ("shared memory",)),
        ("sm_90", 16, 128, 227 * 1024 + 1, 0, ("shared memory",)),
        ("sm_75", 16, 128, 8 * 1024, 8, ("threads", "shared memory")),  # no KiB of the system's, 1024 threads
        ("sm_86", 40, 256, 0, 6, ("threads", "registers")),  # 1536 threads
        ("sm_120", 16, 32, 0, 24, ("blocks",)),
        ("gfx942", 64, 256, 0, 8, ("threads", "registers")),  # eight waves of 64 registers to a SIMD
        ("gfx942", 65, 256, 0, 7, ("registers",)),  # 72: seven
        ("gfx942", 32, 64, 16 * 1024, 4, ("shared memory",)),
    ],
)
def test_occupancy(
    arch: str, registers: int, threads: int, shared: int, blocks: int, limited_by: tuple[str, ...]
) -> None:
    architecture = ARCHITECTURES[arch]
    found = occupancy(architecture, registers, threads, shared)
    assert found == Occupancy(blocks, blocks * threads / architecture.threads, limited_by)


def request(op: str = "softmax", variant: str = "auto", backend: str = "made_up") -> Request:
    return Request(backend, op, variant, (4, 8), "float32", -1, "sm_90")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a backend's package, whose module ``inspection`` a test is to write."""
    folder = tmp_path / "made_up"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made_up", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(registry, "_packages", lambda: {"made_up": "made_up"})
    return folder


IMPORTS = """
import os
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.inspect import Kernel, Occupancy, answer
"""


def test_kernels_come_back_as_they_were(package: Path) -> None:
    kernel = Kernel(
        "k<1>", "made up", "made_up/softmax/x", "sm_90", "a device", sass_missing="no tool", grid=(1, 2, 3),
        block=(32, 1, 1), cluster=(2, 1, 1), occupancy=Occupancy(2, 0.5, ("threads", "blocks")),
        constants={"A": -0.5, "B": True, "C": "float", "D": 1},
    )  # fmt: skip
    (package / "inspection.py").write_text(f"{IMPORTS}\nanswer(lambda request: ({kernel!r},) * request.shape[0])")
    assert inspect.ask([request()]) == [(kernel,) * 4]
    assert json.loads(json.dumps(asdict(kernel)))["grid"] == [1, 2, 3]


def test_what_a_compiler_prints_is_no_answer(package: Path) -> None:
    code = "def kernels(request):\n    print('{', flush=True)\n    os.system('echo {')\n    return ()\nanswer(kernels)"
    (package / "inspection.py").write_text(IMPORTS + code)
    assert inspect.ask([request(), request("min")]) == [(), ()]


def test_errors_come_back_whole(package: Path) -> None:
    code = """
def kernels(request):
    if request.op == "min":
        raise UnsupportedProblemError(request.id, "it is too long")
    raise ZeroDivisionError("the compiler's own")
answer(kernels)
"""
    (package / "inspection.py").write_text(IMPORTS + code)
    refusal, failure = inspect.ask([request("min"), request()])
    assert isinstance(refusal, UnsupportedProblemError)
    assert refusal.implementation == "made_up/min/auto" and refusal.reason == "it is too long"
    assert str(refusal) == str(UnsupportedProblemError("made_up/min/auto", "it is too long"))
    assert isinstance(failure, InspectionError)
    assert str(failure) == "made_up/softmax/auto fails for sm_90: ZeroDivisionError: the compiler's own"
    assert "in kernels" in failure.__notes__[0]


def test_a_process_that_dies_is_an_error(package: Path) -> None:
    (package / "inspection.py").write_text("import a_language_that_is_not_installed")
    with pytest.raises(BackendUnavailableError, match="No module named 'a_language_that_is_not_installed'; install"):
        inspect.ask([request()])
    (package / "inspection.py").write_text("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(InspectionError, match="made_up/softmax/auto can't be inspected here: exit status -9"):
        inspect.ask([request()])


def test_a_backend_without_inspection_says_so(package: Path) -> None:
    with pytest.raises(InspectionError, match="no module 'inspection'"):
        inspect.ask([request()])


def test_a_file_of_the_current_folder_is_not_imported(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "inspection.py").write_text(f"{IMPORTS}\nanswer(lambda request: ())")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(elsewhere)
    assert inspect.ask([request()]) == [()]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("torch/softmax/none", (4, 4), "float32"), UnknownNameError, "torch/softmax/eager"),
        (
            ("torch/softmax/eager", (4, 4), "float32", -1, "sm_1"),
            UnknownNameError,
            "no architecture 'sm_1'; known: gfx",
        ),
        (("torch/softmax/eager", (4, 4), "int8"), InputTypeError, "softmax takes float16"),
        (("torch/softmax/eager", (4, 4), "float33"), InputTypeError, "softmax takes float16"),
        (("torch/softmax/eager", (4, 4), "float32"), InspectionError, "kernels of torch's own libraries"),
        (("torch/min/compile", (4, 4), "float32"), InspectionError, "TORCH_LOGS=output_code"),
    ],
)
def test_what_can_not_be_shown(arguments: tuple, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        inspect.inspect(*arguments)


def test_a_launch_of_torchs_own_is_traced() -> None:
    """The shared half of an inspection, on a backend whose launches are torch's alone."""
    steps: list[Kernel] = []
    assert inspect.launched(request("min", "auto", "torch"), steps) == "torch/min/eager"
    assert [step.name for step in steps] == ["aten.amin.out"]
    assert inspect.launched(request("softmax", "naive", "torch"), steps) == "torch/softmax/naive"
    assert len(steps) == 6


def test_a_variant_from_elsewhere_is_not_known() -> None:
    with pytest.raises(InspectionError, match="torch/softmax/mine is registered outside its backend's package"):
        inspect.launched(request("softmax", "mine", "torch"), [])


@pytest.mark.parametrize(
    ("shape", "dim", "error"),
    [((4, 8), 2, AxisError), ((4, 0), -1, EmptyReductionError), ((0, 4), -1, InspectionError)],
)
def test_a_problem_is_checked_as_a_call_does(shape: tuple[int, ...], dim: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        inspect.launched(Request("torch", "min", "eager", shape, "float32", dim, "sm_90"), [])


def test_torch_speaks_of_the_described_device_and_then_no_more() -> None:
    before = dict(vars(torch.cuda))
    with described(ARCHITECTURES["sm_120"]):
        assert torch.cuda.get_device_properties(0).multi_processor_count == 170
        assert torch.cuda.get_device_capability() == (12, 0)
        torch.cuda.set_device(7)
        assert torch.cuda.current_device() == 0
    assert dict(vars(torch.cuda)) == before


def test_nothing_heavy_is_imported_to_ask() -> None:
    code = "import sys, kernelzoo.inspect; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]


def test_small_parts() -> None:
    assert list(counted(["a", "b", "a", "b", "c"])) == [("a", 2), ("b", 2), ("c", 1)]
    assert place(inspect.__file__, 7) == "kernelzoo/inspect.py:7"
    assert place(HERE.anchor, 1) == f"{HERE.anchor}:1"
    assert [plain(v) for v in (torch.float32, torch.tensor(2.5), True, -math.inf)] == [
        "torch.float32",
        2.5,
        True,
        "-inf",
    ]
    assert all(name == a.name and a.shared_per_block <= a.shared_bytes for name, a in ARCHITECTURES.items())
