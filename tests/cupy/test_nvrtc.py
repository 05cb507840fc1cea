"""The CUDA C++ kernels without a GPU: the launch tables' limits, and every template instance compiled by NVRTC."""

import importlib
import inspect
import itertools
import math
import re
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sampled import number_of
from with_nvrtc import torch  # which skips this module without a compiler

import kernelzoo
import kernelzoo.kernels.cupy as backend
from kernelzoo import operations, registry, tables
from kernelzoo.device import ARCHITECTURES, Device, plan_launches_for_device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cupy import compiler
from kernelzoo.kernels.cupy.launch import PROBLEM, Plan, Step
from kernelzoo.kernels.cupy.rows import count_packs, rows_are_aligned
from kernelzoo.kernels.shared import cubin
from kernelzoo.kernels.shared.driver import MAX_GRID_X
from kernelzoo.layout import Rows, layouts_of

registry.import_kernels("cupy", backend.__name__)

# Kernels of which a multiprocessor runs one block.
ONE_A_PIECE = ("split_grid", "split_ring")

DTYPES = {op: operations.OPERATIONS[op].dtypes for op in ("softmax", "min", "softmax_backward", "min_backward")}
DEVICES = {capability: ARCHITECTURES[f"sm_{capability}"] for capability in (80, 90, 100, 120)}


def together(op: str, dtype: str, architecture: int) -> pytest.MarkDecorator:
    """What has the same plans and the same machine code runs in one process, which makes them once."""
    return pytest.mark.xdist_group(f"{op} {dtype} {architecture}")


CASES = [
    pytest.param(op, dtype, architecture, marks=together(op, dtype, architecture))
    for op in DTYPES
    for dtype in DTYPES[op]
    for architecture in DEVICES
]
LENGTHS = (1, 2, 3, 5, 8, 9, 16, 17, 31, 33, 63, 64, 65, 127, 128, 200, 257, 512, 781, 1000, 1024, 1025, 2048, 2049,
           4096, 5003, 8192, 16385, 32768, 50257, 65537, 131072, 262144, 262145, 1048576, 3000017,
           2**31 + 1)  # fmt: skip
ROWS = (1, 2, 3, 16, 133, 4096, 1048576, 2**33)


def tensor(kind: Any, shape: tuple[int, ...], strides: tuple[int, ...], address: int = 0) -> Any:
    """What a layout is read off."""
    return SimpleNamespace(
        dtype=kind,
        shape=shape,
        ndim=len(shape),
        stride=lambda axis=None: strides if axis is None else strides[axis],
        element_size=lambda: int(kind.itemsize),
        data_ptr=lambda: address,
    )


def problems(op: str, dtype: str) -> list[tuple[Any, ...]]:
    """Problems of every layout: contiguous rows, stepped ones, columns side by side, an odd start, expanded rows."""
    found: list[tuple[Any, ...]] = []
    axes = operations.OPERATIONS[op].axes
    reduces = "n" not in axes[-1]
    kind = getattr(torch, dtype)
    for rows, n in itertools.product(ROWS, LENGTHS):
        if rows * n > 2**40:
            continue
        out, across = ((1, 1), (rows, 1)) if reduces else ((n, 1, 1), (n * rows, rows, 1))
        layouts = [
            *(((rows, n, 1), strides, out, 0) for strides in ((n, 1, 1), (2 * n, 2, 1), (0, 1, 1))),
            ((rows, n, 1), (n, 1, 1), out, kind.itemsize),
            ((1, n, rows), (n * rows, rows, 1), across, 0),
            ((rows, n, 1), (1, rows, 1), out if reduces else (1, rows, 1), 0),
            ((3, n, rows), (n * rows, rows, 1), across, kind.itemsize),
        ]
        for shape, x_strides, out_strides, address in layouts:
            last = tensor(kind, shape[::2] if reduces else shape, out_strides)
            a_row = tensor(kind, shape[::2], (shape[2], 1))
            between = (last if "n" in names else a_row for names in axes[1:-1])
            found.append((tensor(kind, shape, x_strides, address), *between, last))
    return found


@cache
def plans(op: str, dtype: str, device: Device) -> list[tuple[str, Rows, Plan]]:
    """Of each form and problem that it takes; ``auto`` must choose such a form."""
    found = []
    knobs = tables.declared_table("cupy", op)
    table = knobs() if knobs is not None else None
    variants = [i.variant for i in kernelzoo.implementations("cupy", op)]
    forms: dict[str, Any] = {}
    for form in variants:
        if not is_chooser(op, form):
            plan = getattr(importlib.import_module(f"{backend.__name__}.{op}.{form}"), form).__wrapped__
            wanted = {*inspect.signature(plan).parameters} & {"device", "knobs"}
            forms[form] = partial(plan, **{name: {"device": device, "knobs": table}[name] for name in wanted})
    with plan_launches_for_device(device):
        for x, *between, out in problems(op, dtype):
            (rows, others), taken = layouts_of(x, out, *between), set()
            for form, plan in forms.items():
                try:
                    found.append((form, rows, plan(rows, *others)))
                except UnsupportedProblemError:
                    continue
                taken.add(form)
            for variant in variants:
                if is_chooser(op, variant):
                    try:
                        chosen = registry.choose_variant("cupy", op, variant, x, *between, out)
                    except UnsupportedProblemError:
                        assert variant != "auto", rows
                    else:
                        assert chosen in taken or variant != "auto", (rows, chosen)
    return found


@cache  # the registry looks through all that it knows
def is_chooser(op: str, variant: str) -> bool:
    return registry.implementation(f"cupy/{op}/{variant}").chooses


def file_of(op: str, form: str) -> Path:
    """The CUDA C++ of a form."""
    return Path(backend.__file__).parent / op / f"{form}.cu"


@pytest.mark.sampled(28)
@pytest.mark.parametrize(("op", "dtype", "architecture"), CASES)
def test_no_plan_asks_for_more_than_the_device_has(op: str, dtype: str, architecture: int) -> None:
    device = DEVICES[architecture]
    for form, problem, plan in plans(op, dtype, device):
        for step in plan.steps:
            what = (form, problem, step)
            assert step.threads % 32 == 0 and 32 <= step.threads <= most_threads(op, form, step.kernel), what
            assert 0 <= step.shared_bytes <= device.shared_per_block - 2048, what
            assert step.blocks >= 1 and 1 <= step.grid_y <= 65535, what
            assert step.grid_y == 1 or step.blocks <= MAX_GRID_X, what
            assert step.blocks <= MAX_GRID_X * 32768, what
            assert step.blocks % step.cluster == 0 and step.cluster <= 16, what
            assert step.cluster == 1 or architecture >= 90, what
            if step.cooperative:  # all blocks at once: the bound on registers lets that many run
                assert step.blocks <= device.multiprocessors * (1 if step.kernel.startswith(ONE_A_PIECE) else 2), what
            for value in step.arguments:
                assert isinstance(value, str) or value[0](value[1]).value == value[1], what
            covers_every_element(op, problem, step)


@cache
def most_threads(op: str, form: str, kernel: str) -> int:
    """The kernel's own launch bound, read off its source; where it depends on template arguments, said here."""
    name, *arguments = words(kernel)
    if name == "split_ring":
        return int(arguments[1]) + 32
    if name == "multi_row_lanes":
        return int(arguments[3])
    if name == "columns" and op != "min":
        return int(arguments[4 if op == "softmax" else 5])
    found = re.search(rf"__launch_bounds__\((\d+)[^;{{}}]*?\)\s+{name}\(", compiler.full_source(file_of(op, form)))
    assert found is not None, name
    return int(found[1])


@cache
def words(kernel: str) -> list[str]:
    return re.findall(r"\w+", kernel.replace("signed char", "signed_char"))


def covers_every_element(op: str, problem: Rows, step: Step) -> None:
    """Kernels that hold a row in registers: the threads and their packs are enough for the longest one."""
    name, *numbers = words(step.kernel)
    count = count_packs(problem)
    if name in ("fused", "persistent"):
        assert step.threads * int(numbers[2]) >= count, (problem, step)
    if name == "split_cluster":
        assert step.cluster * step.threads * int(numbers[2]) >= count, (problem, step)
    if name == "multi_row_lanes":  # rows of this length: as many as there are, in as much shared memory as they take
        length, lanes, threads = map(int, numbers[1:])
        group = 4 // math.gcd(length * problem.itemsize, 4)  # rows of some lanes
        assert length == problem.n and step.threads == threads, (problem, step)
        assert step.blocks * (threads // lanes) * group >= problem.total, (problem, step)
        assert step.shared_bytes == threads // lanes * group * length * problem.itemsize, (problem, step)
    what = (problem, step)
    if op == "min" and name in ("columns", "columns_split"):  # all lines, in words that begin alike all the way
        columns, wide = problem.as_columns, int(numbers[1])
        assert columns is not None
        chunks, share, across, reach, lanes, depths = (a[1] for a in step.arguments[2:] if isinstance(a, tuple))
        shared_words = 0 if wide == 1 or columns.load_width == wide else wide - 1
        assert chunks * share >= columns.n and across * reach >= columns.inner, what
        assert lanes * depths <= step.threads and lanes * wide >= min(reach, columns.inner) + shared_words, what
        assert depths * columns.x_n % wide == 0 or depths >= columns.n, what
    if op.endswith("_backward") and name == "columns":  # every lane's elements meet
        _, _, _, _, lanes, depths = numbers
        assert int(depths) % 32 == 0 and 32 % int(lanes) == 0 and step.threads == int(depths), (problem, step)
    if name in ("multi_row_tile", "rows_deferred_lanes"):
        _, wide, lanes, items, _, edges = numbers
        assert int(lanes) * int(items) >= count, (problem, step)
        assert rows_are_aligned(problem) or int(wide) == 1 or int(lanes) * int(edges) >= 2 * (int(wide) - 1), (
            problem,
            step,
        )


@cache
def instances(op: str, dtype: str, architecture: int) -> dict[str, tuple[str, ...]]:
    """By form, every template instance that some plan names, with the threads it runs on left out."""
    found: dict[str, set[str]] = {}
    for form, _, plan in plans(op, dtype, DEVICES[architecture]):
        found.setdefault(form, set()).update(step.kernel for step in plan.steps)
    for form, named in found.items() if architecture != 90 else ():
        widest = {rest: lanes for lanes, rest in sorted(map(_lanes_and_rest, named))}
        found[form] = {rest.format(lanes) for rest, lanes in widest.items()}
    return {form: tuple(sorted(named)) for form, named in found.items()}


def _lanes_and_rest(kernel: str) -> tuple[int, str]:
    """Lanes per row of a kernel for short rows, and its name with a place for their number."""
    found = re.fullmatch(r"((?:multi_row_tile|rows_deferred_lanes)<.*?, \d+, )(\d+)(, .*)", kernel)
    return (0, kernel) if found is None else (int(found[2]), f"{found[1]}{{}}{found[3]}")


def largest(kernel: str) -> int:
    """What grows with the registers of an instance: the product of its numbers."""
    return math.prod(int(word) for word in words(kernel) if word.isdigit() and word != "0")


@pytest.mark.sampled(28)
@pytest.mark.parametrize(("op", "dtype", "architecture"), CASES)
def test_every_instance_compiles_without_spills(op, dtype, architecture, request) -> None:
    """Without ``--all``, of each form the instance of the largest numbers, and one of eight."""
    spilled, few = [], 1 if request.config.getoption("--all") else 8
    for form, every in instances(op, dtype, architecture).items():
        drawn = sorted(every, key=number_of)[: -(-len(every) // few)]
        named = tuple({max(every, key=largest), *drawn})
        made = compiler.compile_code(compiler.full_source(file_of(op, form)), named, architecture)
        log, lowered = made.log, made.symbols
        assert "warning" not in log.lower(), log
        reports = dict(re.findall(r"entry function '(\w+)' for '\w+'(.*?)(?=Compiling entry|\Z)", log, re.DOTALL))
        assert set(reports) == set(lowered.values())
        for name, symbol in lowered.items():
            if not re.search(r"\b0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", reports[symbol]):
                spilled.append(f"{name}: {reports[symbol].strip()}")
    assert not spilled, "\n".join(spilled)


@cache
def disassembled(op: str, dtype: str, architecture: int) -> dict[str, str]:
    """SASS of each instance of which instructions are expected."""
    if not cubin.find_tools("nvdisasm"):
        pytest.skip("no nvdisasm found; pip install nvidia-cuda-nvdisasm brings it")
    found = {}
    for form, named in instances(op, dtype, architecture).items():
        wanted = tuple(name for name in named if name in EXPECTED[op, dtype])
        if not wanted:
            continue
        made = compiler.compile_code(compiler.full_source(file_of(op, form)), wanted, architecture)
        functions, missing = cubin.disassembly(made.cubin)
        assert missing is None, missing
        found.update({name: functions[symbol] for name, symbol in made.symbols.items()})
    return found


LOAD, STORE, EXPONENTIAL = r"LDG\.E\S*\.128", r"STG\.E\S*\.128", r"MUFU\.EX2"
EXPECTED = {
    ("softmax", "float32"): {
        **dict.fromkeys(
            (
                "fused<float, 4, 4>",
                "persistent<float, 4, 4>",
                "multi_row_tile<float, 4, 32, 1, 2, 0>",
                "online<float, 4, 4>",
            ),
            (LOAD, STORE, r"SHFL\.BFLY", EXPONENTIAL),
        ),
        "split_cluster<float, 4, 8, 4>": (LOAD, STORE, EXPONENTIAL, r"UCGABAR|CGABAR|BAR\S*CGA", r"STAS\S*\.64"),
        "split_ring<float, 512>": (r"UBLKCP", r"SYNCS", r"LDS\.128", STORE, r"ACQBULK"),
        "columns<float, 4, 16, 8, 256, true>": (LOAD, STORE, EXPONENTIAL),
    },
    ("softmax", "bfloat16"): {
        "multi_row_lanes<bfloat16, 33, 2, 128>": (r"LDGSTS\S*\.128", r"LDS", r"STS", STORE),
        "fused<bfloat16, 8, 4>": (LOAD, STORE, r"HMNMX2\S*BF16", r"F2F\S*BF16|F2FP\S*BF16"),
    },
    ("min", "float32"): {
        "rows_deferred_block<float, 4, 8>": (LOAD, r"SHFL\.BFLY", r"FMNMX\S*\.NAN"),
        "split_arrival<float, 4, 8>": (LOAD, r"ATOM"),
        "atomic_batched<float, 4, 8>": (LOAD, r"(RED|ATOM)\S*\.MIN", r"(RED|ATOM)\S*\.MAX"),
        "columns<float, 4, 8>": (LOAD, r"FMNMX\S*\.NAN"),
        "columns_split<float, 4, 8>": (LOAD, r"FMNMX\S*\.NAN", r"ATOM"),
    },
    ("min", "bfloat16"): {"rows_deferred_block<bfloat16, 8, 8>": (LOAD, r"HMNMX2\S*NAN")},
    ("softmax_backward", "float32"): {
        "fused<float, 4, 4>": (LOAD, STORE, r"SHFL\.BFLY"),
        "multi_row_tile<float, 4, 32, 1, 2, 0>": (LOAD, STORE, r"SHFL\.BFLY"),
        "split_cluster<float, 4, 8, 8>": (r"LDGSTS\S*\.128", LOAD, STORE, r"STAS\S*\.64"),
        "columns<float, 4, 4, 4, 8, 256>": (LOAD, STORE, r"STS\.128"),
    },
    ("min_backward", "float32"): {
        "fused<float, 4, 8>": (LOAD, STORE, r"FSETP?\S*\.EQ", r"POPC"),
        "columns<float, 4, 8, 8, 8, 256>": (LOAD, STORE, r"FSETP?\S*\.EQ", r"POPC"),
    },
    ("min", "float16"): {"rows_deferred_block<float16, 8, 8>": (LOAD, r"HMNMX2\S*NAN")},
}
"""Patterns of a kernel's machine code, by what they are."""


BATCHES = (
    (
        "min",
        "float32",
        "FMNMX",
        ("rows_deferred_block<float, 4, 8>", "split_arrival<float, 4, 8>", "columns<float, 4, 8>"),
    ),
    ("min_backward", "float32", "FSET", ("fused<float, 4, 8>", "columns<float, 4, 8, 8, 8, 256>")),
    ("softmax_backward", "float32", "FMUL", ("fused<float, 4, 4>", "columns<float, 4, 4, 4, 8, 256>")),
)
"""Kernels, each thread of which has eight loads in flight, and the instruction that first uses them."""


def few_of(op: str, dtype: str, architecture: int) -> tuple[pytest.MarkDecorator, ...]:
    """What a usual run samples: not what is disassembled for its batches anyway."""
    if architecture == 90 and (op, dtype) in [batch[:2] for batch in BATCHES]:
        return ()
    return (pytest.mark.sampled(2 if architecture == 90 else 6, "architecture"),)


@pytest.mark.parametrize(
    ("op", "dtype", "architecture"),
    [
        pytest.param(op, dtype, a, marks=(together(op, dtype, a), *few_of(op, dtype, a)))
        for op, dtype in EXPECTED
        for a in DEVICES
    ],
)
def test_machine_code_holds_the_expected_instructions(op: str, dtype: str, architecture: int) -> None:
    sass = disassembled(op, dtype, architecture)
    for name, patterns in EXPECTED[op, dtype].items():
        if name.startswith(("split_cluster", "split_ring")) and architecture < 90:
            continue
        assert name in sass, f"{name} is in no plan: {sorted(sass)}"
        for pattern in patterns:
            assert re.search(pattern, sass[name]), f"{name}: no {pattern}"
    # Clusters wait for no write to reach the device, as a release at their barrier would, before any load.
    clusters = [name for name in sass if name.startswith("split_cluster")]
    assert architecture >= 90 or not clusters
    assert not [name for name in clusters if "MEMBAR" in sass[name] or "CGABAR" not in sass[name]]


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (("fused<float, 4, 4>", "persistent<bfloat16, 8, 4>", "multi_row_tile<float, 4, 32, 1, 2, 0>"), True),
        (("split_cluster<bfloat16, 8, 8, 4>",), True),
        (("online<float, 4, 4>", "split_ring<float, 512>"), False),
    ],
)
def test_rows_in_registers_stay_in_the_l2_cache_longer_than_results(names: tuple[str, ...], kept: bool) -> None:
    for name in names:
        ptx = compiler.compile_code(compiler.full_source(file_of("softmax", name.partition("<")[0])), (name,), 90).ptx
        loads = re.findall(r"ld\.global\S*v4\.\w32", ptx)
        hinted = [load for load in loads if "L2::cache_hint" in load]
        assert hinted == (loads if kept else [])
        assert not kept or ptx.count("L2::evict_last") == len(loads) > 0
        assert ("st.global.cs" in ptx) != kept


@pytest.mark.parametrize(
    ("op", "dtype", "used", "names"),
    [pytest.param(*batch, id=batch[0], marks=together(*batch[:2], 90)) for batch in BATCHES],
)
def test_every_load_of_a_batch_is_in_flight_before_the_first_is_used(op, dtype, used, names) -> None:
    sass = disassembled(op, dtype, 90)
    for name in names:
        kinds = re.findall(rf"(LDG\.E\S*\.128|{used})", sass[name])
        runs = [len(list(group)) for kind, group in itertools.groupby(kinds, key=lambda k: k[:3]) if kind == "LDG"]
        assert max(runs) == 8, f"{name}: {runs}"


@pytest.mark.parametrize("op", ["rms_norm_backward", "layer_norm_backward"])
@pytest.mark.parametrize(("name", "loads"), [("rows<bfloat16, 8, 2>", 6), ("rows<float, 4, 4>", 12)])
def test_gradients_of_norms_read_whole_vectors_once(op: str, name: str, loads: int) -> None:
    made = compiler.compile_code(compiler.full_source(file_of(op, "rows")), (name,), 90)
    assert re.findall(r"ld\.global\S*", made.ptx) == ["ld.global.v4.u32"] * loads
    assert " 0 bytes spill stores" in made.log


def test_the_problem_has_the_kernels_layout() -> None:
    """The addresses in the tensors' order, then what a launch packs."""
    folder = Path(backend.__file__).parent
    text = (folder / "device_functions.cuh").read_text() + (folder / "gradients/multi_input.cuh").read_text()
    for struct, names in (
        ("Addresses", ["x", "other", "out"]),
        ("Addresses<0>", ["x", "out"]),
        ("Layout", [*PROBLEM, "inner_inverse"]),
        ("MultiInput : Addresses<COUNT>, Layout", ["OTHERS", "strides"]),
    ):
        fields = re.search(rf"struct {struct} \{{(.*?)\}};", text, re.DOTALL)
        assert fields is not None
        assert re.findall(r"(\w+)(?:\[COUNT\]|(?: = COUNT))?[,;]", fields[1]) == names
