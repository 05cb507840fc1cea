"""``kernelzoo inspect``: a kernel's facts and code, without a GPU."""

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelzoo import inspect as engine
from kernelzoo import operations
from kernelzoo.cli.inspection import print_text
from kernelzoo.errors import BackendUnavailableError

pytestmark = pytest.mark.xdist_group("inspect")


@pytest.fixture(scope="module", autouse=True)
def _compiled_once() -> Iterator[None]:
    """The first command that asks for a kernel has it compiled; what others show of it is the same."""
    ask, answers = engine.ask_child, {}
    run = engine.find_registered_ids
    registered = functools.cache(lambda *modules: run(modules))

    def asked(requests: list[engine.Request], modules: Sequence[str] = ()) -> Any:
        if (key := (*requests, *modules)) not in answers:
            answers[key] = ask(requests, modules)
        return answers[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "ask_child", asked)
        patch.setattr(engine, "find_registered_ids", lambda modules: registered(*modules))
        yield
    operations.declared.pop("added", None)


def test_a_kernel_of_the_host(kernelzoo, answer) -> None:
    pytest.importorskip("numba", reason="the cpu backend needs Numba")
    options = ("inspect", "cpu/min/auto", "--shape", "64x64")
    status, told = answer(*options)
    assert status == 0 and told["limit"] is None  # no data sheet is known of this host
    kernel = told["kernels"][0]
    assert kernel["implementation"].startswith("cpu/min/") and "def " in kernel["source"]
    assert kernel["source_file"].startswith("kernelzoo/kernels/cpu/min/")
    done = kernelzoo(*options)
    assert done.returncode == 0
    assert kernel["name"] in done.stdout and kernel["source_file"] in done.stdout
    done = kernelzoo(*options, "--source", "--ptx")
    assert done.returncode == 0
    assert done.stdout.strip() == "\n".join(k["source"] for k in told["kernels"]).strip()  # as it is, for a pipe
    assert f"no ptx of {kernel['name']}" in done.stderr


def test_source_alone_reads_the_files_of_a_form(kernelzoo, answer, monkeypatch) -> None:
    """Whether or not the language is installed; which form a chooser takes is asked of it, if it is there."""

    def absent(requests: list[engine.Request], modules: Sequence[str] = ()) -> Any:
        raise BackendUnavailableError(requests[0].backend, "it is not installed", "install it")

    monkeypatch.setattr(engine, "ask_child", absent)
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


MODULE = """
import cupy
import kernelzoo
import torch
import triton
import triton.language as tl
from numba import cuda


@kernelzoo.operation(dtypes=("float32",))
class added:
    a, b = kernelzoo.Input("M N"), kernelzoo.Input("M K")
    out = kernelzoo.Output("M N")

    def reference(a, b):
        return a + b.sum(1, keepdim=True)


@triton.jit
def in_triton(a, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(a + i, i < n), i < n)


@cuda.jit
def in_numba(a, out):
    i = cuda.grid(1)
    if i < a.shape[0]:
        out[i, 0] = a[i, 0]


in_c = cupy.RawKernel('extern "C" __global__ void in_c(float* a) { a[threadIdx.y] = SIZE; }', "in_c", ("-DSIZE=3",))


@kernelzoo.register("mine", "added", "all")
def all(a, b, out):
    def launch():
        stream = torch.cuda.current_stream(a.device)
        with cupy.cuda.Stream.from_external(stream) if stream.cuda_stream else cupy.cuda.Stream.null:
            in_c((2, 3), (16, 4), (a.data_ptr(),), shared_mem=64)
        for _ in range(2):
            in_triton[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a, out, a.numel(), BLOCK=64, num_warps=2)
        in_numba[4, 32, cuda.external_stream(stream.cuda_stream)](cuda.as_cuda_array(a), out)

    return launch


@triton.autotune([triton.Config({"BLOCK": size}) for size in (16, 32)], key=[])
@triton.jit
def in_several(a, out, n, BLOCK: tl.constexpr):
    tl.store(out, n)


@kernelzoo.register("mine", "added", "tuned")
def tuned(a, b, out):
    return lambda: in_several[(1,)](a, out, 3)
"""


def test_kernels_of_ones_own(kernelzoo, answer, tmp_path) -> None:
    for language in ("triton", "cupy", "numba.cuda"):
        pytest.importorskip(language, reason="the module is written in three languages")
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    axes = ("--axes", "M=100,N=300,K=2")
    status, told = answer("inspect", "mine/added/all", "--module", path, *axes)
    assert status == 0, told
    assert told["limit"]["bytes"] == 4 * (100 * 300 * 2 + 100 * 2)
    facts = ("name", "grid", "block", "shared_bytes", "launches", "constants")
    assert [tuple(kernel[fact] for fact in facts) for kernel in told["kernels"]] == [
        ("in_c", [2, 3, 1], [16, 4, 1], 64, 1, {"SIZE": "3"}),
        ("in_triton", [469, 1, 1], [64, 1, 1], 0, 2, {"BLOCK": 64, "num_warps": 2}),
        ("in_numba", [4, 1, 1], [32, 1, 1], 0, 1, {}),
    ]
    for kernel in told["kernels"]:
        assert kernel["source_file"].startswith(f"{path}:") and kernel["name"] in kernel["source"]
        assert ".target sm_90" in kernel["ptx"] and kernel["registers"] > 0 and kernel["occupancy"]["blocks"] > 0
    done = kernelzoo("inspect", "mine/added/all", "--module", path, "--source")
    assert done.returncode == 0 and done.stdout == f"{MODULE}\n"
    for options, why in (
        (("mine/added/tuned", *axes), "in_several is tuned by triton.autotune, which tries 2 configs on a GPU"),
        (("mine/added/none", *axes), "no implementation 'mine/added/none'"),
        (("mine/added/all",), "added takes --axes, such as M=1024,N=1024,K=1024"),
    ):
        done = kernelzoo("inspect", options[0], "--module", path, *options[1:])
        assert done.returncode == 2 and f"error: {why}" in done.stderr


def test_what_has_no_kernels_says_so(kernelzoo) -> None:
    done = kernelzoo("inspect", "torch/softmax/eager")
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_the_limit_is_predicted(kernelzoo, answer, tmp_path) -> None:
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

    from kernelzoo.cli.inspection import _shortest_possible_time
    from kernelzoo.measure import Problem

    sheet = _shortest_possible_time(Problem("softmax", (4096, 4096), "float32"), "sm_90", None)
    assert sheet is not None and sheet["us"] == pytest.approx(2 * 4096 * 4096 * 4 / 4.8e12 * 1e6)


def results_file(path: Path, extra: dict[str, float]) -> Path:
    """A results file of one row, measured here, with other facts."""
    from kernelzoo import implementation, measure
    from kernelzoo.measure import record

    problem = measure.Problem("min", (8, 8), "float32")
    raced = measure.race(problem, [implementation("torch/min/eager")], torch.device("cpu"), rounds=1, cache="hot")
    (entry,) = [record.make_benchmark_entry(measured, "cpu", None, "test") for measured in raced.values()]
    entry["extra_info"].update(extra)
    record.Record(path, "cpu").add([entry], [])
    return path


def test_code_on_a_terminal_is_whole(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    code = f"x = {' + '.join('1' * 40)}\n"
    print_text(code, "python")
    said = capsys.readouterr().out
    assert "\x1b[" in said and re.sub(r"\x1b\[[0-9;]*m", "", said) == code
