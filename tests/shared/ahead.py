"""What every language's kernels hold, compiled without a device at the tiles that binds choose: :class:`Ahead`."""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch

import kernelzoo
from kernelzoo import operations, registry
from kernelzoo.errors import InspectionError, UnsupportedProblemError
from kernelzoo.inspect import inspect as shown

Operation = operations.Operation
Problem = tuple[tuple[int, ...], int]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
OPERATIONS = tuple(operations.OPERATIONS[name] for name in ("softmax", "min", "softmax_backward", "min_backward"))
SOFTMAX, MIN, SOFTMAX_BACKWARD, MIN_BACKWARD = OPERATIONS
FLOATS = (torch.float32, torch.bfloat16, torch.float64)
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
LOAD, STORE = r"ld\.global[^;]*\.v(?:4\.b32|2\.b64|8\.b16)", r"st\.global[^;]*\.v(?:4\.b32|2\.b64|8\.b16)"
MEMORY = r"\b(?:ld|st|red|atom|cp\.async)\b[.\w]*(?:global|shared\.global)"
# From Triton 3.9 on a copy keeps its load's eviction policy, as a hint for L2.
COPY = r"cp\.async\.cg\.shared\.global(?:\.L2::cache_hint)? \[[^]]*\], \[[^]]*\], 0x10"

# Short rows, middling ones even and odd, the longest on chip, few very long, one giant, other axes.
PROBLEMS: tuple[Problem, ...] = (
    *(((1 << 20, 64), 1), ((1000003, 33), 1), ((4096, 1000), 1), ((4096, 4096), 1), ((1823, 781), 1)),
    *(((3001, 5003), 1), ((4096, 12672), 1), ((512, 32768), 1), ((777, 50257), 1), ((16, 262144), 1)),
    *(((1, 1 << 28), 1), ((8192, 8192), 0), ((512, 4096), 0), ((300, 4099), 0), ((64, 512, 96), 1)),
)


PLAIN_PROBLEMS: tuple[Problem, ...] = (
    *(((4096, 1000), 1), ((64, 50257), 1), ((100003, 33), 1), ((512, 4096), 0), ((100003, 33), 0), ((0, 300), 1)),
)


def all_forms(backend: str) -> list[tuple[Operation, str]]:
    return [(operations.OPERATIONS[i.op], i.variant) for i in kernelzoo.implementations(backend) if not i.chooses]


def forms(backend: str) -> list[tuple[Operation, str]]:
    """Those of operations with several, of which more is asked than that they compile."""
    return [(op, form) for op, form in all_forms(backend) if op in OPERATIONS]


def plain(backend: str) -> list[tuple[Operation, str]]:
    """Those of all other operations."""
    return [(op, form) for op, form in all_forms(backend) if op not in OPERATIONS]


def name(value: Any) -> str:
    return str(getattr(value, "name", value))


def occurrences(pattern: str, program: Any) -> int:
    return len(re.findall(pattern, program.ptx))


class Ahead:
    """The tests of a language: a subclass says what it compiles, and by which words."""

    backend: ClassVar[str]
    programs: ClassVar[Callable[..., list[Any]]]
    """(op, form, shape, axis, dtype, arch): the programs of a launch, with ``ptx`` and ``spilled``."""
    compiler: ClassVar[Any] = None
    makes: ClassVar[str] = ""
    """The module that keeps machine code on disk, and its function that makes it, if there is one."""
    architectures: ClassVar[tuple[str, ...]] = ARCHITECTURES
    forms: ClassVar[list[tuple[Operation, str]]]
    problems: ClassVar[tuple[Problem, ...]] = PROBLEMS
    integer_problems: ClassVar[tuple[Problem, ...]] = PROBLEMS[3:10:2] + PROBLEMS[11:12]
    vectors: ClassVar[tuple[tuple[tuple[int, ...], int, Any], ...]]
    """Shape, axis and dtype (None: any) of what is read and written by whole vectors."""
    load, copy, store = LOAD, COPY, STORE
    no_form_spills: ClassVar[bool] = True
    """Also where ``auto`` takes another form."""
    first_statement: ClassVar[str | None] = None
    """How every kernel begins, to wait for the launch before; None: no launch is prepared early."""
    least_kernels: ClassVar[int] = 0
    waiting: ClassVar[tuple[Problem, ...]] = (((4096, 4096), 1), ((1 << 18, 64), 1), ((512, 4096), 0))
    early: ClassVar[dict[str, bool]] = {"sm_90": True, "sm_80": False}
    arrival, read_after = "atom.global.gpu.acq_rel.add.u32", r"bar\.sync.*ld\.global\.cg"
    arrivals: ClassVar[tuple[Problem, ...]] = (((16, 262144), 1), ((262144, 64), 0))
    minima: ClassVar[tuple[tuple[str, tuple[int, ...], int], ...]] = (
        *(("rows", (4096, 5003), 1), ("rows_deferred", (4096, 40000), 1), ("split", (16, 262144), 1)),
        *(("rows_deferred", (512, 4096), 0), ("split", (262144, 64), 0)),
    )
    too_long = 32769
    others: ClassVar[tuple[str, ...]] = ("sm_75", "gfx942")
    """Architectures that the language does not compile for."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        given = metafunc.fixturenames
        if "form" in given:
            metafunc.parametrize(("op", "form"), self.forms, ids=name)
        if "plain_form" in given:
            metafunc.parametrize(("op", "plain_form"), plain(self.backend), ids=name)
        for word, values in (
            *(("every_op", OPERATIONS), ("arch", self.architectures), ("problem", self.problems)),
            *(("float_", FLOATS), ("other", self.others)),
        ):
            if word in given:
                metafunc.parametrize(word, values, ids=name)

    @staticmethod
    def leaves_out(form: str, shape: tuple[int, ...], axis: int) -> bool:
        """Whether a form reads such a problem, which it takes, otherwise than by whole vectors."""
        return False

    @classmethod
    def reads(cls, form: str, made: list[Any]) -> bool:
        return all(occurrences(cls.copy if form == "persistent" else cls.load, program) for program in made)

    @staticmethod
    def keeps_nan(program: Any, dtype: Any) -> None:
        """The instruction says it; in float64, for which there is none, it is asked for."""
        if dtype == torch.float64:
            assert occurrences(r"setp\.(?:nan|num)\.f64", program)
            return
        assert occurrences(r"\bmin\.NaN\.(?:xorsign\.abs\.)?b?f(?:32|16)", program)
        assert not occurrences(r"\bmin\.(?:ftz\.)?b?f(?:16|32)", program)

    @classmethod
    def kernels(cls) -> Iterator[Any]:
        """Every kernel's function, by whose source it begins."""
        raise NotImplementedError

    @classmethod
    def functions(cls) -> Iterator[tuple[ModuleType, str, Any]]:
        registry.import_kernels(cls.backend, f"kernelzoo.kernels.{cls.backend}")
        for key, module in list(sys.modules.items()):
            if key.startswith(f"kernelzoo.kernels.{cls.backend}."):
                yield from ((module, name, value) for name, value in vars(module).items())

    def taken(self, op: Operation, form: str, arch: str, dtype: Any, problems: Any) -> Iterator[tuple[Any, list[Any]]]:
        """The problems that a form takes, and the programs of its launches."""
        for problem in problems:
            try:
                yield problem, self.programs(op, form, *problem, dtype, arch)
            except UnsupportedProblemError:
                continue

    @pytest.mark.sampled(24, "every_op")
    def test_auto_spills_no_register(self, every_op: Operation, arch: str, problem: Problem, float_: Any) -> None:
        made = self.programs(every_op, "auto", *problem, float_, arch)
        assert made and not [str(program) for program in made if program.spilled]

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("dtype", INTEGERS, ids=str)
    def test_a_minimum_of_integers_spills_no_register(self, dtype: Any) -> None:
        for problem in self.integer_problems:
            for program in self.programs(MIN, "auto", *problem, dtype, "sm_90"):
                assert not program.spilled, (str(program), problem)

    @pytest.mark.sampled(12, "op", "form")
    def test_every_form_moves_16_bytes_at_a_time(self, op: Operation, form: str, arch: str, float_: Any) -> None:
        problems = [(shape, axis) for shape, axis, dtype in self.vectors if dtype in (None, float_)]
        problems = [problem for problem in problems if not self.leaves_out(form, *problem)]
        launches = list(self.taken(op, form, arch, float_, problems))
        assert launches or not problems or (form, arch) == ("split_cluster", "sm_80")  # which has no clusters
        for problem, made in launches:
            assert not self.no_form_spills or not [str(program) for program in made if program.spilled]
            assert self.reads(form, made), (problem, *map(str, made))
            assert op is MIN or occurrences(self.store, made[-1]), (problem, str(made[-1]))

    @pytest.mark.sampled(6, "op", "plain_form")
    def test_every_plain_form_compiles(self, op: Operation, plain_form: str, arch: str, float_: Any) -> None:
        """Also for tensors without a row. Sums are in a fixed order."""
        for shape, axis in PLAIN_PROBLEMS:
            for program in self.programs(op, plain_form, shape, axis, float_, arch):
                assert not occurrences(r"\b(?:atom|red)\.\S*add\S*\.b?f\d", program)

    def test_every_kernel_begins_by_waiting_for_the_launch_before(self) -> None:
        """Without it, one that is prepared early reads what the launch before has yet to write."""
        if self.first_statement is None:
            return
        kernels = list(self.kernels())
        assert len(kernels) >= self.least_kernels
        for kernel in kernels:
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kernel))).body
            assert isinstance(definition, ast.FunctionDef)
            first = next(s for s in definition.body if not isinstance(getattr(s, "value", None), ast.Constant))
            assert ast.unparse(first).endswith(self.first_statement), kernel

    def test_launches_wait_before_they_touch_memory(self, op: Operation, form: str) -> None:
        """What a launch asks for and what its kernel does go together."""
        for arch, early in self.early.items():
            for _, made in self.taken(op, form, arch, torch.bfloat16, self.waiting[: None if arch == "sm_90" else 2]):
                for program in made:
                    code = program.ptx
                    assert bool(getattr(getattr(program, "metadata", None), "launch_pdl", early)) == early
                    assert code.count("griddepcontrol") == code.count("griddepcontrol.wait") == early
                    if early:
                        memory = re.search(MEMORY, code)
                        assert memory is not None and code.index("griddepcontrol.wait") < memory.start()

    @pytest.mark.sampled(3, "op", "form")
    def test_sums_are_in_a_fixed_order(self, op: Operation, form: str, float_: Any) -> None:
        """No floating-point number is added to another by an atomic: the same input gives the same bits."""
        for _, made in self.taken(op, form, "sm_90", float_, self.waiting):
            assert not any(occurrences(r"\b(?:atom|red)\.\S*add\S*\.b?f\d", program) for program in made)

    @pytest.mark.sampled(2)
    def test_last_arriver_is_ordered_by_release_and_acquire(self, arch: str) -> None:
        for problem in self.arrivals if arch.startswith("sm_") else ():
            (program,) = self.programs(MIN, "split", *problem, torch.float32, arch)
            before, arrival, after = program.ptx.partition(self.arrival)
            assert arrival
            # The partial result is stored, then all threads meet, then one of them arrives.
            assert re.search(r"st\.global.*bar\.sync", before, re.DOTALL)
            assert re.search(self.read_after, after, re.DOTALL)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
    def test_a_minimum_keeps_nan(self, dtype: Any) -> None:
        for form, shape, axis in self.minima:
            for program in self.programs(MIN, form, shape, axis, dtype, "sm_90"):
                self.keeps_nan(program, dtype)

    def test_a_row_too_long_for_the_chip_is_refused(self) -> None:
        for op in OPERATIONS:
            if op is not MIN:
                with pytest.raises(UnsupportedProblemError, match="must fit on chip"):
                    self.programs(op, "fused", (4, self.too_long), 1, torch.float32, "sm_90")

    def test_other_architectures_are_refused_by_name(self, other: str) -> None:
        with pytest.raises(InspectionError, match=f"{other}.*sm_80"):
            shown(f"{self.backend}/softmax/fused", (64, 64), "fp32", arch=other)

    def test_machine_code_is_compiled_once_and_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not self.makes:
            return
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setenv("HOME", str(tmp_path))
        (program,) = self.programs(SOFTMAX, "fused", (64, 64), 1, torch.float32, "sm_90")
        program = program.step.build.args[0]
        made = self.compiler.load_or_build(program, 90)
        assert len(list((tmp_path / "kernelzoo" / self.backend).iterdir())) == 1
        folders = [path.name for path in tmp_path.rglob("*") if path.is_dir()]
        assert folders == ["kernelzoo", self.backend]  # nor a cache of its own
        monkeypatch.setattr(self.compiler, self.makes, None)
        assert self.compiler.load_or_build(program, 90) == made
        with pytest.raises(TypeError):
            self.compiler.load_or_build(program, 80)
