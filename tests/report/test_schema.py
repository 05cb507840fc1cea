"""The schema of results: what it takes is read without an accident, and what it refuses is refused in words."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import kernelzoo.measure
from kernelzoo.errors import KernelZooError
from kernelzoo.measure.record import Record
from kernelzoo.report import ResultsError, load, sections

# Those of one GPU; of several there are tables alone.
MEASURED = sorted((Path(__file__).parents[2] / "bench" / "results").glob("h?00-*.json.gz"))
SCHEMA = json.loads(Path(kernelzoo.measure.__file__).with_name("results.schema.json").read_text(encoding="utf-8"))


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.name)
def test_what_was_measured_fits(path) -> None:
    assert load([path]).groups
    if path.stat().st_size < 20_000:  # by the plain rules too, without this package's formats
        Draft202012Validator(SCHEMA).validate(json.loads(gzip.decompress(path.read_bytes())))


def test_there_are_files_to_check() -> None:
    assert len(MEASURED) >= 5


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of every value in a document."""
    found = [place]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        found += places(part, (*place, key))
    return found


@pytest.fixture(scope="module")
def document(entry) -> dict[str, Any]:
    told = {"race": "a", "repeated_rounds": 1, "first_call_ms": 2.0, "cupti_us": 3.0, "of_limit": 0.5, "cache": "cold"}
    state = [{"sm_mhz": 1980, "throttled": ["power"]}, {"sm_mhz": 1975}]
    rows = [
        entry(id, shape=(8, 16), data=[9.0, 10.0, 11.0], flags=["host-bound"], condition=state, **told)
        for id in ("torch/softmax/eager", "triton/softmax/auto")
    ]
    failed = {"id": "a/softmax/b", "op": "softmax", "shape": [8, 8], "dim": 1, "dtype": "float32"}
    ours = {"format": 1, "failed": [failed | {"outcome": "wrong", "reason": "off"}]}
    facts = {"commit_info": {"id": "0123", "dirty": False}, "datetime": "2026-01-02", "machine_info": {"device": "d"}}
    return {"benchmarks": rows, "kernelzoo": ours, **facts}


HOSTILE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["../../etc/passwd", "a/b/c", "<script>", "\x1b]0;x\x07", "", " ", "torch/softmax/auto", "9" * 400]
    )
    | st.lists(st.integers() | st.text(max_size=3), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_changed_it_is_read_or_refused(document, data, tmp_path_factory) -> None:
    changed: Any = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from([place for place in places(changed) if place]))
        inner = changed
        for key in way:
            inner = inner[key]
        if data.draw(st.booleans()):
            inner[last] = data.draw(HOSTILE)
        else:
            del inner[last]
    folder = tmp_path_factory.mktemp("changed")
    path = folder / "r.json"
    path.write_text(json.dumps(changed))
    try:
        results = load([path])
    except ResultsError as refusal:
        said = [str(refusal)]
    else:
        said = []
        sections.report(results, "title", {})
        sections.terminal_text(results)
    before = path.read_bytes()
    try:
        Record(path, "d", resume=True)
    except KernelZooError as refusal:
        said.append(str(refusal))
    assert all("r.json" in words for words in said)
    assert path.read_bytes() == before and list(folder.iterdir()) == [path]


def test_each_field_of_the_wrong_type_is_refused(document, tmp_path) -> None:
    """None of them is taken for something else: an object fits nowhere but where one belongs."""
    path = tmp_path / "r.json"
    objects = ("condition", "versions", "extra_info", "stats", "kernelzoo", "commit_info", "machine_info")
    free = ("gb_per_s", "name", "datetime", "min", "max", "mean", "stddev", "iqr", "rounds", *objects)
    checked = 0
    for *way, last in places(document)[1:]:
        if "condition" in way or last in free or "commit_info" in way or "machine_info" in way:
            continue
        changed: Any = copy.deepcopy(document)
        inner = changed
        for key in way:
            inner = inner[key]
        inner[last] = {"an": "object"}
        path.write_text(json.dumps(changed))
        with pytest.raises(ResultsError):
            load([path])
        checked += 1
    assert checked > 60
