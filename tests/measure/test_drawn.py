"""Samples of problems: the same by the seed, within bounds, and of every kind."""

import math

import pytest

from kernelzoo import measure
from kernelzoo.errors import UnknownNameError
from kernelzoo.measure.problems import LARGEST, SMALLEST, random_sample_size

SAMPLE = measure.problems("random:400", ("softmax",), seed=5)


def test_a_seed_gives_the_same_sample_and_another_seed_another() -> None:
    assert measure.problems("random:400", ("softmax",), seed=5) == SAMPLE
    assert measure.problems("random:30", ("softmax",), seed=5) == SAMPLE[:30]
    assert not {*measure.problems("random:400", ("softmax",), seed=6)} >= {*SAMPLE[:10]}
    assert measure.problems("random:2", ("softmax",), seed=5)[0].id == "softmax-bfloat16-14x1524272-dim0"
    other = measure.problems("random:400", ("min",), seed=5)  # each operation has as many, of the same shapes
    assert [(p.shape, p.dtype, p.dim) for p in other] == [(p.shape, p.dtype, p.dim) for p in SAMPLE]


def test_a_sample_is_within_its_bounds_and_of_every_kind() -> None:
    assert len({*SAMPLE}) == 400
    sizes = [problem.bytes for problem in SAMPLE]
    assert SMALLEST <= min(sizes) < 2 * SMALLEST and LARGEST / 2 < max(sizes) <= LARGEST
    decades = [sum(4**i <= size < 4 ** (i + 1) for size in sizes) for i in range(8, 15)]
    assert all(20 < count < 130 for count in decades)  # log-uniform: as many small as large
    for kind in (
        [problem.dim == 0 for problem in SAMPLE],
        [problem.shape[-1] % 2 == 1 for problem in SAMPLE],
        [problem.dtype == "bfloat16" for problem in SAMPLE],
        [problem.shape[0] > problem.shape[1] for problem in SAMPLE],
    ):
        assert 140 < sum(kind) < 260
    assert 60 < sum(problem.shape[-1] % 16 == 0 for problem in SAMPLE) < 160
    lengths = [math.log2(problem.shape[problem.dim]) for problem in SAMPLE]
    assert min(lengths) < 3 and max(lengths) > 22


@pytest.mark.parametrize(
    "name", ["random", "random:", "random:0", "random:-1", "random:1e3", "random:10001", "random:٣"]
)
def test_what_names_no_sample_is_refused(name: str) -> None:
    assert random_sample_size(name) == 0
    with pytest.raises(UnknownNameError, match="no shape set"):
        measure.problems(name)


def test_results_name_a_sample_with_its_seed() -> None:
    assert measure.label("random:200", 7) == "random:200, seed 7" and measure.label("map", 7) == "map"
