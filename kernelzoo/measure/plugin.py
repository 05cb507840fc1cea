"""A pytest plugin with the benchmarks' options and timer. A conftest in bench/ is read too late to add options."""

from collections.abc import Iterator

import pytest

from kernelzoo import packages
from kernelzoo.check.staying import forbid_exit_zero
from kernelzoo.measure.problems import PREFIX, SETS

TABLE = {"columns": ["median", "iqr"], "sort": "median"}
"""Default options of pytest-benchmark for a table of 80 columns."""


class SampleReplayTimer:
    """A timer that replays ``samples`` to pytest-benchmark. Each timed ``step`` takes as long as the next sample."""

    def __init__(self) -> None:
        self.now = 0.0
        self.samples: list[float] = []

    def __call__(self) -> float:
        return self.now

    def step(self) -> None:
        self.now += self.samples.pop(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelzoo", "what the benches measure")
    known = ", ".join([*SETS, f"{PREFIX}COUNT"])
    for name, default, words in (
        ("backend", "", "comma-separated backends (default: all)"),
        ("variant", "", "comma-separated variants (default: all)"),
        ("op", "", "comma-separated operations (default: all)"),
        ("dtype", "float32,bfloat16", "comma-separated dtypes (default: %(default)s)"),
        ("shapes", "quick", f"set of shapes: {known} (default: %(default)s)"),
        ("seed", 0, "of the problems that random:COUNT draws (default: %(default)s)"),
        ("device", "", "torch device (default: cuda where there is one, else cpu)"),
        ("rounds", 15, "samples of each implementation (default: %(default)s)"),
    ):
        group.addoption(f"--{name}", default=default, type=type(default), help=words)
    for name, choices, words in (
        ("cache", ("cold", "hot"), "state of the cache (default: %(default)s)"),
        ("clock", ("device", "call"), "time launches, or whole calls (default: launches)"),
    ):
        group.addoption(f"--{name}", default=choices[0], choices=choices, help=words)
    words = "a file that registers kernels; may be repeated"
    group.addoption("--module", default=[], action="append", metavar="FILE.py", help=words)
    group.addoption("--cross-check", action="store_true", help="on a GPU, time with the profiler's clock too")


@pytest.hookimpl(tryfirst=True)  # before pytest-benchmark reads its options
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--benchmark-only", default=False):
        config.option.verbose = config.option.verbose or -1  # the benchmarks print their own lines
        for option, usual in TABLE.items():
            if f"--benchmark-{option}" not in " ".join(config.invocation_params.args):
                setattr(config.option, f"benchmark_{option}", usual)
    for path in config.getoption("--module"):
        packages.load_module(path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    with forbid_exit_zero():
        yield
