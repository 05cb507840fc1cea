"""CuTe's kernels, compiled without a device for each architecture at the tiles that the bind functions choose."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass.cute", reason="the cute backend needs the package nvidia-cutlass-dsl")
import kernelzoo.kernels.cute as backend  # noqa: E402  (after the skips)

if backend.stand_in is not None:
    pytest.skip("something else takes a device's place in this process", allow_module_level=True)
from compiled_steps import Binds, Program  # noqa: E402

import kernelzoo  # noqa: E402
from kernelzoo import operations, registry  # noqa: E402
from kernelzoo.device import ARCHITECTURES, assumed  # noqa: E402
from kernelzoo.errors import GridTooLargeError, UnsupportedProblemError  # noqa: E402
from kernelzoo.inspect import inspect as inspected  # noqa: E402
from kernelzoo.kernels.cute import compiler, launch  # noqa: E402
from kernelzoo.kernels.cute.tiles import held, problem  # noqa: E402
from kernelzoo.kernels.shared import cubin  # noqa: E402
from kernelzoo.launch import recorded  # noqa: E402

BINDS = Binds("cute")
bind, bound, programs = BINDS.bind, BINDS.bound, BINDS.programs
ARCHITECTURES_HERE = ("sm_80", "sm_90", "sm_100", "sm_120")
FORMS = [(operations.OPERATIONS[i.op], i.variant) for i in kernelzoo.implementations("cute") if not i.chooses]
OPERATIONS = tuple({op.name: op for op, _ in FORMS}.values())
SOFTMAX, MIN = operations.OPERATIONS["softmax"], operations.OPERATIONS["min"]
FLOATS = (torch.float32, torch.bfloat16, torch.float64)

# Short rows, middling ones even and odd, the longest on chip, few very long, one giant, other axes.
PROBLEMS = (
    ((1 << 20, 64), 1),
    ((1000003, 33), 1),
    ((4096, 1000), 1),
    ((4096, 4096), 1),
    ((1823, 781), 1),
    ((3001, 5003), 1),
    ((4096, 12672), 1),
    ((512, 32768), 1),
    ((777, 50257), 1),
    ((16, 262144), 1),
    ((1, 1 << 28), 1),
    ((8192, 8192), 0),
    ((512, 4096), 0),
    ((300, 4099), 0),
    ((64, 512, 96), 1),
)
LOAD, STORE = r"ld\.global\S*\.v(?:4\.b32|2\.b64)", r"st\.global\S*\.v(?:4\.b32|2\.b64)"
MACHINE_LOAD, MACHINE_STORE = r"\bLDG\.E\.128\b", r"\bSTG\.E\.128\b"


def occurrences(pattern: str, program: Program) -> int:
    return len(re.findall(pattern, program.ptx))


def taken(op: operations.Operation, form: str, dtype: Any, arch: str) -> list[list[Program]]:
    """The launches of a form for some problems, at least one of which it takes."""
    found = []
    for shape, axis in (((4096, 4096), 1), ((1 << 18, 64), 1), ((256, 4096), 0)):
        if axis == 0 and form == "rows":
            continue  # which reads rows one by one
        try:
            found.append(programs(op, form, shape, axis, dtype, arch))
        except UnsupportedProblemError:
            continue
    return found


def refuses(form: str, arch: str) -> bool:
    return form == "split_cluster" and arch == "sm_80"


@pytest.mark.sampled(24, "op")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "axis"), PROBLEMS, ids=str)
@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_auto_spills_no_register(op: Any, arch: str, shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    made = programs(op, "auto", shape, axis, dtype, arch)
    assert made and not [str(program) for program in made if program.compiled.local_bytes]


@pytest.mark.sampled(12, "op", "form")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_every_form_reads_and_writes_16_bytes_at_a_time(
    op: operations.Operation, form: str, arch: str, dtype: Any
) -> None:
    if refuses(form, arch):
        pytest.skip("sm_80 has no clusters, and the form refuses it")
    launches = taken(op, form, dtype, arch)
    assert launches
    for made in launches:
        assert not [str(program) for program in made if program.compiled.local_bytes]
        assert all(occurrences(LOAD, program) for program in made), list(map(str, made))
        assert op is MIN or occurrences(STORE, made[-1]), str(made[-1])


@pytest.mark.sampled(3, "op", "form")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_machine_code_moves_16_bytes_at_a_time(op: operations.Operation, form: str, dtype: Any) -> None:
    for made in taken(op, form, dtype, "sm_90"):
        for program in made:
            texts, missing = cubin.disassembly(program.compiled.binary)
            if missing is not None:
                pytest.skip(missing)
            code = texts[program.compiled.symbol]
            assert re.search(MACHINE_LOAD, code), str(program)
        assert op is MIN or re.search(MACHINE_STORE, code), str(made[-1])


@pytest.mark.sampled(4, "op", "form")
@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_a_compiled_kernel_is_what_a_launch_takes_it_for(op: operations.Operation, form: str, arch: str) -> None:
    """Its threads and its parameters: addresses, three numbers of rows, three strides of each tensor, integers."""
    if refuses(form, arch):
        pytest.skip("sm_80 has no clusters, and the form refuses it")
    for made in taken(op, form, torch.bfloat16, arch):
        for program in made:
            head, _, rest = program.ptx.partition(".reqntid ")
            assert rest.startswith(f"{program.step.threads}, 1, 1")
            pointers = [known for known in program.step.constants if isinstance(known, compiler.Pointer)]
            tensors = {"softmax": 2, "min": 2, "softmax_backward": 3, "min_backward": 4}[op.name]
            expected = [".u64"] * len(pointers) + [".u32"] * 3 + [".u64"] * 3 * tensors
            assert re.findall(r"\.param (\.\w+)", head) == expected + [".u32"] * len(program.step.arguments)


def test_parameters_stand_where_the_kernel_reads_them() -> None:
    """The addresses of the canonical tensors come first, where a launch on other addresses writes them."""
    x, out, room = torch.empty(6, 8, 5), torch.empty(6, 5), torch.empty(4)
    given = problem(x, out)
    made = launch.parameters((x, out), (room,), given, (3, 7))
    addresses = x.data_ptr(), out.data_ptr(), room.data_ptr()
    assert made == (*addresses, 8, 30, 5, 40, 5, 1, 5, 0, 1, 3, 7)


def test_every_kernel_begins_by_waiting_for_the_launch_before() -> None:
    registry.import_kernels("cute", "kernelzoo.kernels.cute")
    kernels = {
        inspect.unwrap(function)
        for key, module in list(sys.modules.items())
        if key.startswith("kernelzoo.kernels.cute.")
        for name, function in vars(module).items()
        if name.endswith("_kernel") and callable(function)
    }
    assert len(kernels) >= 8
    for kernel in kernels:
        (definition,) = ast.parse(inspect.getsource(kernel)).body
        assert isinstance(definition, ast.FunctionDef)
        first = next(s for s in definition.body if not isinstance(getattr(s, "value", None), ast.Constant))
        assert ast.unparse(first).endswith(" = dev.block_index(EARLY)"), kernel


@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_launches_wait_before_they_touch_memory(op: operations.Operation, form: str) -> None:
    for arch, early in (("sm_90", True), ("sm_80", False)):
        if refuses(form, arch):
            continue
        for program in (program for made in taken(op, form, torch.bfloat16, arch) for program in made):
            code = program.ptx
            assert code.count("griddepcontrol.wait") == early
            if early:
                memory = re.search(r"\b(?:ld|st|red|atom)\.(?:relaxed|acquire|release|weak|volatile|\.)*global", code)
                assert memory is not None and code.index("griddepcontrol.wait") < memory.start()


@pytest.mark.parametrize(("op", "form"), FORMS, ids=lambda value: getattr(value, "name", value))
def test_sums_are_in_a_fixed_order(op: operations.Operation, form: str) -> None:
    """No floating-point number is added to another by an atomic: the same input gives the same bits."""
    for dtype in FLOATS:
        for made in taken(op, form, dtype, "sm_90"):
            assert not any(occurrences(r"\b(?:atom|red)\.\S*add\S*\.b?f\d", program) for program in made)


@pytest.mark.parametrize("arch", ARCHITECTURES_HERE)
def test_last_arriver_is_ordered_by_release_and_acquire(arch: str) -> None:
    for shape, axis in (((16, 262144), 1), ((262144, 64), 0)):
        (program,) = programs(MIN, "split", shape, axis, torch.float32, arch)
        before, arrival, after = program.ptx.partition("atom.global.acq_rel.add.u32")  # of the device, unless it says
        assert arrival
        # The partial result is stored, then all threads meet, then one of them arrives.
        assert re.search(r"st\.global.*bar\.sync", before, re.DOTALL)
        assert re.search(r"bar\.sync.*ld\.global", after, re.DOTALL)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_a_minimum_keeps_nan(dtype: Any) -> None:
    """In float64, for which there is no such instruction, it is asked for."""
    for form, shape, axis in (
        ("rows", (4096, 5003), 1),
        ("rows_deferred", (4096, 40000), 1),
        ("split", (16, 262144), 1),
        ("rows_deferred", (512, 4096), 0),
        ("split", (262144, 64), 0),
    ):
        (program,) = programs(MIN, form, shape, axis, dtype, "sm_90")
        if dtype == torch.float64:
            assert occurrences(r"setp\.nan\.f64", program) and not occurrences(r"\bmin\.f64", program)
            continue
        assert occurrences(r"\bmin\.NaN\.f32", program)
        assert not occurrences(r"\bmin\.(?:ftz\.)?b?f(?:16|32)", program)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int64], ids=str)
def test_a_minimum_of_integers_spills_no_register(dtype: Any) -> None:
    for shape, axis in (((4096, 4096), 1), ((3001, 5003), 1), ((16, 262144), 1), ((8192, 8192), 0)):
        for program in programs(MIN, "auto", shape, axis, dtype, "sm_90"):
            assert not program.compiled.local_bytes, (str(program), shape, axis)


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
    with assumed(ARCHITECTURES["sm_90"]), recorded() as steps:
        with pytest.raises(GridTooLargeError, match="2147483647"):
            registry._registered["cute", "softmax", "fused"](x, x)
        registry._registered["cute", "softmax", "auto"](x, x)
        assert len(steps) >= 2 and all(step.grid[0] < 1 << 31 for step in steps)


def test_machine_code_is_compiled_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    x = torch.empty(64, 64, 1, device="meta")
    from kernelzoo.kernels.cute.softmax.fused import tile_kernel

    given = problem(x, x)
    tile = held("cute/softmax/fused", given, 1)
    program = compiler.Program(tile_kernel, (compiler.Pointer("float32", 16),) * 2, 2, 0, (), tile)
    made = compiler.compiled(program, 90)
    (kept,) = (tmp_path / "kernelzoo" / "cute").iterdir()
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["kernelzoo", "cute"]  # nor a cache of its
    monkeypatch.setattr(compiler, "to_code", None)
    assert compiler.compiled(program, 90) == made and made.symbol in made.ptx and kept.stat().st_size > len(made.ptx)
    with pytest.raises(TypeError):
        compiler.compiled(program, 80)


def test_compiling_leaves_nothing_behind(tmp_path: Path) -> None:
    """No file where the process runs, nor in the folder of temporary files."""
    code = """
import torch, kernelzoo
from kernelzoo.device import ARCHITECTURES, assumed
from kernelzoo.inspect import inspect
print(inspect("cute/softmax/fused", (64, 64), "fp32", arch="sm_90")[0].registers)
"""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir(), temporary.mkdir()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(temporary), "USER": "somebody"}
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        env={**environment, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) > 8
    assert not [path for folder in (here, temporary) for path in folder.rglob("*") if path.is_file()]


def test_a_row_too_long_for_the_chip_is_refused() -> None:
    for op in OPERATIONS:
        if op is not MIN:
            with pytest.raises(UnsupportedProblemError, match="must fit on chip"):
                programs(op, "fused", (4, 32772), 1, torch.float32, "sm_90")
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
    assert threads == (256 if n in (50257, 200000, 262144) else 128) and not program.compiled.local_bytes
    assert ARCHITECTURES["sm_90"].registers // (threads * registers) >= 512 // threads


@pytest.mark.parametrize("arch", ["sm_75", "gfx942"])
def test_other_architectures_are_refused_by_name(arch: str) -> None:
    with pytest.raises(kernelzoo.errors.InspectionError, match=f"{arch}.*sm_80"):
        inspected("cute/softmax/fused", (64, 64), "fp32", arch=arch)


def test_a_kernel_is_shown() -> None:
    (shown,) = inspected("cute/softmax/auto", (512, 50000), "fp32", arch="sm_90")
    assert shown.implementation == "cute/softmax/split_cluster" and shown.language == "CuTe"
    assert shown.ptx is not None and "cluster_kernel" in shown.ptx
    assert shown.grid == (512 * 16, 1, 1) and shown.block == (128, 1, 1) and shown.cluster == (16, 1, 1)
    assert shown.constants["vector"] == 4 and shown.registers and not shown.local_bytes
    assert (shown.sass is None) == (shown.sass_missing is not None)


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "version", lambda name: "4.5.2")
    assert "4.5.2 is older than 4.8" in compiler.lacking()
    with pytest.raises(kernelzoo.BackendUnavailableError, match=r"4\.5\.2 is older than 4\.8"):
        backend.probe()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_chooser_names_a_form_for_every_layout(dtype: Any) -> None:
    """Of the forms' own refusals none is met by what auto chooses, whatever the strides."""
    for op in OPERATIONS:
        for shape, axis in (
            ((1, 1), 1),
            ((5, 1), 0),
            ((3, 70000), 1),
            ((70000, 3), 0),
            ((3, 1, 2), 1),
            ((2, 4000, 9), 1),
        ):
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
            assert not program.compiled.local_bytes
    stepped = torch.empty(64, 2 * 781 + 1, dtype=dtype, device="meta")[:, 1:782]
    (program,) = bound(SOFTMAX, "fused", stepped, 1, "sm_90")  # past a vector by itself, where the result is not
    assert program.compiled.constants["vector"] == 1
