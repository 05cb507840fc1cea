"""The race that the benches of one problem share, and what a result file says of the machine."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import kernelzoo
from kernelzoo import measure, operations, registry
from kernelzoo.errors import BackendUnavailableError
from kernelzoo.measure.ceilings import ceilings as limits
from kernelzoo.measure.guard import Guard

sys.path.insert(0, str(Path(__file__).parent))

import live

ABSENT = pytest.StashKey[dict[str, str]]()
"""Why a backend takes no part, by its name."""


def pytest_configure(config: pytest.Config) -> None:
    """A library's deprecation is for the tests to trip over; a measurement goes on."""
    config.stash[ABSENT] = {}
    if config.getoption("--benchmark-only", default=False):
        config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")
        config.addinivalue_line("filterwarnings", "default::UserWarning")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Benches run when they are asked for, with --benchmark-only, and not as tests."""
    return None if config.getoption("--benchmark-only", default=False) else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every implementation x shape x dtype that the options leave and this machine can run; problem by problem."""
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
    absent = config.stash[ABSENT]
    for name in sorted({implementation.backend for _, implementation in chosen}):
        if why := _absence(name, _device(config).type):
            absent[name] = why
    chosen = [one for one in chosen if one[1].backend not in absent]
    metafunc.parametrize(("problem", "implementation"), chosen, ids=lambda part: part.id)


def _absence(name: str, device: str) -> str:
    """Why a backend can't be timed on this kind of device, and what to do; "" if it can."""
    try:
        backend = kernelzoo.get(name)
    except BackendUnavailableError as error:
        remedy = error.remedy.replace("'kernelzoo[", "'.[")  # this is a clone
        command = re.search(r"pip install (?:'[^']*'|\S+)", remedy)
        return f"{error.reason}; {command[0] if command else re.split(r'[,;] | [(]', remedy)[0]}"
    if backend.emulator:
        return f"{backend.emulator} runs here, and its times mean nothing"
    if device not in backend.devices:
        return f"it takes tensors on {' or '.join(backend.devices)} here; name it with --device"
    return ""


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """What is measured, and a line for each backend that isn't."""
    if not config.getoption("--benchmark-only", default=False):
        return []
    return live.beginning(measure.device_name(str(_device(config))), config.stash[ABSENT])


def _problems(config: pytest.Config) -> Iterator[measure.Problem]:
    """Of the operations that are named; or of softmax, min and those that a user has declared."""
    shapes, seed = config.getoption("--shapes"), config.getoption("--seed")
    dtypes, ops = _words(config, "--dtype"), _words(config, "--op")
    if not ops:
        known = operations.OPERATIONS
        own = (name for name in known if name not in operations.BUILT_IN and known[name].by_rows)
        ops = (*operations.MAPPED, *own)
    yield from measure.problems(shapes, ops, dtypes, seed)


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
    return limits(device) if device.type == "cuda" and launches else None


class Races:
    """Runs the race of a problem when its first result is asked for, with all that were collected for it."""

    def __init__(
        self, items: list[pytest.Item], device: torch.device, config: pytest.Config, ceilings: measure.Ceilings | None
    ) -> None:
        self.device, self.ceilings, self.config = device, ceilings, config
        self.rounds, self.cache = config.getoption("--rounds"), config.getoption("--cache")
        self.timed = config.getoption("--clock")
        self.checker = Guard(str(device), config.getoption("--module")) if config.getoption("--cross-check") else None
        self.entrants: dict[measure.Problem, list[registry.Implementation]] = {}
        for item in items:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            if "problem" in params:
                self.entrants.setdefault(params["problem"], []).append(params["implementation"])
        self.last: tuple[measure.Problem, dict[str, measure.Measurement]] | None = None
        self.done, self.told = 0, set[str]()

    def result(self, problem: measure.Problem, implementation: registry.Implementation) -> measure.Measurement:
        if self.last is None or self.last[0] != problem:
            self.done += 1
            live.say(self.config, live.heading(problem.id, self.done, len(self.entrants)))
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
            live.say(self.config, *live.rows(problem, measured, self.told))
        return self.last[1][implementation.id]


@pytest.fixture(scope="session")
def races(request: pytest.FixtureRequest, device: torch.device, ceilings: measure.Ceilings | None) -> Iterator[Races]:
    races = Races(request.session.items, device, request.config, ceilings)
    yield races
    if races.checker is not None:
        races.checker.close()


def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """No letter for what the lines of its problem show: a time, or a problem that a form doesn't take."""
    if not config.getoption("--benchmark-only", default=False) or report.failed or "test_bench" not in report.nodeid:
        return None
    if report.skipped:
        return "not taken", "", ""
    return ("passed", "", "") if report.when == "call" else None


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, object]) -> None:
    device = str(_device(config))
    machine_info["device"] = measure.device_name(device)
    machine_info["versions"] = measure.versions(device)
    machine_info.pop("node", None)  # whose machine it was is nobody's business
