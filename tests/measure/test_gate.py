"""The gate: every known wrong kernel is caught, for the reason that it is wrong; right ones pass, whatever is drawn."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import known_bad
import pytest
import torch
from known_bad import KNOWN_BAD, PROBLEMS, Bad
from registered import forget_operation

import kernelzoo
from kernelzoo import measure, operations
from kernelzoo.check.cases import cases
from kernelzoo.check.running import check, slow_to_bind
from kernelzoo.check.special import special_rows
from kernelzoo.errors import BackendUnavailableError, ContractError, UndecidableError, UnsupportedProblemError
from kernelzoo.launch import void
from kernelzoo.measure import Problem
from kernelzoo.measure.judge.gate import GateFindings
from kernelzoo.registry import Bind, Implementation, Launch

CPU = torch.device("cpu")
CUDA = torch.device("cuda")

Enter = Callable[[str, Bind], Implementation]


class Judged:
    """A gate, and a runner beside it."""

    def __init__(self, problem: Problem, device: torch.device = CPU, *, count: int = 10, seed: int = 0) -> None:
        self.sets = measure.TensorSets(problem, count, device)
        self.runner = measure.LocalRunner(device)
        self.runner.open_sets(problem, self.sets, "device")
        self.gate = measure.Gate(self.sets, seed)

    def admit(self, implementation: Implementation, *, special: bool = True) -> GateFindings:
        self.entrant = measure.Entrant(implementation, self.runner)
        return self.gate.admit(self.entrant, special_values=special)

    def turn(self) -> None:
        """A turn over all sets, checked as in a race."""
        order = list(range(self.sets.count))
        self.gate.mutation.write_sets(order, {order[-1]: self.gate.last_turn_inputs})
        self.entrant.launch(order)
        self.gate.mutation.check_sets(order, whole_sets=(order[-1],))


NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")

EVERYWHERE = [pytest.param(bad, CPU, id=f"{bad}-cpu") for bad in KNOWN_BAD if not bad.gpu]
EVERYWHERE += [pytest.param(bad, CUDA, id=f"{bad}-cuda", marks=NO_GPU) for bad in KNOWN_BAD]


@pytest.mark.parametrize(("bad", "device"), EVERYWHERE)
def test_a_wrong_kernel_is_caught(bad: Bad, device: torch.device, enter: Enter) -> None:
    if not bad.gate and not bad.timed:
        assert bad.suite, "nothing catches it"
        return
    implementation = enter(bad.op, bad.bind)
    if bad.passes:
        Judged(bad.passes, device).admit(implementation)
    judged = Judged(bad.problem, device)
    if bad.gate:
        with pytest.raises((AssertionError, RuntimeError), match=bad.gate):
            judged.admit(implementation)
        return
    judged.admit(implementation)
    for _ in range(100):
        judged.entrant.launch(list(range(judged.sets.count)))
    with pytest.raises(AssertionError, match=bad.timed):
        judged.turn()


@pytest.mark.parametrize("bad", [bad for bad in KNOWN_BAD if not bad.gpu], ids=str)
def test_the_suite_catches_what_it_can(bad: Bad, enter: Enter) -> None:
    """Which wrong kernels the conformance suite catches by itself, and which it takes the gate for."""
    implementation = enter(bad.op, bad.bind)
    chosen = ("-3x129", "-special-values-300", "-rows-2^30-apart", "-rows-2^31-apart")
    caught = []
    for case in cases(bad.op):
        if case.name.endswith(chosen) and case.name.startswith(("float32", "int8")):
            try:
                check(implementation, case, "cpu")
            except (AssertionError, RuntimeError) as error:  # torch raises where a tensor's type is not what it was
                caught.append(f"{case}: {error}")
    assert bool(caught) == bad.suite, caught


def right(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(torch.softmax(x, 1)))


@pytest.mark.parametrize(
    "problem",
    [
        Problem("softmax", (37, 129), "float32"),
        Problem("softmax", (1, 1000), "float16"),
        Problem("softmax", (2, 3, 17), "bfloat16", 1),
        Problem("softmax", (23, 1), "float64"),
        Problem("min", (37, 129), "bfloat16"),
        Problem("min", (5, 1), "float32"),
        Problem("min", (3, 5, 7), "float64", 0),
        Problem("min", (40, 33), "bool"),
        Problem("min", (2, 300), "uint8"),
        Problem("min", (7,), "int64"),
    ],
    ids=lambda problem: problem.id,
)
@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_right_kernels_pass(backend: str, problem: Problem) -> None:
    """No false alarm over ten seeds of each problem's data, and of the gate's own."""
    implementation = kernelzoo.implementation(f"{backend}/{problem.op}/auto")
    try:
        kernelzoo.get(backend)
    except BackendUnavailableError as refusal:
        pytest.skip(str(refusal))
    for seed in range(10):
        judged = Judged(problem, seed=seed, count=2 + seed % 3)
        assert judged.admit(implementation).same_bits
        judged.turn()


@NO_GPU
@pytest.mark.parametrize("shape", [(64, 64), (1823, 781), (16, 262144), (1, 1_000_003), (4096, 8192)], ids=str)
@pytest.mark.parametrize("op", operations.BUILT_IN)
def test_right_kernels_pass_on_a_gpu(op: str, shape: tuple[int, ...]) -> None:
    """Every implementation that this machine has, on the current stream and on others."""
    judged = Judged(Problem(op, shape, "float32"), CUDA)
    passed = 0
    for implementation in kernelzoo.implementations(op=op):
        try:
            if "cuda" not in kernelzoo.get(implementation.backend).devices or slow_to_bind(implementation.id):
                continue
            judged.admit(implementation)
        except (BackendUnavailableError, UnsupportedProblemError):
            continue
        judged.turn()
        passed += 1
    assert passed


@NO_GPU
def test_the_kernel_without_its_barrier_is_wrong_for_that_alone(enter: Enter) -> None:
    pytest.importorskip("cupy", reason="cupy is not installed")

    def whole(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return known_bad.minimum_of_64(x, out, "__syncthreads();")

    Judged(Problem("min", (64, 64), "float32"), CUDA).admit(enter("min", whole))


def test_all_dtypes_and_few_rows_meet_every_rule() -> None:
    """Each rule of the contract is put to an implementation, whatever room the shape has for it."""
    for op, dtype in [("softmax", "float32"), ("min", "bfloat16"), ("min", "int8"), ("min", "bool")]:
        for shape in ((64, 9), (5, 9), (1, 9), (3, 3, 9), (9,)):
            judged = Judged(Problem(op, shape, dtype))
            met = [name for _, rules in judged.gate._draw_inputs(True) for name in rules.values()]
            assert sorted(met) == sorted(special_rows(dtype)), (shape, dtype)


def test_many_small_sets_are_all_checked(enter: Enter) -> None:
    """The one launch among hundreds that is left out is found, and a write beside an output."""
    judged = Judged(PROBLEMS["softmax"], count=300)
    target = judged.sets[237][0][0].data_ptr()

    def skips_one(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return right(x, out) if x.data_ptr() != target else lambda: None

    def writes_beside_one(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            if x.data_ptr() == target:
                out.as_strided((1,), (1,), out.storage_offset() + out.numel()).fill_(5)

        return launch

    with pytest.raises(AssertionError, match="1 of 300 launches did not write out"):
        judged.admit(enter("softmax", skips_one))
    with pytest.raises(AssertionError, match=r"wrote outside its output: \d+ of the bytes beside"):
        judged.admit(enter("softmax", writes_beside_one))


def test_a_row_that_reaches_another_is_found(enter: Enter) -> None:
    """By less than the tolerance."""

    def reaches(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            if int(x.isnan().sum()) == 1:
                out.copy_(torch.nextafter(out, out.new_ones(())))

        return launch

    with pytest.raises(AssertionError, match=r"the one element at .* was changed, and the results of other rows"):
        Judged(PROBLEMS["softmax"]).admit(enter("softmax", reaches))


def test_bits_that_differ_are_a_fact_and_no_fault(enter: Enter) -> None:
    """Within the bound; a row alone that has other bits, too."""
    times = 0

    def varies(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            nonlocal times
            times += 1
            out.copy_(torch.softmax(x, 1))
            if times % 2:
                out[-1].copy_(torch.nextafter(out[-1], out.new_zeros(())))

        return launch

    def by_rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            if x.size(0) == 1:
                out.copy_(torch.nextafter(out, out.new_zeros(())))

        return launch

    found = Judged(PROBLEMS["softmax"]).admit(enter("softmax", varies))
    assert not found.same_bits
    found = Judged(PROBLEMS["softmax"]).admit(enter("softmax", by_rows))
    assert found.same_bits and found.batch_invariant is False
    assert Judged(PROBLEMS["softmax"]).admit(enter("softmax", right)).batch_invariant


@pytest.mark.parametrize("period", [3, 4, 5, 7])
def test_bits_that_differ_now_and_then_are_no_fault_either(period: int, enter: Enter) -> None:
    """As of a scan whose programs wait for each other; they may be the same where they are asked for first."""
    count = itertools.count()

    def varies(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            if next(count) % period == 0:
                out.copy_(torch.nextafter(out, out.new_ones(())))

        return launch

    for _ in range(4):
        Judged(PROBLEMS["softmax"]).admit(enter("softmax", varies))


def test_an_error_says_how_to_repeat_it(enter: Enter) -> None:
    def drops_nan(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return lambda: void(out.copy_(torch.softmax(x.nan_to_num(0.0), 1)))

    implementation = enter("softmax", drops_nan)
    said = []
    for seed in (7, 7, 8):
        with pytest.raises(AssertionError) as caught:
            Judged(PROBLEMS["softmax"], seed=seed).admit(implementation)
        said.append(str(caught.value))
    assert said[0] == said[1] != said[2]
    assert said[1].endswith("(gate seed 7)")


def test_the_first_call_is_timed_whole(enter: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bind and its first launch, and nothing else."""
    now = 0.0
    monkeypatch.setattr("kernelzoo.measure.runner.time", SimpleNamespace(perf_counter=lambda: now))

    def slow(x: torch.Tensor, out: torch.Tensor) -> Launch:
        nonlocal now
        now += 1
        launch = right(x, out)

        def slowly() -> None:
            nonlocal now
            now += 10
            launch()

        return slowly

    assert Judged(PROBLEMS["softmax"], count=4).admit(enter("softmax", slow)).facts["first_call"] == 11


def test_bounds_that_the_reference_exceeds_decide_nothing(enter: Enter) -> None:
    """No kernel is wrong there, but one that changes its input still is."""

    def cancelling(x: torch.Tensor) -> torch.Tensor:
        return (x + 1e7) + (x - 1e7)

    class cancels:
        x, out = kernelzoo.Input("M N"), kernelzoo.Output("M N")
        reference = staticmethod(cancelling)
        error = staticmethod(lambda ref, unit, tiny: ref.abs() * unit * 2 + tiny)

    kernelzoo.operation(dtypes=("float32",))(cancels)
    try:
        problem = Problem("cancels", (16, 64), "float32")
        plain = enter("cancels", lambda x, out: lambda: void(out.copy_(cancelling(x))))
        with pytest.raises(UndecidableError, match="the reference, computed in the dtypes of kernels, is wrong"):
            Judged(problem).admit(plain)
        changing = enter("cancels", lambda x, out: lambda: void((out.copy_(x * 2), x.fill_(1))))
        with pytest.raises(ContractError, match="input was changed"):
            Judged(problem).admit(changing)
    finally:
        forget_operation("cancels")


@pytest.mark.parametrize("op", ["min", "quantize_rows"])
def test_a_right_result_may_be_what_an_output_held_before(op: str) -> None:
    """In half precision some element is now and then; an output that was not written is still found."""
    judged = Judged(Problem(op, (4, 8), "float16"), count=3)
    judged.admit(kernelzoo.implementation(f"torch/{op}/eager"))
    order, mutation = [2, 0, 1], judged.gate.mutation
    mutation.write_sets(order)
    judged.entrant.launch(order)
    mutation._poisons = [judged.sets[1][1][0].float().flatten()[0].item(), *mutation._poisons[1:]]
    for _ in range(100):
        mutation.check_sets(order)
    mutation._poisons = measure.Gate(judged.sets, 1).mutation._poisons
    mutation.poison([0])
    with pytest.raises(ContractError, match=r"1 of 3 launches did not write|elements wrong"):
        mutation.check_sets(order)


def test_results_of_results_are_held_to_what_the_kernel_gives_alone() -> None:
    """Torch's sum of 32000 nearly equal terms leaves the contract, in whatever order launches come."""
    judged = Judged(Problem("softmax", (4, 32000), "float32"), count=4)
    assert judged.sets.chain_launch_count
    judged.admit(kernelzoo.implementation("torch/softmax/eager"))
