"""Attacks on the judge, each by a class that the threat model names: rejected, or timed as the work that it does."""

import re
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from registered import forget_operation

from kernelzoo.measure import Problem
from kernelzoo.measure.condition import DISTURBED
from kernelzoo.measure.guard import Guard
from kernelzoo.measure.measurement import BUSY
from kernelzoo.measure.worker_process import GuardError

pytestmark = pytest.mark.slow

SHARED = Path(__file__).parents[1] / "shared"
SOFTMAX = Problem("softmax", (256, 512), "float32")
PRODUCT = Problem("product", (128, 128), "float32", sizes=(("N", 128),))


@pytest.fixture
def guard():
    with Guard("cpu", [str(SHARED / "products.py"), str(SHARED / "attacks.py")], patience=60) as made:
        yield made
    forget_operation("product")  # this process has learned of it


TEXT = (SHARED / "attacks.py").read_text(encoding="utf-8")
ATTACKS = re.findall(r'@attack\((HONEST|"[^"]*")(?:, op="(\w+)")?\)\n(?:@warm\n)?def (\w+)', TEXT)
"""The reason of a rejection in quotes, or HONEST; the operation, if it is no softmax; and the name."""


def names(outcome: str) -> list[str]:
    """The attacks whose outcome is given as a reason, or as HONEST."""
    assert len(ATTACKS) == TEXT.count("@attack(") >= 13
    return [f"{op or 'softmax'}/{name}" for kind, op, name in ATTACKS if (kind == "HONEST") == (outcome == "HONEST")]


def raced(guard: Guard, problem: Problem, ids: list[str], rounds: int, reason: str = "") -> tuple[list[Any], ...]:
    """Repeat a race if the busy host decided it. ``reason``: the one that the first id is rejected for, if it is."""
    for _ in range(10):
        done, failed = guard.race(problem, ids, rounds=rounds)
        timed = [entry["extra_info"] for entry in done if entry["extra_info"]["id"] == ids[0]]
        lucky = reason and any(STARVED in ids or DISTURBED in one["flags"] for one in timed)
        busy = [one for one in failed if one.get("kind") == BUSY]
        if not lucky and all(one["id"] == ids[0] and rejected(one, reason) for one in busy):
            break
    return done, failed


STARVED = "attack/softmax/works_on_under_a_name"
"""Its process may get no processor beside others. Then it does no work, and the times are true."""


def rejected(one: Any, reason: str) -> bool:
    return bool(reason and re.search(reason, one["reason"]))


@pytest.mark.parametrize("attack", names("rejected"))
def test_it_has_no_result(attack: str, guard: Guard) -> None:
    """And the honest kernel of another file keeps its own."""
    op, name = attack.split("/")
    ids = [f"attack/{attack}"] + ["cpu/softmax/auto"] * (op == "softmax")
    (reason,) = (kind.strip('"') for kind, _, known in ATTACKS if known == name)
    done, failed = raced(guard, SOFTMAX if op == "softmax" else PRODUCT, ids, 6, reason)
    assert [entry["extra_info"]["id"] for entry in done] == ids[1:]
    (lost,) = failed
    assert lost["id"] == ids[0] and rejected(lost, reason), lost


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


FACTS = """
from attacks import runner, softmax
import kernelzoo.measure.runner
bind = runner().bind
runner().bind = lambda self, id, table=None: {**bind(self, id, table), "first_call": float("nan")}
kernelzoo.register("attack", "softmax", "simple")(lambda x, out: lambda: softmax(x, out))
"""


def test_facts_that_no_file_holds_cost_their_own_row(tmp_path: Path) -> None:
    (tmp_path / "facts.py").write_text(f"import sys; sys.path.append({str(SHARED)!r})\n{FACTS}")
    with Guard("cpu", [str(SHARED / "products.py"), str(tmp_path / "facts.py")], patience=60) as guard:
        done, (lost,) = raced(guard, SOFTMAX, ["attack/softmax/simple", "cpu/softmax/auto"], 2)
    assert [entry["extra_info"]["id"] for entry in done] == ["cpu/softmax/auto"]
    assert (lost["outcome"], lost["reason"][:27]) == ("failed", "its facts are no result: be"), lost


LOADED = """
import sys, warnings, torch, kernelzoo
from kernelzoo.errors import CacheWarning
main = sys.modules["__main__"]
about = main.about

@kernelzoo.register("mine", "softmax", "{name}")
def bind(x, out):
    def launch():
        while {warns}:
            warnings.warn(str(len(seen)), CacheWarning)
            seen.append(time.sleep(0.1))
        torch.softmax(x.squeeze(2), 1, out=out.squeeze(2))
    return launch
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('main.about = lambda device: {**about(device), "operations": [{"name": "any"}]}', "its source does not show"),
        ("main.about = lambda device: {}", "says nothing sensible of itself"),
        ('main.about = lambda device: {**about(device), "operations": [7]}', "says nothing sensible of itself"),
    ],
)
def test_what_a_file_says_of_itself_costs_it_alone(code: str, words: str, tmp_path: Path) -> None:
    files = [tmp_path / "said.py", tmp_path / "beside.py"]
    files[0].write_text(LOADED.format(name="said", warns=False) + code, encoding="utf-8")
    files[1].write_text(LOADED.format(name="beside", warns=False), encoding="utf-8")
    with Guard("cpu", [*map(str, files)], patience=60, needs={str(file): [] for file in files}) as guard:
        assert words in guard.about.refused[str(files[0])]
        assert [*guard.about.refused] == [str(files[0])] and "mine/softmax/beside" in guard.about.summaries


def test_no_two_files_have_one_id(tmp_path: Path) -> None:
    files = [tmp_path / "one.py", tmp_path / "other.py"]
    for file in files:
        file.write_text(LOADED.format(name="same", warns=False), encoding="utf-8")
    with pytest.raises(GuardError, match=f"it registers mine/softmax/same, which {files[0]} has"):
        Guard("cpu", [*map(str, files)], patience=60)


def test_warnings_are_no_sign_of_life(tmp_path: Path) -> None:
    file, began = tmp_path / "warns.py", time.monotonic()
    file.write_text("import time\nseen = []\n" + LOADED.format(name="warns", warns=True), encoding="utf-8")
    with Guard("cpu", [str(file)], patience=3) as guard, warnings.catch_warnings(action="ignore"):
        done, (lost,) = guard.race(SOFTMAX, ["mine/softmax/warns"], rounds=2)
    assert not done and "no sign of life" in lost["reason"] and time.monotonic() - began < 60


def on_gpu() -> list[tuple[str, str]]:
    """The attacks in the file of those in Triton, with the reason of the rejection; "" for an honest time."""
    text = (SHARED / "attacks_gpu.py").read_text(encoding="utf-8")
    found = re.findall(r'@attack\(\s*"(\w+)",\s*"[^"]*",\s*(?:HONEST|"([^"]*)"),?\s*\)', text)
    assert len(found) == text.count("@attack(") and len(found) >= 6
    return found


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(("name", "reason"), on_gpu())
def test_a_kernel_on_a_gpu(name: str, reason: str) -> None:
    """Those of kernelzoo beside it keep their results."""
    id, beside = f"attack/softmax/{name}", "triton/softmax/auto"
    with Guard("cuda", [str(SHARED / "attacks_gpu.py")], patience=60) as guard:
        done, failed = guard.race(SOFTMAX, [id, beside], rounds=8)
    assert [entry["extra_info"]["id"] for entry in done] == [beside] if reason else [id, beside]
    assert len(failed) == bool(reason)
    assert all(re.search(reason, one["reason"]) for one in failed), [one["reason"] for one in failed]


def test_the_threat_model_names_a_test_of_each_class() -> None:
    page = (SHARED.parents[1] / "docs" / "records" / "threat-model.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.count("|") == 5]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[4])}
    tried = {one.split("/")[1] for kind in ("rejected", "HONEST") for one in names(kind)} | dict(on_gpu()).keys()
    assert len(named) >= 15 and named <= tried, named - tried
