"""The race that the benches of one problem share, and what a result file says of the machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelzoo import measure, operations, registry
from kernelzoo.measure.guard import Guard


def pytest_configure(config: pytest.Config) -> None:
    """A library's deprecation is for the tests to trip over; a measurement goes on."""
    if config.getoption("--benchmark-only", default=False):
        config.addinivalue_line("filterwarnings", "default")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Benches run when they are asked for, with --benchmark-only, and not as tests."""
    return None if config.getoption("--benchmark-only", default=False) else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every implementation x shape x dtype of the registry that the options leave; problem by problem."""
    if "problem" not in metafunc.fixturenames:
        return
    config = metafunc.config
    backends, variants = _words(config, "--backend"), _words(config, "--variant")
    for backend in backends:
        registry.implementations(backend)  # an unknown name is an error here, and not an empty run
    chosen = [
        (problem, implementation)
        for problem in _problems(config)
        for implementation in registry.implementations(op=problem.op)
        if (not backends or implementation.backend in backends) and (not variants or implementation.variant in variants)
    ]
    metafunc.parametrize(("problem", "implementation"), chosen, ids=lambda part: part.id)


def _problems(config: pytest.Config) -> Iterator[measure.Problem]:
    """Of the operations that are named, or of all by rows that take the dtypes."""
    shapes, seed = config.getoption("--shapes"), config.getoption("--seed")
    dtypes, ops = _words(config, "--dtype"), _words(config, "--op")
    if ops:
        yield from measure.problems(shapes, ops, dtypes, seed)
        return
    by_rows = {name: operation for name, operation in operations.OPERATIONS.items() if operation.by_rows}
    for dtype in dtypes:
        if not any(operations.full_dtype(dtype) in operation.dtypes for operation in by_rows.values()):
            measure.problems(shapes, tuple(by_rows), (dtype,))  # an unknown name is an error here too
    for name, operation in by_rows.items():
        taken = tuple(dtype for dtype in dtypes if operations.full_dtype(dtype) in operation.dtypes)
        if taken:
            yield from measure.problems(shapes, (name,), taken, seed)


def _words(config: pytest.Config, option: str) -> tuple[str, ...]:
    return tuple(filter(None, config.getoption(option).split(",")))


def _device(config: pytest.Config) -> torch.device:
    return torch.device(config.getoption("--device") or ("cuda" if torch.cuda.is_available() else "cpu"))


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> torch.device:
    return _device(pytestconfig)


@pytest.fixture(scope="session")
def ceilings(device: torch.device, pytestconfig: pytest.Config) -> measure.Ceilings | None:
    """The device's own limits, measured in this run; None on the host, and where whole calls are timed."""
    launches = pytestconfig.getoption("--clock") == "device"
    return measure.ceilings(device) if device.type == "cuda" and launches else None


class Races:
    """Runs the race of a problem when its first result is asked for, with all that were collected for it."""

    def __init__(
        self, items: list[pytest.Item], device: torch.device, config: pytest.Config, ceilings: measure.Ceilings | None
    ) -> None:
        self.device, self.ceilings = device, ceilings
        self.rounds, self.cache = config.getoption("--rounds"), config.getoption("--cache")
        self.timed = config.getoption("--clock")
        self.checker = Guard(str(device), config.getoption("--module")) if config.getoption("--cross-check") else None
        self.entrants: dict[measure.Problem, list[registry.Implementation]] = {}
        for item in items:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            if "problem" in params:
                self.entrants.setdefault(params["problem"], []).append(params["implementation"])
        self.last: tuple[measure.Problem, dict[str, measure.Measurement]] | None = None
        self.medians: dict[measure.Problem, dict[str, float]] = {}

    def result(self, problem: measure.Problem, implementation: registry.Implementation) -> measure.Measurement:
        if self.last is None or self.last[0] != problem:
            measured = measure.race(
                problem,
                self.entrants[problem],
                self.device,
                rounds=self.rounds,
                cache=self.cache,
                timed=self.timed,
                ceilings=self.ceilings,
            )
            if self.checker is not None:
                timed = [id for id, m in measured.items() if m.samples and m.clock == "device" and m.cache == "cold"]
                for id, seconds in self.checker.cross_check(problem, timed, lambda stage, id: None).items():
                    measured[id].cupti = seconds
            self.last = (problem, measured)
            self.medians[problem] = {id: result.median for id, result in self.last[1].items() if result.samples}
        return self.last[1][implementation.id]


RACES = pytest.StashKey[Races]()


@pytest.fixture(scope="session")
def races(request: pytest.FixtureRequest, device: torch.device, ceilings: measure.Ceilings | None) -> Iterator[Races]:
    races = Races(request.session.items, device, request.config, ceilings)
    request.config.stash[RACES] = races
    yield races
    if races.checker is not None:
        races.checker.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Each implementation's median over that of torch eager, from the same interleaved run: below 1 is faster."""
    races = config.stash.get(RACES, None)
    for problem, medians in races.medians.items() if races else ():
        baseline = medians.get(registry.baseline(problem.op))
        if baseline and len(medians) > 1:
            ratios = sorted((median / baseline, id) for id, median in medians.items())
            listed = "  ".join(f"{id} {ratio:.2f}" for ratio, id in ratios)
            terminalreporter.write_line(f"{problem.id}: time / torch eager: {listed}")


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, object]) -> None:
    device = str(_device(config))
    machine_info["device"] = measure.device_name(device)
    machine_info["versions"] = measure.versions(device)
    machine_info.pop("node", None)  # whose machine it was is nobody's business
