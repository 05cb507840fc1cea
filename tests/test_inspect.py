"""What every language's inspection shares: the occupancy rule, the process of its own, errors that come back whole."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import warm

from kernelzoo import errors, inspect, packages, registry
from kernelzoo.device import ARCHITECTURES, Occupancy, current, occupancy, of, plan_launches_for_device
from kernelzoo.errors import InspectionError, UnknownNameError, UnsupportedProblemError
from kernelzoo.inspect import Kernel, Request

pytestmark = pytest.mark.slow

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
def test_occupancy(arch, registers, threads, shared, blocks, limited_by) -> None:
    architecture = ARCHITECTURES[arch]
    assert architecture.arch == arch and architecture.shared_per_block <= architecture.shared_bytes
    found = occupancy(architecture, registers, threads, shared)
    assert found == Occupancy(blocks, blocks * threads / architecture.threads, limited_by)


def request(op: str = "softmax", variant: str = "auto", backend: str = "made_up") -> Request:
    return Request(backend, op, variant, (4, 8), "float32", -1, "sm_90")


@pytest.fixture(autouse=True)
def warm_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that compiles begins as a fork of one that has imported torch."""
    if not request.config.getoption("--cold"):
        monkeypatch.setattr(inspect, "subprocess", warm.forking(warm.INSPECTING))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a backend's package, announced in the process that compiles too; a test writes its modules."""
    folder = tmp_path / "made_up"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "inspection.py").write_text(INSPECTION)
    information = tmp_path / "made_up-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: made_up\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[kernelzoo.backends]\nmade_up = made_up\n")
    monkeypatch.syspath_prepend(tmp_path)
    warm.found_at(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_up"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    caches = packages.entry_point_backends, packages.backend_packages, packages._parse_package
    for cached in caches:
        cached.cache_clear()
    yield folder
    for cached in caches:
        cached.cache_clear()


INSPECTION = """
from contextlib import nullcontext

def refusal(variant, arch):
    return "is for nobody" if arch == "sm_75" else ""

def target(device):
    return nullcontext()
"""

MIN = """
import os
from kernelzoo.device import current
from kernelzoo.launch import Compiled, LaunchStep, recording
from kernelzoo.registry import chooser, register

def compiled():
    print("{", flush=True)
    os.system("echo {")
    import torch
    constants = {"A": -0.5, "B": True, "C": "float", "D": 1}
    constants |= {"E": float("-inf"), "F": torch.float32, "G": torch.tensor(2.5)}
    found = {"registers": 32, "shared_bytes": 8, "assembly": "code"}
    return Compiled("k<1>", "made up", "text", __file__, 3, constants, "k", **found)

@chooser("made_up", "min", "auto")
def auto(x, out):
    return "simple" if x.size(1) < 100 else "long"

@register("made_up", "min", "simple")
def simple(x, out):
    recording = __import__("kernelzoo.launch").launch.recording.get()
    step = LaunchStep("k", (current().multiprocessors,), 64, 16, 2, True, build=compiled)
    return recording.make_launch(step, step)

@register("made_up", "min", "long")
def long(x, out):
    from kernelzoo.errors import UnsupportedProblemError
    raise UnsupportedProblemError("made_up/min/long", "it is too long")

@register("made_up", "min", "broken")
def broken(x, out):
    raise ZeroDivisionError("the compiler's own")
"""


def test_kernels_come_back_as_they_are(package: Path) -> None:
    """What a language's compiler prints is no answer; equal steps are one kernel, launched twice."""
    (package / "min.py").write_text(MIN)
    ((kernel,),) = inspect.ask_child([request("min")])
    device = ARCHITECTURES["sm_90"]
    assert kernel == Kernel(
        "k<1>", "made up", "made_up/min/simple", "sm_90", str(device), "text", kernel.source_file, None, "code",
        registers=32, local_bytes=0, shared_bytes=24, grid=(132, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1),
        cooperative=True, launches=2, occupancy=occupancy(device, 32, 64, 24),
        constants={"A": -0.5, "B": True, "C": "float", "D": 1, "E": "-inf", "F": "torch.float32", "G": 2.5},
    )  # fmt: skip
    assert kernel.source_file == f"{package / 'min.py'}:3"
    assert json.loads(json.dumps(asdict(kernel)))["grid"] == [132, 1, 1]


def test_errors_come_back_whole(package: Path) -> None:
    (package / "min.py").write_text(MIN)
    refusal, failure = inspect.ask_child([replace(request("min"), shape=(4, 200)), request("min", "broken")])
    assert isinstance(refusal, UnsupportedProblemError)
    assert refusal.implementation == "made_up/min/long" and refusal.reason == "it is too long"
    assert str(refusal) == str(UnsupportedProblemError("made_up/min/long", "it is too long"))
    assert isinstance(failure, InspectionError)
    assert str(failure) == "made_up/min/broken fails for sm_90: ZeroDivisionError: the compiler's own"
    assert "in broken" in failure.__notes__[0]
    (refused,) = inspect.ask_child([replace(request("min"), arch="sm_75")])
    assert isinstance(refused, InspectionError) and str(refused) == "made_up/min/auto is for nobody"


def test_a_process_that_dies_is_an_error(package: Path) -> None:
    (package / "min.py").write_text(MIN)
    (package / "inspection.py").write_text("import a_language_that_is_not_installed")
    with pytest.raises(errors.BackendUnavailableError, match="No module named 'a_language_that_is_not_installed'; see"):
        inspect.ask_child([request("min")])
    (package / "inspection.py").write_text("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(InspectionError, match="made_up/min/auto can't be inspected here: exit status -9"):
        inspect.ask_child([request("min")])


def test_a_backend_without_inspection_is_followed(package: Path) -> None:
    (package / "inspection.py").unlink()
    (package / "min.py").write_text(FOLLOWED)
    kernels, host, empty, none = inspect.ask_child(
        [request("min", name) for name in ("plain", "host", "empty", "none")]
    )
    assert isinstance(kernels, tuple) and [kernel.name for kernel in kernels] == ["aten.amin.out"]
    assert isinstance(host, InspectionError) and isinstance(empty, InspectionError)
    line = FOLLOWED[: FOLLOWED.index(".numpy()")].count("\n") + 1
    assert f"min.py, line {line}): TypeError: can't convert meta device type tensor to numpy" in str(host)
    assert str(empty) == "made_up/min/empty launches nothing that can be followed: it may call a library"
    assert isinstance(none, UnknownNameError)


FOLLOWED = """
import torch
from kernelzoo.registry import register

@register("made_up", "min", "plain")
def plain(x, out):
    assert x.is_cuda and x.device == out.device == torch.device("cuda", 0) and x[1:].data_ptr() == x.data_ptr() + 32
    work = torch.zeros(3, device=x.device)
    assert work.is_cuda and out.data_ptr() % 256 == 0 and out.data_ptr() != work.data_ptr()
    assert torch.cuda.get_device_properties(x.device).multi_processor_count == 132

    def launch():
        with torch.cuda.stream(torch.cuda.current_stream(x.device)):
            torch.amin(x, 1, out=out)
    return launch

@register("made_up", "min", "host")
def host(x, out):
    return lambda: x[:, 0].numpy()

@register("made_up", "min", "empty")
def empty(x, out):
    return lambda: None
"""


def test_what_this_process_alone_registers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    registry.register("mine", "min", "here")(lambda x, out: lambda: None)
    with pytest.raises(InspectionError, match=r"registered in this process alone.*--module"):
        inspect.inspect("mine/min/here", (4, 8), "float32")


MODULE = """
import kernelzoo

@kernelzoo.operation(dtypes=("float32",))
class matmul:
    a, b, out = kernelzoo.Input("M K"), kernelzoo.Input("K N"), kernelzoo.Output("M N")
    def reference(a, b):
        return a @ b

@kernelzoo.register("mine", "matmul", "torch")
def plain(a, b, out):
    import torch
    return lambda: torch.mm(a, b, out=out)
"""


def test_sizes_and_modules(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    given = ("mine/matmul/torch", (3, 4), "float32")
    (kernel,) = inspect.inspect(*given, modules=[path], sizes={"N": 5})
    assert kernel.name == "aten.mm.out" and kernel.implementation == "mine/matmul/torch"
    with pytest.raises(errors.ShapeError, match=r"a shape \(M, K\) and a size of N; got \(3, 4\) and no sizes"):
        inspect.inspect(*given, modules=[path])
    path.write_text("x = 1\nx.nothing\n")
    with pytest.raises(errors.RegistrationError, match=r"module.py, line 2: AttributeError"):
        inspect.inspect(*given, modules=[path], sizes={"N": 5})


def test_a_file_of_the_current_folder_is_not_imported(package, tmp_path, monkeypatch) -> None:
    (package / "min.py").write_text(MIN)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(inspect, "subprocess", subprocess)  # a fork has imported Python's own
    ((kernel,),) = inspect.ask_child([request("min")])
    assert kernel.name == "k<1>"


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("torch/softmax/none", (4, 4), "float32"), UnknownNameError, "did you mean 'torch/softmax/naive'"),
        (("torch/softmax/eager", (4, 4), "float32", -1, "sm_1"), UnknownNameError, "'sm_1'; did you mean 'sm_120'"),
        (("torch/softmax/eager", (4, 4), "int8"), errors.InputTypeError, "softmax takes float16"),
        (("torch/softmax/eager", (4, 4), "float33"), errors.InputTypeError, "softmax takes float16"),
        (("torch/softmax/eager", (4, 4), "float32"), InspectionError, "kernels of torch's own libraries"),
        (("torch/min/compile", (4, 4), "float32"), InspectionError, "TORCH_LOGS=output_code"),
    ],
)
def test_what_can_not_be_shown(arguments: tuple, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        inspect.inspect(*arguments)


@pytest.mark.parametrize(
    ("shape", "dim", "error"),
    [((4, 8), 2, errors.AxisError), ((4, 0), -1, errors.EmptyReductionError), ((0, 4), -1, InspectionError)],
)
def test_a_problem_is_checked_as_a_call_does(package, shape, dim, error) -> None:
    (package / "min.py").write_text(MIN)
    (answer,) = inspect.ask_child([Request("made_up", "min", "simple", shape, "float32", dim, "sm_90")])
    assert isinstance(answer, error)


def test_binds_are_for_the_assumed_device() -> None:
    with plan_launches_for_device(ARCHITECTURES["sm_120"]):
        assert current().multiprocessors == of(torch.empty(3, device="meta")).multiprocessors == 170
        with plan_launches_for_device(ARCHITECTURES["gfx942"]):
            assert current().vendor == "hip" and current().warp_size == 64
        assert current().capability == 120 and current().cluster_blocks == 8 and current().is_simulated
