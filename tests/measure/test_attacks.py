"""Attacks on the judge, each by a class that the threat model names: rejected, or timed as the work that it does."""

import re
from pathlib import Path
from typing import Any

import pytest
from registered import forget_operation

from kernelzoo.measure import Problem
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.measurement import BUSY

pytestmark = pytest.mark.slow

SHARED = Path(__file__).parents[1] / "shared"
SOFTMAX = Problem("softmax", (256, 512), "float32")
PRODUCT = Problem("product", (128, 128), "float32", sizes=(("N", 128),))


@pytest.fixture
def guard():
    with Guard("cpu", [str(SHARED / "products.py"), str(SHARED / "attacks.py")], patience=60) as made:
        yield made
    forget_operation("product")  # this process has learned of it


def names(outcome: str) -> list[str]:
    """The attacks in the file whose outcome is given as a reason, or as HONEST."""
    text = (SHARED / "attacks.py").read_text(encoding="utf-8")
    found = re.findall(r'@attack\((HONEST|"[^"]*")(?:, op="(\w+)")?\)\nclass (\w+)', text)
    assert len(found) == text.count("@attack(") and len(found) >= 13
    return [f"{op or 'softmax'}/{name}" for kind, op, name in found if (kind == "HONEST") == (outcome == "HONEST")]


def reason_of(name: str) -> str:
    text = (SHARED / "attacks.py").read_text(encoding="utf-8")
    found = re.search(rf'@attack\("([^"]*)"(?:, op="\w+")?\)\nclass {name}\(', text)
    assert found is not None
    return found[1]


def raced(guard: Guard, problem: Problem, ids: list[str], rounds: int) -> tuple[list[Any], list[Any]]:
    """A row without a time, since the host was busy, is measured again."""
    for _ in range(10):
        done, failed = guard.race(problem, ids, rounds=rounds)
        if not any(one.get("kind") == BUSY for one in failed):
            break
    return done, failed


@pytest.mark.parametrize("attack", names("rejected"))
def test_it_has_no_result(attack: str, guard: Guard) -> None:
    """And the honest kernel of another file keeps its own."""
    op, name = attack.split("/")
    ids = [f"attack/{attack}"] + ["cpu/softmax/auto"] * (op == "softmax")
    done, failed = raced(guard, SOFTMAX if op == "softmax" else PRODUCT, ids, 6)
    assert [entry["extra_info"]["id"] for entry in done] == ids[1:]
    (lost,) = failed
    assert lost["id"] == ids[0] and re.search(reason_of(name), lost["reason"]), lost


@pytest.mark.parametrize("attack", names("HONEST"))
def test_its_time_is_that_of_its_work(attack: str, guard: Guard) -> None:
    """The file sets its own number of threads, which harms nobody."""
    op, _ = attack.split("/")
    ids = [f"attack/{attack}"] + ["cpu/softmax/auto"] * (op == "softmax")
    done, failed = raced(guard, SOFTMAX if op == "softmax" else PRODUCT, ids, 2)
    if op == "softmax":
        assert ids[1] in {entry["extra_info"]["id"] for entry in done}
    if "thread" in attack and failed:  # what it writes late is wrong
        assert failed[0]["outcome"] == "wrong"
        return
    assert failed == []
    assert sorted(entry["extra_info"]["id"] for entry in done) == sorted(ids)
