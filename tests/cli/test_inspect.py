"""``kernelzoo inspect``: a kernel's facts and code, without a GPU."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelzoo import inspect as engine
from kernelzoo.errors import BackendUnavailableError

pytestmark = pytest.mark.xdist_group("inspect")


@pytest.fixture(scope="module", autouse=True)
def _compiled_once() -> Iterator[None]:
    """The first command that asks for a kernel has it compiled; what others show of it is the same."""
    ask, answers = engine.ask, {}

    def asked(requests: list[engine.Request]) -> Any:
        if (key := tuple(requests)) not in answers:
            answers[key] = ask(requests)
        return answers[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "ask", asked)
        yield


def test_a_kernel_of_the_host(kernelzoo: Callable[..., Any], answer: Callable[..., tuple[int, Any]]) -> None:
    pytest.importorskip("numba", reason="the cpu backend needs Numba")
    options = ("inspect", "cpu/min/auto", "--shape", "64x64")
    status, told = answer(*options)
    assert status == 0 and told["limit"] is None  # no data sheet is known of this host
    kernel = told["kernels"][0]
    assert kernel["implementation"].startswith("cpu/min/") and "def " in kernel["source"]
    done = kernelzoo(*options)
    assert done.returncode == 0
    assert kernel["name"] in done.stdout and kernel["source_file"] in done.stdout
    done = kernelzoo(*options, "--source", "--ptx")
    assert done.returncode == 0
    assert done.stdout.strip() == "\n".join(k["source"] for k in told["kernels"]).strip()  # as it is, for a pipe
    assert f"no ptx of {kernel['name']}" in done.stderr


def test_source_alone_reads_the_files_of_a_form(
    kernelzoo: Callable[..., Any], answer: Callable[..., tuple[int, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not the language is installed; which form a chooser takes is asked of it, if it is there."""

    def absent(requests: list[engine.Request]) -> Any:
        raise BackendUnavailableError(requests[0].backend, "it is not installed", "install it")

    monkeypatch.setattr(engine, "ask", absent)
    folder = Path(engine.__file__).parent / "kernels"
    for id, files in (
        ("triton/softmax/fused", ("triton/softmax/fused.py",)),
        ("cupy/min/columns", ("cupy/min/columns.py", "cupy/min/columns.cu")),
        ("numba/softmax/fused", ("numba/softmax/fused.py",)),
    ):
        done = kernelzoo("inspect", id, "--source")
        assert done.returncode == 0
        assert done.stdout == "".join(f"{(folder / file).read_text()}\n" for file in files)
        assert done.stderr == "".join(f"{folder / file}:\n" for file in files)
        status, told = answer("inspect", id, "--source")
        assert status == 0 and [file["path"] for file in told["files"]] == [str(folder / file) for file in files]
    done = kernelzoo("inspect", "triton/softmax/auto", "--source")
    assert done.returncode == 0 and "it is not installed" in done.stderr and "def auto" in done.stdout


def test_what_has_no_kernels_says_so(kernelzoo: Callable[..., Any]) -> None:
    done = kernelzoo("inspect", "torch/softmax/eager")
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_the_limit_is_predicted(
    kernelzoo: Callable[..., Any], answer: Callable[..., tuple[int, Any]], tmp_path: Path
) -> None:
    """By a data sheet, or by what was measured: floor + bytes / ceiling."""
    pytest.importorskip("numba", reason="the cpu backend needs Numba")
    command = ("inspect", "cpu/min/auto", "--shape", "64x64")
    extra = {"ceiling_gb_per_s": 4000.0, "floor_us": 1.0}
    path = results_file(tmp_path / "results.json", extra)
    status, told = answer(*command, "--results", path)
    assert status == 0
    assert told["limit"]["bytes"] == (64 * 64 + 64) * 4
    assert told["limit"]["us"] == pytest.approx(1.0 + (64 * 64 + 64) * 4 / 4000e9 * 1e6)
    assert "at the 4000 GB/s measured on" in kernelzoo(*command, "--results", path).stdout
    done = kernelzoo(*command, "--results", results_file(path, {}))
    assert done.returncode == 2 and "holds no ceiling for min" in done.stderr

    from kernelzoo.cli.inspection import _limit

    sheet = _limit("softmax", (4096, 4096), "float32", -1, "sm_90", None)
    assert sheet is not None and sheet.us == pytest.approx(2 * 4096 * 4096 * 4 / 4.8e12 * 1e6)


def results_file(path: Path, extra: dict[str, float]) -> Path:
    """A results file of one row, measured here, with other facts."""
    from kernelzoo import implementation, measure
    from kernelzoo.measure import record

    problem = measure.Problem("min", (8, 8), "float32")
    raced = measure.race(problem, [implementation("torch/min/eager")], torch.device("cpu"), rounds=1, cache="hot")
    (entry,) = [record.entry(measured, "cpu", None, "test") for measured in raced.values()]
    entry["extra_info"].update(extra)
    record.Record(path, "cpu").add([entry], [])
    return path
