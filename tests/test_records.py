"""bench/records.py: what runs when on which GPU, and what becomes of a command that ends badly or not in time."""

import gzip
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripts import loaded

ROOT = Path(__file__).parents[1]
records = loaded(ROOT / "bench" / "records.py")

NOTES = (
    "import json, os, sys, time; began = time.time(); time.sleep({seconds});"
    " json.dump([began, time.time(), os.environ['CUDA_VISIBLE_DEVICES']], open(sys.argv[-1], 'w'))"
)
WRITES_WHEN_INTERRUPTED = """
import sys, time
try:
    time.sleep(60)
except KeyboardInterrupt:
    open(sys.argv[-1], 'w').write('a part')
    sys.exit(130)
"""


WAITS = 'python -c "import time; time.sleep(60)" {}'


def noting(name: str, seconds: float = 0.3, **settings) -> records.Record:
    """Takes so long, and writes when and on which GPUs it ran."""
    return records.Record(f"{name}.json", f'python -c "{NOTES.format(seconds=seconds)}" {{}}', 1, **settings)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys):
    """Run these records on GPUs that nobody has; the exit status, and the folder of the results."""
    (tmp_path / "bench" / "results").mkdir(parents=True)
    monkeypatch.setattr(records, "ROOT", tmp_path)
    monkeypatch.setattr(records, "_name", lambda gpu: "g1")

    def run(
        *made: records.Record, gpus: str = "0,1", minutes: float = 1, names: tuple[str, ...] = ()
    ) -> tuple[int, str, Path]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
        monkeypatch.setattr(records, "RECORDS", made)
        status = records.main(["run", *names, "--minutes", str(minutes)])
        return status, capsys.readouterr().out, tmp_path / "bench" / "results"

    return run


def times(folder: Path, *names: str) -> list[tuple[float, float, str]]:
    return [json.loads((folder / f"g1-{name}.json").read_text(encoding="utf-8")) for name in names]


def test_clocks_are_read_one_after_the_other_and_checks_run_beside_them(run) -> None:
    made = [noting("a", alone=True), noting("b", alone=True), noting("c"), noting("both", alone=True, gpus=2)]
    status, said, folder = run(*made)
    a, b, c, both = times(folder, "a", "b", "c", "both")
    assert status == 0 and said.count(": done") == 4
    assert a[1] <= b[0] <= b[1] <= both[0] and c[0] < a[1]
    assert [a[2], b[2], c[2], both[2]] == ["0", "0", "1", "0,1"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_sweep_takes_all_gpus_and_goes_on_where_it_was_cut_off(run, tmp_path: Path, resume: bool) -> None:
    left = tmp_path / "out" / "records" / "g1-a.json"
    left.parent.mkdir(parents=True)
    left.write_text("part ", encoding="utf-8")
    adds = "import os, sys; open(sys.argv[1], 'a').write(' '.join([os.environ['CUDA_VISIBLE_DEVICES'], *sys.argv[2:]]))"
    sweep = records.Record("a.json", f'python -c "{adds}" {{}} --gpus all', 1000, alone=True)
    status, said, folder = run(sweep, noting("c"), minutes=30, names=("a", "c", *["--resume"] * resume))
    assert status == 0, said
    there = "part 0,1 --gpus all --resume" if resume else "0,1 --gpus all"
    assert (folder / "g1-a.json").read_text(encoding="utf-8") == there
    assert times(folder, "c")[0][0] >= (folder / "g1-a.json").stat().st_mtime - 0.1, "a check ran beside a sweep"


def test_a_long_sweep_is_begun_where_it_goes_on_or_several_gpus_share_it(run) -> None:
    sweep = records.Record("a.json", "python -c 1 {} --gpus all", 200)
    assert "not begun" in run(sweep, gpus="0")[1]
    assert "not begun" not in run(sweep, gpus="0", names=("--resume",))[1]
    assert "not begun" not in run(sweep, gpus="0,1")[1]


def test_on_one_gpu_all_take_turns(run) -> None:
    made = noting("c"), noting("a", alone=True), noting("both", gpus=2)
    status, said, folder = run(*made, gpus="3")
    a, c = times(folder, "a", "c")
    assert status == 0 and a[1] <= c[0] and a[2] == c[2] == "3"
    assert "both: not begun: it takes 2 GPUs" in said and not (folder / "g1-both.json").exists()
    assert run(*made, gpus="3", names=("c", "both"))[0] == 1


def test_the_record_of_all_gpus_is_named_by_their_number(run) -> None:
    made = noting("ranks", alone=True, gpus=2, ranks=True), noting("one", alone=True)
    status, _, folder = run(*made, gpus="0,1,2,3")
    assert status == 0 and sorted(path.name for path in folder.iterdir()) == ["g1-one.json", "g1x4-ranks.json"]
    assert json.loads((folder / "g1x4-ranks.json").read_text(encoding="utf-8"))[2] == "0,1,2,3"
    assert "ranks: not begun: it takes 2 GPUs" in run(*made, gpus="3")[1]


def test_only_what_is_named(run) -> None:
    _, _, folder = run(noting("a"), noting("b"), names=("b",))
    assert [path.name for path in folder.iterdir()] == ["g1-b.json"]
    with pytest.raises(SystemExit):
        run(noting("a"), names=("nothing",))


def test_what_fails_says_so_and_the_rest_goes_on(run) -> None:
    status, said, folder = run(records.Record("bad.json", 'python -c "raise SystemExit(3)" {}', 1), noting("b"))
    assert status == 1 and "bad: exit status 3, see out/records/bad.log" in said
    assert (folder / "g1-b.json").exists()


def test_what_is_cut_off_keeps_what_it_has(run, tmp_path: Path) -> None:
    long = records.Record("long.json", f'python -c "{WRITES_WHEN_INTERRUPTED}" {{}}', 2)
    (tmp_path / "bench" / "results" / "g1-long.json").write_text("whole", encoding="utf-8")
    began = time.monotonic()
    status, said, folder = run(long, noting("late"), minutes=3 / 60)
    assert status == 1 and time.monotonic() - began < 20
    assert "long: cut off at the end of the time" in said and "late: not begun: too little time is left" in said
    assert (tmp_path / "out" / "records" / "g1-long.json").read_text(encoding="utf-8") == "a part"
    assert (folder / "g1-long.json").read_text(encoding="utf-8") == "whole"


def test_a_background_jobs_commands_end_when_asked(tmp_path: Path) -> None:
    """A shell without job control has those ignore SIGINT, which a program inherits."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import records; from pathlib import Path;"
        "records.ROOT = Path(sys.argv[2]); records._name = lambda gpu: 'g1';"
        f"records.RECORDS = (records.Record('long.json', {WAITS!r}, 2),);"
        "records.main(['run', '--minutes', '0.05'])"
    )
    (tmp_path / "bench" / "results").mkdir(parents=True)
    ignoring = (
        "import signal, subprocess, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); subprocess.run(sys.argv[1:])"
    )
    command = [sys.executable, "-c", ignoring, sys.executable, "-c", program, str(ROOT / "bench"), str(tmp_path)]
    began = time.monotonic()
    done = subprocess.run(
        command, env=os.environ | {"CUDA_VISIBLE_DEVICES": "0"}, capture_output=True, text=True, timeout=60
    )
    assert "long: cut off at the end of the time" in done.stdout, done.stdout + done.stderr
    assert time.monotonic() - began < 15


def test_an_older_record_is_replaced_though_its_command_writes_over_nothing(run, tmp_path: Path) -> None:
    older = tmp_path / "bench" / "results" / "g1-a.json"
    older.write_text("older", encoding="utf-8")
    once = 'python -c "import sys; open(sys.argv[1], chr(120)).write(chr(110))" {}'
    for _ in range(2):
        status, said, _ = run(records.Record("a.json", once, 1))
        assert status == 0 and "a: done" in said and older.read_text(encoding="utf-8") == "n"


@pytest.mark.parametrize("older", [False, True])
def test_a_command_that_writes_nothing_has_not_done_it(run, tmp_path: Path, older: bool) -> None:
    there = {"g1-a.json.gz": b"older"} if older else {}
    for name, content in there.items():
        (tmp_path / "bench" / "results" / name).write_bytes(content)
    (tmp_path / "out" / "records").mkdir(parents=True)
    (tmp_path / "out" / "records" / "g1-a.json").write_text("a part, left by a run before", encoding="utf-8")
    (tmp_path / "pytest.py").write_text("", encoding="utf-8")
    status, said, folder = run(records.Record("a.json.gz", "pytest {}", 1))
    assert status == 1 and "a: wrote nothing" in said
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == there


def test_what_a_signal_ended_replaces_nothing(run, tmp_path: Path) -> None:
    (tmp_path / "bench" / "results" / "g1-a.json").write_text("whole", encoding="utf-8")
    killed = "import os, sys; open(sys.argv[1], chr(120)).write(chr(110)); os.kill(os.getpid(), 9)"
    status, said, folder = run(records.Record("a.json", f'python -c "{killed}" {{}}', 1))
    assert status == 1 and "a: exit status -9" in said
    assert (folder / "g1-a.json").read_text(encoding="utf-8") == "whole"


def test_a_record_s_command_names_no_path_of_this_machine(run, tmp_path: Path) -> None:
    told = 'python -c "import sys; open(sys.argv[1], chr(119)).write(sys.argv[1])" {}'
    _, _, folder = run(records.Record("a.json", told, 1))
    assert (folder / "g1-a.json").read_text(encoding="utf-8") == "out/records/g1-a.json"


def test_pytests_json_is_packed(run, tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("import sys; open(sys.argv[1], 'w').write('{}')", encoding="utf-8")
    status, said, folder = run(records.Record("submit.json.gz", "pytest {}", 1))
    assert status == 0, said
    assert gzip.decompress((folder / "g1-submit.json.gz").read_bytes()) == b"{}"
    assert not (folder / "g1-submit.json").exists()


def test_no_gpu_is_said(run, capsys) -> None:
    assert run(noting("a"), gpus="")[0] == 2


def test_every_committed_record_is_one_that_a_command_makes_or_is_older() -> None:
    older = {"h200-cross-check", "h200-sweep-a", "h200-sweep-b"}
    names = {path.name.partition(".")[0] for path in (ROOT / "bench" / "results").iterdir()} - older
    for gpus, ranks in (("", False), (r"x\d+", True)):
        committed = sorted(found[1] for name in names if (found := re.fullmatch(rf"[a-z]+\d+{gpus}-(.+)", name)))
        # One of each: an older one, of another GPU, is deleted; of ranks there may be one for each number.
        assert (sorted({*committed}) if ranks else committed) == sorted(
            {record.name for record in records.RECORDS if record.ranks == ranks}
        )


def test_pages_of_other_sets_are_of_the_committed_results() -> None:
    results, pages = ROOT / "bench" / "results", ROOT / "docs" / "records"
    verdicts = loaded(ROOT / "bench" / "other_sets.py").recorded([results / "h200-verdicts.json"])
    judged = json.loads((results / "h200-references.json").read_text(encoding="utf-8"))
    references = loaded(ROOT / "bench" / "references.py").recorded(judged)
    for name, made in (("verdicts", verdicts), ("references", references)):
        page = (pages / f"{name}.md").read_text(encoding="utf-8")
        assert f"<!-- results:{name} -->\n{made}\n<!-- /results -->" in page
    assert "27 right" in verdicts and "| passes |" in references


def test_definitions_come_from_the_whole_history(tmp_path: Path) -> None:
    clone, folder = tmp_path / "clone", tmp_path / "clone" / "definitions"
    folder.mkdir(parents=True)

    def commit(**texts: str) -> None:
        for old in folder.iterdir():
            old.unlink()
        for name, text in texts.items():
            (folder / f"{name}.json").write_text(text, encoding="utf-8")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "a change")):
            who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
            subprocess.run(["git", "-C", str(clone), *who, *words], check=True)

    keys = dict.fromkeys(("axes", "inputs", "outputs", "reference"))
    commit(kept=json.dumps(keys), removed=json.dumps({**keys, "name": "removed"}), list="[]", other="{}")
    commit(kept=json.dumps({**keys, "name": "newest"}))
    assert loaded(ROOT / "bench" / "other_sets.py").extract(clone, tmp_path / "to") == 2
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "to").rglob("*.json")}
    assert {name: definition["name"] for name, definition in found.items()} == {"kept": "newest", "removed": "removed"}
