"""The gate: every known wrong kernel is caught, for the reason that it is wrong; right ones pass, whatever is drawn."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import known_bad
import pytest
import torch
from known_bad import KNOWN_BAD, PROBLEMS, Bad
from registered import forget

import kernelzoo
from kernelzoo import operations
from kernelzoo.check.cases import cases
from kernelzoo.check.running import check, slow_to_bind
from kernelzoo.check.special import special_rows
from kernelzoo.errors import BackendUnavailableError, UnsupportedProblemError
from kernelzoo.launch import void
from kernelzoo.measure import Problem
from kernelzoo.measure.buffers import Set
from kernelzoo.measure.gate import Gate
from kernelzoo.registry import Bind, Implementation, Launch

CPU = torch.device("cpu")
CUDA = torch.device("cuda")

Enter = Callable[[str, Bind], Implementation]


@pytest.fixture
def enter() -> Iterator[Enter]:
    """Registers a bind of one operation under a throw-away name; waits for what it left running."""

    def enter(op: str, bind: Bind) -> Implementation:
        kernelzoo.register("entrant", op, "only")(bind)
        return kernelzoo.implementation(f"entrant/{op}/only")

    yield enter
    known_bad.go_on.set()
    while known_bad.threads:
        known_bad.threads.pop().join()
    known_bad.go_on.clear()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    forget("entrant")


def draw(problem: Problem, device: torch.device = CPU, *, seed: int = 0, count: int = 3) -> list[Set]:
    generator = torch.Generator(device).manual_seed(seed)
    drawn = [problem.inputs(generator) for _ in range(count)]
    return [(inputs, problem.operation.allocate(problem.arguments(inputs))) for inputs in drawn]


def sampler_of(launches: list[Launch]) -> Callable[[], float]:
    def sample() -> float:
        for launch in launches:
            launch()
        return 0.0

    return sample


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
        Gate(bad.passes, draw(bad.passes, device)).admit(implementation)
    gate = Gate(bad.problem, draw(bad.problem, device))
    if bad.gate:
        with pytest.raises(AssertionError, match=bad.gate):
            gate.admit(implementation)
        return
    admitted = gate.admit(implementation)
    sampler = sampler_of(admitted.launches)
    for _ in range(100):
        sampler()
    with pytest.raises(AssertionError, match=bad.timed):
        gate.check_timed(sampler)


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


def test_the_set_is_whole() -> None:
    """Each of the ways in which a kernel is known to get by a check, once."""
    names = [bad.name for bad in KNOWN_BAD]
    assert len(names) == len(set(names)) == 40
    assert sum(bad.gpu for bad in KNOWN_BAD) == 4
    assert len(EVERYWHERE) == 40 + 36
    assert all(bad.gate or bad.timed or bad.suite for bad in KNOWN_BAD)


def right(x: torch.Tensor, out: torch.Tensor) -> Launch:
    return lambda: void(out.copy_(torch.softmax(x, 1)))


def test_what_a_wrong_kernel_did_is_undone(enter: Enter) -> None:
    """It costs its own row: the tensors, their memory and their values are those that the next one meets."""
    sets = draw(PROBLEMS["softmax"])
    before = [(x.data_ptr(), x.clone(), out.data_ptr(), out.dtype, out.stride()) for (x,), (out,) in sets]
    gate = Gate(PROBLEMS["softmax"], sets)
    for bad in KNOWN_BAD:
        if bad.op == "softmax" and bad.gate and not bad.gpu and "grows" not in bad.name:
            with pytest.raises(AssertionError):
                gate.admit(enter("softmax", bad.bind))
            forget("entrant")
            for ((x,), (out,)), (x_address, values, out_address, dtype, strides) in zip(sets, before, strict=True):
                assert (type(x), type(out)) == (torch.Tensor, torch.Tensor), bad
                assert (x.data_ptr(), out.data_ptr(), out.dtype, out.stride()) == (
                    x_address,
                    out_address,
                    dtype,
                    strides,
                ), bad
                assert torch.equal(x, values), bad
    gate.admit(enter("softmax", right))


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
    """No false alarm over the ten problems' 200 seeds, of the data to be timed and of the gate's own."""
    implementation = kernelzoo.implementation(f"{backend}/{problem.op}/auto")
    try:
        kernelzoo.get(backend)
    except BackendUnavailableError as refusal:
        pytest.skip(str(refusal))
    for seed in range(20):
        gate = Gate(problem, draw(problem, seed=seed, count=1 + seed % 3), seed=seed)
        admitted = gate.admit(implementation)
        assert len(admitted.launches) == 1 + seed % 3
        gate.check_timed(sampler_of(admitted.launches))


@NO_GPU
@pytest.mark.parametrize("shape", [(64, 64), (1823, 781), (16, 262144), (1, 1_000_003), (4096, 8192)], ids=str)
@pytest.mark.parametrize("op", operations.BUILT_IN)
def test_right_kernels_pass_on_a_gpu(op: str, shape: tuple[int, ...]) -> None:
    """Every implementation that this machine has, on the current stream and on others."""
    problem = Problem(op, shape, "float32")
    gate = Gate(problem, draw(problem, CUDA, count=2))
    passed = 0
    for implementation in kernelzoo.implementations(op=op):
        try:
            if "cuda" not in kernelzoo.get(implementation.backend).devices or slow_to_bind(implementation.id):
                continue
            admitted = gate.admit(implementation)
        except (BackendUnavailableError, UnsupportedProblemError):
            continue
        gate.check_timed(sampler_of(admitted.launches))
        passed += 1
    assert passed


@NO_GPU
def test_the_kernel_without_its_barrier_is_wrong_for_that_alone(enter: Enter) -> None:
    pytest.importorskip("cupy", reason="cupy is not installed")

    def whole(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return known_bad.minimum_of_64(x, out, "__syncthreads();")

    problem = Problem("min", (64, 64), "float32")
    Gate(problem, draw(problem, CUDA)).admit(enter("min", whole))


def test_all_dtypes_and_few_rows_meet_every_rule() -> None:
    """Each rule of the contract is put to an implementation, whatever room the shape has for it."""
    for op, dtype in [("softmax", "float32"), ("min", "bfloat16"), ("min", "int8"), ("min", "bool")]:
        for shape in ((64, 9), (5, 9), (1, 9), (3, 3, 9), (9,)):
            problem = Problem(op, shape, dtype)
            gate = Gate(problem, draw(problem))
            met = [name for fresh in gate._fresh for name in fresh.rules.values()]
            assert sorted(met) == sorted(special_rows(dtype)), (shape, dtype)


def test_many_small_sets_are_all_checked(enter: Enter) -> None:
    """The one wrong launch among hundreds is found, and so is the one input that was changed."""
    problem = PROBLEMS["softmax"]
    sets = draw(problem, count=300)
    gate = Gate(problem, sets)
    ((watched,), _) = sets[237]
    target = watched.data_ptr()

    def skips_one(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return right(x, out) if x.data_ptr() != target else lambda: None

    def changes_one(x: torch.Tensor, out: torch.Tensor) -> Launch:
        if x.data_ptr() != target:
            return right(x, out)

        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            x[3, 4] = 5

        return launch

    with pytest.raises(AssertionError, match=r"first at \(236, 0, 0\)"):
        gate.admit(enter("softmax", skips_one))
    forget("entrant")
    before = watched.clone()
    with pytest.raises(AssertionError, match="the input was changed"):
        gate.admit(enter("softmax", changes_one))
    assert torch.equal(watched, before)


def test_an_input_changed_elsewhere_is_found(enter: Enter) -> None:
    """Past the sets, in memory of the gate's own, which is put right again."""
    sets = draw(PROBLEMS["softmax"])
    known = {x.data_ptr() for (x,), _ in sets}

    def changes(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            if x.data_ptr() not in known:
                x[0] = 1

        return launch

    gate = Gate(PROBLEMS["softmax"], sets)
    with pytest.raises(AssertionError, match="the input was changed where it lay elsewhere"):
        gate.admit(enter("softmax", changes))
    gate.admit(kernelzoo.implementation("torch/softmax/eager"))


def test_a_row_that_reaches_another_is_found(enter: Enter) -> None:
    """By less than the tolerance."""

    def reaches(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            out.copy_(torch.softmax(x, 1))
            if int(x.isnan().sum()) == 1:
                out.copy_(torch.nextafter(out, out.new_ones(())))

        return launch

    gate = Gate(PROBLEMS["softmax"], draw(PROBLEMS["softmax"]))
    with pytest.raises(AssertionError, match=r"the one element at .* was changed, and the results of other rows"):
        gate.admit(enter("softmax", reaches))


def test_a_launch_that_is_left_out_is_found_whatever_out_holds(enter: Enter) -> None:
    """Even where the right result is that of the data before."""
    problem = Problem("min", (1, 9), "bool")
    x = torch.ones(1, 9, dtype=torch.bool)
    gate = Gate(problem, [((x,), (x.new_empty(1),))])
    assert list(gate._fresh[0].rules.values()) == ["true alone"]  # the last that comes before
    launches = 0

    def pauses(x: torch.Tensor, out: torch.Tensor) -> Launch:
        def launch() -> None:
            nonlocal launches
            launches += 1
            if launches != 1 + len(gate._fresh) + 1:
                out.copy_(x.amin(1))

        return launch

    with pytest.raises(AssertionError, match="launched again, the same input gave other bits, or not all was written"):
        gate.admit(enter("min", pauses))


def test_what_was_timed_is_checked_on_every_set(enter: Enter) -> None:
    sets = draw(PROBLEMS["softmax"], count=5)
    gate = Gate(PROBLEMS["softmax"], sets)
    launches = gate.admit(enter("softmax", right)).launches
    gate.check_timed(sampler_of(launches))
    for left_out in range(5):
        with pytest.raises(AssertionError, match="elements wrong"):
            gate.check_timed(sampler_of([launch for i, launch in enumerate(launches) if i != left_out]))


def test_a_sample_may_run_some_of_the_sets_alone(enter: Enter) -> None:
    """As the wall clock's do."""
    gate = Gate(PROBLEMS["softmax"], draw(PROBLEMS["softmax"], count=5))
    launches = gate.admit(enter("softmax", right)).launches
    turn = iter(range(100))

    def sampler() -> float:
        launches[next(turn) % 5]()
        return 0.0

    gate.check_timed(sampler)


def test_what_is_timed_must_read_its_input_again(enter: Enter) -> None:
    """A sampler that replays results of the data it was timed on, as a cache would."""
    sets = draw(PROBLEMS["softmax"])
    gate = Gate(PROBLEMS["softmax"], sets)
    gate.admit(enter("softmax", right))
    results = [torch.softmax(x, 1) for (x,), _ in sets]

    def sampler() -> float:
        for (_, (out,)), result in zip(sets, results, strict=True):
            out.copy_(result)
        return 0.0

    with pytest.raises(AssertionError, match=known_bad.FRESH):
        gate.check_timed(sampler)


def test_an_error_says_how_to_repeat_it(enter: Enter) -> None:
    def drops_nan(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return lambda: void(out.copy_(torch.softmax(x.nan_to_num(0.0), 1)))

    implementation = enter("softmax", drops_nan)
    said = []
    for seed in (None, 7, 7, 8):
        with pytest.raises(AssertionError) as caught:
            Gate(PROBLEMS["softmax"], draw(PROBLEMS["softmax"]), seed=seed).admit(implementation)
        said.append(str(caught.value))
    assert said[1] == said[2] != said[3]
    assert said[1].endswith("(gate seed 7)")
    seed = int(said[0].rpartition("gate seed ")[2].rstrip(")"))
    with pytest.raises(AssertionError) as caught:
        Gate(PROBLEMS["softmax"], draw(PROBLEMS["softmax"]), seed=seed).admit(implementation)
    assert str(caught.value) == said[0]


def test_refusals_and_errors_go_through(enter: Enter) -> None:
    gate = Gate(PROBLEMS["softmax"], draw(PROBLEMS["softmax"]))

    def picky(x: torch.Tensor, out: torch.Tensor) -> Launch:
        raise UnsupportedProblemError("entrant/softmax/only", "it never can")

    def breaks(x: torch.Tensor, out: torch.Tensor) -> Launch:
        return lambda: void(1 / 0)

    with pytest.raises(UnsupportedProblemError, match="it never can"):
        gate.admit(enter("softmax", picky))
    forget("entrant")
    with pytest.raises(ZeroDivisionError):
        gate.admit(enter("softmax", breaks))


def test_the_first_call_is_timed_whole(enter: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bind and its first launch, and nothing else."""
    now = 0.0
    monkeypatch.setattr("kernelzoo.measure.gate.time", SimpleNamespace(perf_counter=lambda: now))

    def slow(x: torch.Tensor, out: torch.Tensor) -> Launch:
        nonlocal now
        now += 1
        launch = right(x, out)

        def slowly() -> None:
            nonlocal now
            now += 10
            launch()

        return slowly

    gate = Gate(PROBLEMS["softmax"], draw(PROBLEMS["softmax"], count=4))
    assert gate.admit(enter("softmax", slow)).first_call == 11
