"""CuTe's kernels, compiled without a device for each architecture at the tiles that the bind functions choose."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("cutlass.cute", reason="the cute backend needs the package nvidia-cutlass-dsl")
from ahead import ARCHITECTURES as NAMES
from ahead import FLOATS, LOAD, MIN, OPERATIONS, SOFTMAX, STORE, Ahead, forms, name, occurrences
from compiled_steps import Binds, Program

import kernelzoo
import kernelzoo.kernels.cute as backend
from kernelzoo import operations, registry
from kernelzoo.device import ARCHITECTURES, plan_launches_for_device
from kernelzoo.errors import GridTooLargeError, UnsupportedProblemError
from kernelzoo.inspect import inspect as inspected
from kernelzoo.kernels.cute import compiler, launch
from kernelzoo.kernels.cute.tiles import make_problem
from kernelzoo.kernels.shared import cubin
from kernelzoo.launch import record_binds

if backend.stand_in is not None:
    pytest.skip("something else takes a device's place in this process", allow_module_level=True)


BINDS = Binds("cute")
bind, bound, programs = BINDS.bind, BINDS.bound, BINDS.programs
FORMS = forms("cute")


class TestCute(Ahead):
    backend, programs = "cute", staticmethod(programs)
    compiler, makes = compiler, "to_code"
    forms = FORMS
    vectors = (((4096, 4096), 1, None), ((1 << 18, 64), 1, None), ((256, 4096), 0, None))
    first_statement, least_kernels = " = dev.block_index(EARLY)", 8
    arrival, read_after = "atom.global.acq_rel.add.u32", r"bar\.sync.*ld\.global"  # of the device, unless it says
    too_long = 32772

    @staticmethod
    def leaves_out(form: str, shape: tuple[int, ...], axis: int) -> bool:
        return axis == 0 and form == "rows"  # which reads rows one by one

    @classmethod
    def kernels(cls) -> Iterator[Any]:
        yield from {inspect.unwrap(f) for _, key, f in cls.functions() if key.endswith("_kernel") and callable(f)}

    @staticmethod
    def keeps_nan(program: Any, dtype: Any) -> None:
        assert dtype != torch.float64 or not occurrences(r"\bmin\.f64", program)
        Ahead.keeps_nan(program, dtype)


def taken(op: operations.Operation, form: str, arch: str) -> Iterator[Program]:
    """The programs of a form for some problems."""
    for _, made in TestCute().taken(op, form, arch, torch.bfloat16, Ahead.waiting):
        yield from made


@pytest.mark.sampled(3, "op", "form")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=name)
def test_machine_code_moves_16_bytes_at_a_time(op: operations.Operation, form: str, dtype: Any) -> None:
    for _, made in TestCute().taken(op, form, "sm_90", dtype, Ahead.waiting):
        codes = [cubin.disassembly(program.compiled.binary) for program in made]
        if codes[0][1] is not None:
            pytest.skip(codes[0][1])
        texts = [code[program.compiled.symbol] for program, (code, _) in zip(made, codes, strict=True)]
        assert all(re.search(r"\bLDG\.E\.128\b", text) for text in texts), made
        assert op is MIN or re.search(r"\bSTG\.E\.128\b", texts[-1]), str(made[-1])


@pytest.mark.sampled(4, "op", "form")
@pytest.mark.parametrize("arch", NAMES)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=name)
def test_a_compiled_kernel_is_what_a_launch_takes_it_for(op: operations.Operation, form: str, arch: str) -> None:
    """Its threads and its parameters: addresses, three numbers of rows, three strides of each tensor, integers."""
    for program in taken(op, form, arch):
        head, _, rest = program.ptx.partition(".reqntid ")
        assert rest.startswith(f"{program.step.threads}, 1, 1")
        pointers = [known for known in program.step.constants if isinstance(known, compiler.PointerProperties)]
        tensors = {"softmax": 2, "min": 2, "softmax_backward": 3, "min_backward": 4}[op.name]
        expected = [".u64"] * len(pointers) + [".u32"] * 3 + [".u64"] * 3 * tensors
        assert re.findall(r"\.param (\.\w+)", head) == expected + [".u32"] * len(program.step.arguments)


def test_parameters_stand_where_the_kernel_reads_them() -> None:
    """The addresses of the canonical tensors come first, where a launch on other addresses writes them."""
    x, out, room = torch.empty(6, 8, 5), torch.empty(6, 5), torch.empty(4)
    given = make_problem(x, out)
    made = launch.parameter_words((x, out), (room,), given, (3, 7))
    addresses = x.data_ptr(), out.data_ptr(), room.data_ptr()
    assert made == (*addresses, 8, 30, 5, 40, 5, 1, 5, 0, 1, 3, 7)


def test_blocks_of_a_cluster_meet_at_a_barrier_that_counts_bytes() -> None:
    """Begun, with barriers open, before any writes into another one; pairs of all blocks before any is read."""
    for dtype, parts, bytes in ((torch.float32, "v2", 8), (torch.float64, "v4", 16)):
        (program,) = programs(SOFTMAX, "split_cluster", (64, 32768), 1, dtype, "sm_90")
        blocks = program.step.cluster
        places = [
            program.ptx.index(word)
            for word in (
                "fence.mbarrier_init.release.cluster",
                "barrier.cluster.arrive",
                "barrier.cluster.wait",
                f"st.async.shared::cluster.mbarrier::complete_tx::bytes.{parts}.b32",
                "mbarrier.try_wait",
            )
        ]
        assert blocks > 1 and places == sorted(places)
        assert re.search(rf"mov\.b32 \s*%r\d+, {blocks * bytes};\s*mbarrier\.arrive\.expect_tx", program.ptx)


def test_offsets_have_64_bits_and_long_rows_are_counted_so() -> None:
    """Of a row an offset is always a product of 64 bits; a row past 2^30 elements is counted in as many."""
    for shape, numbers in (((1 << 19, 4096), ".u32"), ((2, (1 << 30) + 4), ".u64")):
        for form in ("online", "split_two_launches"):
            for program in programs(SOFTMAX, form, shape, 1, torch.bfloat16, "sm_90"):
                kinds = re.findall(r"\.param (\.\w+)", program.ptx.partition(".reqntid")[0])
                assert kinds[-9 - len(program.step.arguments) :][:3] == [numbers] * 3
                assert occurrences(r"ma?(?:d\.lo|ul\.lo)\.s64", program)
    expanded = torch.empty(1, dtype=torch.int8, device="meta").expand(2, (1 << 32) + 1)
    for form in ("rows_deferred", "split"):
        (program,) = bound(MIN, form, expanded, 1, "sm_90")
        assert occurrences(r"setp\.\w+\.[su]64", program)


def test_a_launch_has_no_more_blocks_than_a_grid() -> None:
    """Beyond that a form refuses, and a chooser takes halves."""
    x = torch.empty(1, dtype=torch.float16, device="meta").expand(1 << 31, 20000).unsqueeze(2)
    with plan_launches_for_device(ARCHITECTURES["sm_90"]), record_binds() as steps:
        with pytest.raises(GridTooLargeError, match="2147483647"):
            registry._registered["cute", "softmax", "fused"](x, x)
        registry._registered["cute", "softmax", "auto"](x, x)
        assert len(steps) >= 2 and all(step.grid[0] < 1 << 31 for step in steps)


def test_compiling_leaves_nothing_behind(tmp_path: Path) -> None:
    """No file where the process runs, nor in the folder of temporary files."""
    code = """
import torch, kernelzoo
from kernelzoo.device import ARCHITECTURES, plan_launches_for_device
from kernelzoo.inspect import inspect
print(inspect("cute/softmax/fused", (64, 64), "fp32", arch="sm_90")[0].registers)
"""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir(), temporary.mkdir()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(temporary), "USER": "somebody"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    said = subprocess.check_output([sys.executable, "-c", code], cwd=here, env=environment, text=True)
    assert int(said) > 8
    assert not [path for folder in (here, temporary) for path in folder.rglob("*") if path.is_file()]


def test_rows_for_no_cluster_are_refused() -> None:
    with pytest.raises(UnsupportedProblemError, match="rows of 2048 to 524288"):
        programs(SOFTMAX, "split_cluster", (4, 524292), 1, torch.float32, "sm_90")
    with pytest.raises(UnsupportedProblemError, match="sm_90 or later"):
        programs(SOFTMAX, "split_cluster", (4, 32768), 1, torch.float32, "sm_80")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n", [32768, 50257, 100000, 128256, 200000, 262144])
def test_several_blocks_of_clusters_fit_on_a_multiprocessor(n: int, dtype: Any) -> None:
    """Some read while others wait for each other."""
    (program,) = programs(SOFTMAX, "split_cluster", (512, n), 1, dtype, "sm_90")
    threads, registers = program.step.threads, -(-program.compiled.registers // 8) * 8
    assert threads == (256 if n in (50257, 200000, 262144) else 128) and not program.spilled
    assert ARCHITECTURES["sm_90"].registers // (threads * registers) >= 512 // threads


def test_a_kernel_is_shown() -> None:
    (shown,) = inspected("cute/softmax/auto", (512, 50000), "fp32", arch="sm_90")
    assert shown.implementation == "cute/softmax/split_cluster" and shown.language == "CuTe"
    assert shown.ptx is not None and "cluster_kernel" in shown.ptx
    assert shown.grid == (512 * 16, 1, 1) and shown.block == (128, 1, 1) and shown.cluster == (16, 1, 1)
    assert shown.constants["vector"] == 4 and shown.registers and not shown.local_bytes
    assert (shown.sass is None) == (shown.sass_missing is not None)


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "version", lambda name: "4.5.2")
    assert "4.5.2 is older than 4.8" in compiler.missing_requirement()
    with pytest.raises(kernelzoo.BackendUnavailableError, match=r"4\.5\.2 is older than 4\.8"):
        backend.probe()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_chooser_names_a_form_for_every_layout(dtype: Any) -> None:
    """Of the forms' own refusals none is met by what auto chooses, whatever the strides."""
    shapes = (((1, 1), 1), ((5, 1), 0), ((3, 70000), 1), ((70000, 3), 0), ((3, 1, 2), 1), ((2, 4000, 9), 1))
    for op in OPERATIONS:
        for shape, axis in shapes:
            for step in (1, 2):
                x = torch.empty(shape, dtype=dtype, device="meta")[..., ::step]
                assert bound(op, "auto", x, axis, "sm_80")
    assert bind(SOFTMAX, "auto")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_that_start_anywhere_are_read_by_whole_vectors_inside(dtype: Any) -> None:
    for op, form, shape in (
        (SOFTMAX, "fused", (1823, 781)),
        (SOFTMAX, "split_cluster", (64, 5003)),
        (SOFTMAX, "online", (777, 50257)),
        (MIN, "rows_deferred", (777, 50257)),
        (MIN, "split", (16, 262145)),
    ):
        for program in programs(op, form, shape, 1, dtype, "sm_90"):
            assert program.compiled.constants["vector"] == 16 // dtype.itemsize
            assert occurrences(LOAD, program) and (op is MIN or occurrences(STORE, program)), str(program)
            assert not program.spilled
    stepped = torch.empty(64, 2 * 781 + 1, dtype=dtype, device="meta")[:, 1:782]
    (program,) = bound(SOFTMAX, "fused", stepped, 1, "sm_90")  # past a vector by itself, where the result is not
    assert program.compiled.constants["vector"] == 1


READ = {"rms_norm": 2, "quantize_rows": 1}
READ |= dict.fromkeys(("add_rms_norm", "layer_norm", "rms_norm_backward", "layer_norm_backward"), 3)
"""Tensors that the first kernel of an operation reads."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", READ)
def test_a_row_that_a_block_holds_is_read_once(name: str, dtype: Any) -> None:
    program, *_ = programs(operations.OPERATIONS[name], "rows", (2048, 16384), 1, dtype, "sm_90")
    assert occurrences(LOAD, program) == READ[name] * program.compiled.constants["each"]
    assert occurrences(r"ld\.global", program) == occurrences(LOAD, program) and not program.spilled


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["sum", "argmin", "logsumexp", "cross_entropy", "cumsum"])
def test_parts_of_long_rows_are_read_by_vectors(name: str, dtype: Any) -> None:
    for program in programs(operations.OPERATIONS[name], "auto", (32, 256000), 1, dtype, "sm_90"):
        assert occurrences(LOAD, program) and not program.spilled, str(program)
        assert program.step.grid[0] >= ARCHITECTURES["sm_90"].multiprocessors


@pytest.mark.parametrize("op", ["sum", "logsumexp", "cross_entropy"])
def test_no_vector_of_shared_memory_has_another_s_elements(op: str) -> None:
    """The assembler reads arrays by 16 bytes where it knows their place."""
    for program in programs(operations.OPERATIONS[op], "split", (3, 65536), 1, torch.float32, "sm_90"):
        arrays = re.findall(r"\.shared \.align (\d+) \.\w+ [\w$]+\[", program.ptx)
        assert arrays and all(int(align) >= 16 for align in arrays)
