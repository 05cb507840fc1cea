"""Synthetic results: what the benches would write, with times that are easy to reckon with."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

Entry = dict[str, Any]
Write = Callable[..., Path]


@pytest.fixture(scope="session")
def entry() -> Callable[..., Entry]:
    """Make one entry of ``benchmarks``; a keyword replaces a field of its extra_info."""

    def make(
        id: str = "torch/softmax/eager",
        shape: tuple[int, ...] = (4096, 256),
        us: float = 10.0,
        data: list[float] | None = None,
        **extra: Any,
    ) -> Entry:
        backend, op, variant = id.split("/")
        size = 4
        for length in shape:
            size *= length
        info: Entry = {
            "id": id, "backend": backend, "op": op, "variant": variant, "shape": list(shape), "dim": -1,
            "dtype": "float32", "bytes": 2 * size, "gb_per_s": 2 * size / us / 1e3, "submit_us": 5.0, "samples": 50,
            "clock": "device", "clock_detail": "CUDA graph between events, L2 cold", "device": "NVIDIA H200",
            "ceiling_gb_per_s": 4000.0, "floor_us": 1.0, "shape_set": "sweep",
            "versions": {"python": "3.12.1", "torch": "2.11.0", "driver": "580.95"},
        }  # fmt: skip
        stats = dict.fromkeys(("min", "max", "mean", "median"), us / 1e6) | {"stddev": 0.0, "iqr": 0.0, "rounds": 50}
        if data is not None:
            stats["data"] = [sample / 1e6 for sample in data]
            info["samples"] = len(data)
        return {"name": f"test_{op}[{id}]", "stats": stats, "extra_info": info | extra}

    return make


@pytest.fixture(scope="session")
def write_into() -> Callable[..., Path]:
    """Write entries into a folder as pytest-benchmark does, and ``ours`` beside them; hands back the path."""

    def to_file(
        folder: Path,
        entries: list[Entry],
        name: str = "results.json",
        date: str = "2026-01-02T03:04:05+00:00",
        ours: Any = None,
    ) -> Path:
        path = folder / name
        commit = {"id": "0123456789abcdef", "dirty": False}
        document = {
            "machine_info": {}, "commit_info": commit, "benchmarks": entries, "datetime": date, "version": "5.2.3",
        }  # fmt: skip
        if ours is not None:
            document["kernelzoo"] = ours
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return to_file


@pytest.fixture
def write(write_into: Callable[..., Path], tmp_path: Path) -> Write:
    return partial(write_into, tmp_path)


@pytest.fixture(scope="session")
def sweep(entry: Callable[..., Entry]) -> list[Entry]:
    """Softmax and min on the H200: 98 column counts, twelve and four implementations, and two shapes off the sweep."""
    softmax = {
        "torch/softmax/eager": 2.0, "torch/softmax/compile": 1.6, "torch/softmax/naive": 6.0,
        "triton/softmax/auto": 1.2, "triton/softmax/fused": 1.3, "triton/softmax/multi_row": 1.25,
        "triton/softmax/online": 1.7, "triton/softmax/persistent": 1.22, "triton/softmax/split": 2.6,
        "cupy/softmax/auto": 1.4, "cupy/softmax/block": 1.45, "numba/softmax/auto": 3.0,
    }  # fmt: skip
    minimum = {"torch/min/eager": 1.5, "torch/min/naive": 1.6, "triton/min/auto": 1.1, "triton/min/rows": 1.3}
    shapes = [(4096, n) for n in range(256, 12673, 128)] + [(1823, 781), (16, 262144)]
    made = []
    for times, passes in ((softmax, 2), (minimum, 1)):
        for id, slower in times.items():
            for rows, columns in shapes:
                if id.endswith("multi_row") and columns > 2048:
                    continue
                size = passes * 4 * rows * columns
                wobble = 1 + 0.04 * ((columns // 128 * 7 + len(id)) % 5) / 5
                us = 1.5 + size / 4e6 * slower * wobble * (1 + 0.1 * (columns > 8192))
                made.append(entry(id, (rows, columns), us, bytes=size, ceiling_gb_per_s=4000.0 + 200 * (passes == 1)))
    return made


@pytest.fixture(scope="session")
def host(entry: Callable[..., Entry]) -> list[Entry]:
    """Softmax on a host under the wall clock: no sweep, no ceiling; ``cpu`` wins the large problem only."""
    facts = {"device": "Some <CPU> | 2 cores", "clock": "wall", "clock_detail": "perf_counter", "shape_set": "quick"}
    facts |= {"submit_us": None, "ceiling_gb_per_s": None, "floor_us": None}
    times = {
        "torch/softmax/eager": (100.0, 20000.0),
        "torch/softmax/naive": (300.0, 60000.0),
        "cpu/softmax/auto": (120.0, 15000.0),
    }
    shapes = ((128, 256), (4096, 4096))
    return [entry(id, shape, us, **facts) for id, both in times.items() for shape, us in zip(shapes, both, strict=True)]


@pytest.fixture
def failure() -> Callable[..., Entry]:
    """Make one entry of ``failed`` in the object ``kernelzoo``; a keyword replaces a field."""

    def make(**fields: Any) -> Entry:
        made = {"id": "triton/softmax/fused", "op": "softmax", "shape": [8, 1048576], "dim": -1, "dtype": "float32"}
        return made | {"outcome": "refused", "reason": "holds a row in registers; use online"} | fields

    return make


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Any]:
    """Write the page of some results, and read it."""
    from page_reader import Page

    from kernelzoo.report.page import write_page

    def make(results: Any, **options: Any) -> Page:
        path = tmp_path / "out" / "report.html"
        write_page(results, path, **{"title": "On the H200"} | options)
        return Page(path)

    return make


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from browser import browsers

    yield from browsers()


@pytest.fixture(scope="module")
def page_file(sweep, host, entry, write_into, tmp_path_factory) -> Path:
    """A sweep, shapes side by side on the host, and one of each thing that has a table of its own."""
    from kernelzoo.report import load
    from kernelzoo.report.page import write_page

    told = {"device": "Some <script>alert(1)</script> GPU", "flags": ["host-bound"], "repeated_rounds": 1}
    shapes = [(1000003 + i, 33 + i, 5) for i in range(20)]
    odd = [
        entry(id, shape, data=[10.0 + i / 100 for i in range(9)], **told)
        for id in ("torch/softmax/eager", "a/softmax/auto")
        for shape in shapes
    ]
    odd += [
        entry("b/softmax/auto", shapes[0], us=4.0, data=[4.0] * 9, **told | {"flags": ["disturbed"]}),
        entry("c/softmax/library", shapes[0], us=3.0, data=[3.0] * 9, breaks="NaN is <b>dropped</b>", **told),
    ]
    half = [entry(id, (8, 8), dtype="float16") for id in ("torch/softmax/eager", "cupy/softmax/auto")]
    failed = {"id": "a/softmax/b", "op": "softmax", "shape": [8, 8], "dim": 1, "dtype": "float32"}
    ours = {"format": 1, "failed": [failed | {"outcome": "wrong", "reason": "very " * 100 + "x" * 300}]}
    folder = tmp_path_factory.mktemp("page")
    results = load([write_into(folder, sweep + host + odd + half, ours=ours)])
    path = folder / "report.html"
    old = load([write_into(folder, sweep + host, "old.json")])
    write_page(results, path, against=old, title="On a telephone and on paper")
    return path


@pytest.fixture
def visit(browser: Any, page_file: Path) -> Iterator[Callable[..., Any]]:
    """Open a page; what a visit did that it shouldn't fails the test."""
    from browser import Visit

    visits: list[Any] = []

    def make(hash: str = "", path: Path = page_file, **context: Any) -> Visit:
        visits.append(Visit(browser, path, hash, **context))
        return visits[-1]

    yield make
    for made in visits:
        made.context.close()
    assert [made.trouble for made in visits] == [[] for _ in visits]
