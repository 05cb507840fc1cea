"""bench/jobs.py: what runs after the other, what together, and what is cut off or not begun."""

from pathlib import Path

from scripts import loaded

ROOT = Path(__file__).parents[1]
jobs = loaded(ROOT / "bench" / "jobs.py")

LIST = """
# a remark
first 5 sleep 0.3; echo one > {to}/made
second 5 cat {to}/made
never 900 echo never
+beside 4 echo a; exit 3
+long 0.2 sleep 60
0:left 4 until [ -e {to}/right ]; do sleep 0.1; done; echo $CUDA_VISIBLE_DEVICES
1:right 4 touch {to}/right; echo $CUDA_VISIBLE_DEVICES
"""


def test_jobs_run_in_order_and_together_within_the_time(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(LIST, encoding="utf-8")
    to = tmp_path / "to"
    assert jobs.main([str(tmp_path / "list.txt"), "--minutes", "0.3", "--to", str(to)]) == 0
    told = dict(line.split(": ", 1) for line in (to / "jobs.log").read_text().splitlines())
    assert {*list(told)[:2]} == {"left", "right"} and list(told)[2:5] == ["first", "second", "never"]
    assert told["left"].startswith("status 0")  # so it waited for what ran beside it
    assert [(to / f"{name}.log").read_text() for name in ("left", "right")] == ["0\n", "1\n"]
    assert told["first"].startswith("status 0") and told["beside"].startswith("status 3")
    assert told["never"].startswith("not begun") and told["long"].startswith("cut off")
    assert (to / "second.log").read_text() == "one\n"


def test_every_job_of_the_list_is_one() -> None:
    found = jobs.read((ROOT / "bench" / "jobs.txt").read_text(encoding="utf-8"))
    assert len({job.name for job in found}) == len(found) > 10
    assert all(Path(ROOT, word).exists() for job in found for word in job.command.split() if word.endswith(".py"))


def test_a_job_waives_what_it_measures() -> None:
    found = jobs.read((ROOT / "bench" / "jobs.txt").read_text(encoding="utf-8"))
    words = [part.split() for job in found for part in job.command.split(";") if "--waive" in part]
    assert words
    for given in words:
        names = "--op", "--backend", "--variant", "--waive"
        named = {name: given[given.index(name) + 1].split(",") for name in names}
        for id in named["--waive"]:
            backend, op, variant = id.split("/")
            assert backend in named["--backend"] and op in named["--op"] and variant in named["--variant"], id
