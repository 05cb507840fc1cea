"""Reading results: what is taken, in what order, and what is refused in which words."""

import json
import subprocess
import sys

import pytest

from kernelzoo.errors import KernelZooError
from kernelzoo.report import ResultsError, load, result_tables, sections
from kernelzoo.report.rows import document as data_of


def test_report_imports_no_kernel_language() -> None:
    code = (
        "import sys\nfrom kernelzoo.report import cards, findings, rows, sections, writing\n"
        "heavy = {'torch', 'triton', 'cupy', 'numba', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "kernels = [name for name in sys.modules if name.startswith('kernelzoo.kernels')]\n"
        "assert not heavy and not kernels, (heavy, kernels)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_share_of_limit_counts_an_unknown_floor_as_zero_and_needs_a_ceiling(entry, write) -> None:
    rows = load([write([entry(us=8.0, shape=(1000, 1000), floor_us=None)])]).groups[0].rows
    assert rows[0].of_limit == pytest.approx(0.25)
    rows = load([write([entry(ceiling_gb_per_s=None)])]).groups[0].rows
    assert rows[0].of_limit is None


def test_rows_of_other_devices_and_clocks_stay_apart(entry, write) -> None:
    entries = [entry(), entry(device="NVIDIA A100"), entry(clock="wall"), entry("triton/softmax/auto")]
    groups = load([write(entries)]).groups
    assert [(g.device, g.clock, len(g.rows)) for g in groups] == [
        ("NVIDIA A100", "device", 1),
        ("NVIDIA H200", "device", 2),
        ("NVIDIA H200", "wall", 1),
    ]


def test_hot_and_cold_caches_stay_apart_and_cold_is_what_older_files_mean(entry, write) -> None:
    groups = load([write([entry(), entry(cache="hot"), entry("triton/softmax/auto", cache="cold")])]).groups
    assert [(g.cache, g.label, len(g.rows)) for g in groups] == [
        ("cold", "NVIDIA H200, device clock", 2),
        ("hot", "NVIDIA H200, device clock, hot cache", 1),
    ]
    assert [group.select("softmax").mean_ratio("torch/eager") for group in groups] == [1.0, 1.0]


def test_samples_are_believed_and_not_the_summary_of_them(entry, write) -> None:
    """The median, the rate and the share are those of the samples; where the file says otherwise, so do all outputs."""
    data = [8.0, 9.0, 7.0, 8.0, 8.5, 7.5]
    true = entry(us=8.0, data=data, bytes=8_000_000, of_limit=3 / 8)
    rounded = entry("cpu/softmax/auto", us=8.0001, data=data, bytes=8_000_000, of_limit=0.37503)
    forged = entry("triton/softmax/auto", us=2.0, data=data, bytes=8_000_000, of_limit=0.9, gb_per_s=4000.0)
    for fine in (true, rounded):
        fine["extra_info"]["gb_per_s"] = 1000.0
    results = load([write([true, rounded, forged])])
    (group,) = results.groups
    for row in group.rows:
        assert (row.microseconds, row.gb_per_s, row.of_limit) == pytest.approx((8.0, 1000.0, 3 / 8))
    said = (
        "results.json: triton/softmax/auto on float32 (4096, 256): median 2 µs by its own summary, 8 µs by its "
        "samples; GB/s 4000 by its own summary, 1000 by its samples; of limit 0.9 by its own summary, "
        "0.375 by its samples"
    )
    assert results.summary_contradictions() == [said] == data_of(results)["differing"]
    assert said in sections.terminal_text(results)
    assert said.split("; ")[1] in sections.report(results, "Results", {})
    assert "median" not in sections.terminal_text(load([write([true, rounded])]))


def test_share_of_limit_is_the_one_told_and_hot_data_has_none_of_its_own(entry, write) -> None:
    made = [entry(of_limit=0.5), entry("cpu/softmax/auto", of_limit=None), entry("cpu/softmax/rows", cache="hot")]
    shares = {row.id: row.of_limit for group in load([write(made)]).groups for row in group.rows}
    assert shares == {"torch/softmax/eager": 0.5, "cpu/softmax/auto": None, "cpu/softmax/rows": None}


def test_what_newer_files_tell_is_read_and_what_older_ones_lack_is_empty(entry, write) -> None:
    told = {"race": "a1", "repeated_rounds": 2, "first_call_ms": 3.5, "cupti_us": 9.5, "flags": ["host-bound"]}
    state = [{"sm_mhz": 1980, "throttled": ["power", "heat"]}, {"sm_mhz": 1975, "power_w": None, "idle": False}]
    new = entry("triton/softmax/auto", data=[9.0, 10.0, 11.0], condition=state, **told)
    old, row = load([write([entry(), new])]).groups[0].rows
    assert (old.times, old.race, old.repeated_rounds, old.flags, old.condition) == ((), "", 0, (), ())
    assert old.first_call_ms is old.cupti_us is None
    assert row.times == pytest.approx((9e-6, 10e-6, 11e-6))
    assert (row.race, row.repeated_rounds, row.first_call_ms, row.cupti_us) == ("a1", 2, 3.5, 9.5)
    assert row.flags == ("host-bound",)
    assert row.condition == (
        ("sm_mhz", 1980.0), ("throttled", "power"), ("throttled", "heat"), ("sm_mhz", 1975.0), ("idle", "false"),
    )  # fmt: skip


def test_failures_are_read_with_their_reason(entry, write, failure) -> None:
    ours = {"format": 1, "failed": [failure(), failure(id="mine/softmax/x", outcome="wrong", reason="off by\n0.5")]}
    results = load([write([entry()], ours=ours)])
    first, second = results.failed
    assert (first.id, first.outcome, first.problem.shape) == ("triton/softmax/fused", "refused", (8, 1048576))
    assert (second.id, second.reason, second.run.file) == ("mine/softmax/x", "off by 0.5", "results.json")


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ({"format": 2}, "is of format 2, and this kernelzoo reads formats up to 1; read it with the kernelzoo that"),
        ({}, "lacks 'format'"),
        ({"format": "1"}, "'format' must be a positive whole number"),
        ([], "'kernelzoo' must be an object"),
        ({"format": 1, "failed": {}}, "'failed' must be a list"),
        ({"format": 1, "failed": [7]}, "failed[0] is not a JSON object"),
        ({"format": 1, "failed": [{"outcome": "late"}]}, "failed[0] 'outcome' must be 'refused', 'wrong' or 'failed'"),
        ({"format": 1, "failed": [{"outcome": "wrong"}]}, "failed[0] lacks 'reason'"),
    ],
)
def test_what_ours_cannot_be_is_told_in_words(entry, write, ours, words) -> None:
    with pytest.raises(ResultsError) as error:
        load([write([entry()], ours=ours)])
    assert words in str(error.value) and "results.json" in str(error.value)


def test_a_run_in_which_everything_failed_holds_no_results_but_joins_others(entry, write, failure) -> None:
    ours = {"format": 1, "failed": [failure()]}
    with pytest.raises(
        ResultsError, match="everything was refused, wrong or failed, the first triton/softmax/fused on"
    ):
        load([write([], "bad.json", ours=ours)])
    results = load([write([entry()], "good.json"), write([], "bad.json", ours=ours)])
    assert len(results.groups[0].rows) == len(results.failed) == 1


def test_ratios_are_taken_to_the_baseline_that_is_asked_for(entry, write) -> None:
    results = load([write([entry(us=10.0), entry("triton/softmax/auto", us=5.0)])])
    selection = results.relative_to("triton/auto").groups[0].select("softmax")
    assert selection.names == ["triton/auto", "torch/eager"]
    assert selection.mean_ratio("torch/eager") == pytest.approx(2.0)
    with pytest.raises(
        ResultsError, match="no results of 'triton/fast' to take ratios to; known: torch/eager, triton/a"
    ):
        results.relative_to("triton/fast")


@pytest.mark.parametrize("newest_first", [True, False])
def test_newest_run_wins_whatever_the_order_given(entry, write, newest_first) -> None:
    new = write([entry(us=5.0)], "new.json", "2026-02-01T00:00:00+00:00")
    old = write([entry(us=9.0), entry("torch/softmax/naive", us=30.0)], "old.json", "2026-01-01T00:00:00+00:00")
    (group,) = load([new, old] if newest_first else [old, new]).groups
    assert group.repeated == 1
    assert sorted(round(row.microseconds) for row in group.rows) == [5, 30]


@pytest.mark.parametrize(("outcome", "left"), [("wrong", 1), ("failed", 1), ("refused", 2)])
def test_a_newer_run_in_which_it_is_wrong_takes_its_time_away(entry, write, failure, outcome, left) -> None:
    ours = {"format": 1, "failed": [failure(shape=[4096, 256], outcome=outcome)]}
    old = write([entry(), entry("triton/softmax/fused")], "old.json", "2026-01-01T00:00:00+00:00")
    lost = write([entry(shape=(8, 8))], "new.json", "2026-02-01T00:00:00+00:00", ours)
    elsewhere = write([entry(device="NVIDIA A100")], "other.json", "2026-03-01T00:00:00+00:00", ours)
    assert len(load([old, elsewhere]).groups[1].rows) == 2
    results = load([lost, old, elsewhere])
    assert [len(group.rows) for group in results.groups] == [1, 1 + left]
    said = f"Without a result: triton/softmax/fused {outcome} on 2." in sections.terminal_text(results)
    assert said == (outcome != "refused")


def test_ratios_between_unlike_versions_are_told(entry, write) -> None:
    known = {"python": "3.12.1", "torch": "2.11.0", "triton": "3.6.0", "driver": "580.95"}
    ours = [
        entry("triton/softmax/auto", versions=known | told) for told in ({}, {"triton": "3.7.0", "driver": "590.1"})
    ]
    paths = [write(one, f"{n}.json", f"2026-01-0{n}") for n, one in enumerate(([entry(), ours[0]], ours[1:]), 1)]
    said = "NVIDIA H200, device clock: ratios to torch/eager compare runs with unlike versions: driver 580.95 and 590.1"
    assert said in sections.terminal_text(load(paths)) and said in sections.environment(load(paths))
    assert "unlike" not in sections.terminal_text(load(paths[:1]))


def test_implementations_are_ordered_baseline_first_and_auto_before_its_siblings(entry, write) -> None:
    variants = ["triton/fused", "triton/auto", "cpu/rows", "torch/compile", "torch/eager"]
    ids = [variant.replace("/", "/softmax/") for variant in variants]
    selection = load([write([entry(id) for id in ids])]).groups[0].select("softmax")
    assert selection.names == ["torch/eager", "torch/compile", "cpu/rows", "triton/auto", "triton/fused"]


def test_problems_are_ordered_by_size_and_negative_axes_count_from_the_end(entry, write) -> None:
    entries = [entry(shape=s) for s in ((4096, 1024), (4096, 256), (16, 262144), (7,), (2, 3, 4))]
    entries += [entry(shape=(4096, 256), dim=0), entry("torch/softmax/naive", (4096, 256), dim=1)]
    selection = load([write(entries)]).groups[0].select("softmax")
    assert list(map(str, selection.problems)) == [
        "(7,)", "(4096, 256) dim 0", "(16, 262144)", "(4096, 256)", "(4096, 1024)", "(2, 3, 4)",
    ]  # fmt: skip


def test_ratios_are_geometric_means_over_what_both_take(entry, write) -> None:
    entries = [entry(shape=(8, n), us=10.0) for n in (8, 16)]
    entries += [entry("cpu/softmax/auto", (8, n), us) for n, us in ((8, 5.0), (16, 80.0), (32, 1.0))]
    selection = load([write(entries)]).groups[0].select("softmax")
    assert selection.mean_ratio("cpu/auto") == pytest.approx(2.0)
    assert selection.mean_ratio("torch/eager") == 1.0
    table = result_tables.summary_table(selection)
    assert [[row[0].text, row[1].text, row[-1].text] for row in table.rows] == [
        ["cpu/softmax/auto", "2.00 over 2", "3 of 3"],
        ["torch/softmax/eager", "1.00", "2 of 3"],
    ]


def test_long_sweep_is_cut_to_powers_of_two_and_ends(sweep, write) -> None:
    selection = load([write(sweep)]).groups[0].select("softmax", "float32")
    assert len(selection.problems) == 100 and len(selection.sweep()) == 98
    columns = [p.shape[1] for p in selection.short_table_problems() if p.shape[0] == 4096]
    assert columns == [256, 512, 1024, 2048, 4096, 8192, 12672]
    assert {p.shape for p in selection.short_table_problems()} >= {(1823, 781), (16, 262144)}


def test_long_sweep_without_powers_of_two_is_cut_to_even_steps(entry, write) -> None:
    entries = [entry(shape=(64, n)) for n in range(3, 3 + 50 * 10, 10)]
    shown = load([write(entries)]).groups[0].select("softmax").short_table_problems()
    assert len(shown) == 10 and shown[0].shape == (64, 3) and shown[-1].shape == (64, 493)


BAD_FIELDS = [
    ("clock", "sundial", "'device', 'wall', 'call' or 'submit'"),
    ("shape", "4096", "a list of sizes"),
    ("shape", [], "a list of sizes"),
    ("shape", [4, 0], "a list of sizes"),
    ("shape", [True, 4], "a list of sizes"),
    ("dim", 2, "an axis of"),
    ("dim", -3, "an axis of"),
    ("dtype", "../../etc", "a name such as"),
    ("backend", 3, "a name such as"),
    ("id", "triton/softmax/eager", "'torch/softmax/eager'"),
    ("bytes", 0, "a positive whole number"),
    ("bytes", 10**400, "a positive whole number"),
    ("ceiling_gb_per_s", -1, "a positive number or null"),
    ("floor_us", float("nan"), "a finite number, got nan"),
    ("submit_us", 10**400, "a positive number or null"),
    ("device", " \n", "text"),
    ("versions", {"torch": 2}, "version texts"),
    ("samples", 1.5, "a positive whole number"),
    ("cache", "warm", "'cold' or 'hot'"),
    ("cache", None, "'cold' or 'hot'"),
    ("of_limit", 0, "a positive number or null"),
    ("repeated_rounds", -1, "a whole number, 0 or more"),
    ("repeated_rounds", True, "a whole number, 0 or more"),
    ("race", 7, "text"),
    ("flags", "host-bound", "a list of texts"),
    ("flags", [""], "a list of texts"),
    ("condition", "fine", "an object, a list of objects, or null"),
    ("condition", ["fine"], "an object, a list of objects, or null"),
    *(("stats.median", value, "a positive number of seconds") for value in (0.0, -1.0, None, "1", True)),
    ("stats.median", float("inf"), "a finite number"),
    ("stats.data", [1.0], "a list of 2 positive numbers of seconds"),
    *(("stats.data", value, "positive numbers of seconds") for value in ("1.0", [1.0, -1.0], [1.0, "2"])),
    ("stats.data", [1.0, float("nan")], "a finite number"),
    ("failed.id", "softmax", "'id' must be"),
    ("failed.op", "min", "'op' must be"),
    ("failed.shape", [], "'shape' must be"),
    ("failed.dim", 2, "'dim' must be"),
    ("failed.dtype", "a b", "'dtype' must be"),
    ("failed.reason", None, "'reason' must be"),
]


@pytest.mark.parametrize(("field", "value", "allowed"), BAD_FIELDS)
def test_bad_field_is_named_with_what_is_allowed(entry, write, failure, field, value, allowed) -> None:
    path = write([entry(samples=2), entry("torch/softmax/naive")], ours={"format": 1, "failed": [failure()]})
    document = json.loads(path.read_text())
    row, (failed,) = document["benchmarks"][0], document["kernelzoo"]["failed"]
    of, _, name = field.rpartition(".")
    {"": row["extra_info"], "stats": row["stats"], "failed": failed}[of][name] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ResultsError) as error:
        load([path])
    for part in (str(path), "failed[0]" if of == "failed" else "benchmarks[0]", name, allowed):
        assert part in str(error.value)
    assert isinstance(error.value, KernelZooError) and isinstance(error.value, ValueError)


@pytest.mark.parametrize("field", ["id", "clock", "versions", "bytes", "floor_us"])
def test_lacking_field_is_named(entry, write, field) -> None:
    lacking = entry()
    del lacking["extra_info"][field]
    with pytest.raises(ResultsError, match=f"lacks '{field}'"):
        load([write([lacking])])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("[]", "no list 'benchmarks'"),
        ("{}", "no list 'benchmarks'"),
        ('{"benchmarks": {}}', "no list 'benchmarks'"),
        ('{"benchmarks": []}', "no bench ran"),
        ('{"benchmarks": [1]}', "benchmarks[0] is not a JSON object"),
        ('{"benchmarks": [{"name": "other", "stats": {}}]}', "benchmarks[0] (other) lacks the objects"),
        ('{"benchmarks": [{"stats": {}, "extra_info": {}}]}', "lacks 'backend'"),
    ],
)
def test_what_is_no_results_file_is_refused_in_words(tmp_path, text, words) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ResultsError) as error:
        load([path])
    assert words in str(error.value) and str(path) in str(error.value)


def test_unreadable_files_are_refused_in_words(tmp_path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xff"}')
    for path, words in (("none.json", "No such file"), (".", "Is a directory"), ("latin.json", "not JSON")):
        with pytest.raises(ResultsError, match=words):
            load([tmp_path / path])
    with pytest.raises(ResultsError, match=r"no results file is named; .* kernelzoo bench -o"):
        load([])


def test_one_run_times_a_problem_once(entry, write) -> None:
    with pytest.raises(ResultsError, match=r"benchmarks\[0\] and \[1\] both time torch/softmax/eager on \(4096, 256\)"):
        load([write([entry(), entry(dim=1)])])


def test_commit_info_may_be_missing_and_dirty(entry, write) -> None:
    path = write([entry()])
    document = json.loads(path.read_text())
    for info, commit in (
        ({"id": "0123456789abc", "dirty": True}, "0123456789 with uncommitted changes"),
        (None, ""),
        ({}, ""),
    ):
        document["commit_info"] = info
        path.write_text(json.dumps(document))
        assert load([path]).groups[0].rows[0].run.commit == commit
