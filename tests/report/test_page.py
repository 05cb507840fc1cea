"""The page, read as a browser's parser would read it: what it says, and that it says it safely."""

import base64
import hashlib
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")

from page_reader import Page

from kernelzoo.cli import main
from kernelzoo.report import load, sections
from kernelzoo.report import page as page_module

pytestmark = pytest.mark.slow

BAD = "<script>alert(1)</script>"
ROOT = Path(__file__).parents[2]
WEB = Path(page_module.__file__).with_name("web")
VENDOR = WEB / "vendor"


def test_ratios_of_any_size_are_told(entry, write, made) -> None:
    page = made(load([write([entry(us=1e6), entry("a/softmax/auto", us=1.0), entry("b/softmax/auto", us=1e9)])]))
    assert [row[:2] for row in page.tables["softmax: the fastest first"][1:]] == [
        ["a/softmax/auto", "0.00"],
        ["torch/softmax/eager", "1.00"],
        ["b/softmax/auto", "1000.00"],
    ]


def test_environment_names_what_the_figures_rest_on(entry, write, made) -> None:
    first = {"sm_mhz": 1980, "temperature_c": 41, "power_w": 123.055, "at_s": 0.0}
    state = [first, {"sm_mhz": 1980, "temperature_c": 52, "power_w": 520.507, "at_s": 9.0}]
    page = made(load([write([entry(condition=state)])]))
    for fact in (
        *("<dt>device</dt><dd>NVIDIA H200</dd>", "<dt>driver</dt><dd>580.95</dd>", "<dt>cache</dt><dd>cold</dd>"),
        *("<dt>ceiling for softmax</dt><dd>4000 GB/s</dd>", "<dt>smallest launch</dt><dd>1.00 µs</dd>"),
        *("<dt>sm</dt><dd>1980 MHz</dd>", "<dt>temperature</dt><dd>41 to 52 °C</dd>"),
        "<dt>power</dt><dd>123.1 to 520.5 W</dd>",
    ):
        assert fact in page.source
    assert "at_s" not in page.source and "<dt>at</dt>" not in page.source
    assert page.tables["Files"][1] == ["results.json", "2026-01-02 03:04", "0123456789", "sweep", "1", "50"]


def test_failures_of_one_reason_are_one_line_the_worst_first(entry, write, failure, made) -> None:
    wrong = failure(id="mine/softmax/x", outcome="wrong", reason="off " * 1000)
    held = "triton/softmax/persistent holds 64 at most, got 999, in a float32"
    alike = [
        failure(shape=[8, 5], reason="triton/softmax/fused holds 32 at most, got 5, in a float32"),
        failure(id="triton/softmax/persistent", reason=held),
    ]
    ours = {"format": 1, "failed": [failure(), wrong, *alike, failure(outcome="failed", reason=held)]}
    lines = made(load([write([entry()], ours=ours)])).tables["Without a result, and why"][1:]
    assert [line[:2] for line in lines] == [
        ["triton/softmax/fused", "failed"],
        ["mine/softmax/x", "wrong"],
        ["triton/softmax/fused, triton/softmax/persistent", "refused"],
        ["triton/softmax/fused", "refused"],
    ]
    assert lines[1][2].startswith("off off") and len(lines[1][2]) < 1010
    assert lines[2][2].endswith("float32\nand 1 more that differ in values or names") and lines[2][3] == "2"
    assert lines[2][4] == "float32 (8, 5); float32 (8, 1048576)"


@pytest.mark.nightly
def test_our_own_failures_fit_a_screen(made) -> None:
    paths = sorted((ROOT / "bench" / "results").glob("h200-[!l]*-*.json.gz"))
    assert 5 < len(made(load(paths)).tables["Without a result, and why"]) < 30


def test_what_breaks_the_contract_is_marked_wherever_it_has_a_time(entry, write, made) -> None:
    broken = entry("rival/softmax/library", us=8.0, of_limit=0.5, breaks="NaN is dropped")
    submit = entry("rival/softmax/library", us=3.0, clock="submit", breaks="NaN is dropped")
    page = made(load([write([entry(of_limit=0.4), broken, entry(clock="submit"), submit])]))
    marked = "rival/softmax/library †", "rival/library †"
    for caption, rows in page.tables.items():
        named = [cell for row in rows for cell in row if cell.startswith("rival/")]
        if named and not caption.startswith(("Timed although", "Time over", "softmax: each variant")):
            assert set(named) <= set(marked), (caption, named)
    assert page.tables["Timed although it breaks the contract"][1:] == [
        ["rival/softmax/library", "2", "NaN is dropped"]
    ]
    assert "Timed although it breaks the contract" in page.headings()


def test_versions_have_their_age_on_the_day_of_measuring(entry, write) -> None:
    (group,) = load([write([entry("torch/softmax/eager", (8, 8), 1.0)], date="2026-03-30T00:00:00")]).groups
    assert sections.version_ages(group) == [("python", "3.12.1"), ("torch", "2.11.0, 7 days old"), ("driver", "580.95")]


def test_comparison_says_what_changed_and_what_else_differs(entry, write, made) -> None:
    def run(name, date, driver, *times):
        versions = {"torch": "2.11.0", "driver": driver}
        rows = [entry(id, shape, us, data=[us] * 9, versions=versions) for id, shape, us in times]
        return load([write(rows, name, date)])

    fast = "triton/softmax/auto"
    eager = [("torch/softmax/eager", (8, n), 10.0) for n in (8, 16, 32)]
    old = run(
        "old.json",
        "2025-12-24T00:00:00",
        "570",
        *eager,
        (fast, (8, 8), 5.0),
        (fast, (8, 16), 5.0),
        (fast, (8, 64), 5.0),
    )
    new = run(
        "new.json",
        "2026-01-01T00:00:00",
        "580",
        *eager,
        (fast, (8, 8), 8.0),
        (fast, (8, 16), 4.0),
        (fast, (8, 32), 5.0),
    )
    page = made(new, against=old)
    assert page.tables["Summary"] == [
        ["operation", "compared", "slower", "faster", "same", "unclear", "now / before", "torch/eager alone"],
        ["softmax", "5", "1", "1", "3", "0", "1.051", "1.000"],
    ]
    verdicts = ["5.00", "8.00", "1.60", "1.60 to 1.60", "slower", "1.60"]
    assert page.tables["Slower: 1"][1:] == [[fast, "float32 (8, 8)", *verdicts]]
    assert [row[1] for row in page.tables["Faster: 1"][1:]] == ["float32 (8, 16)"]
    everything = page.tables["Every comparison, the worst slowdown first (5)"]
    assert [row[4] for row in everything[1:]] == ["1.60", "1.000", "1.000", "1.000", "0.80"]
    assert page.tables["What differs between the two runs"][1:] == [
        ["file", "old.json", "new.json"],
        ["measured", "2025-12-24 00:00", "2026-01-01 00:00"],
        ["driver", "570", "580"],
    ]
    assert "<summary>Only in the newer results: 1</summary>" in page.source
    assert f"<dt>{fast}</dt><dd>float32 (8, 64)</dd>" in page.source
    assert "What changed" in page.headings() and "What changed" not in made(new).headings()


def test_comparison_with_nothing_in_common_says_so(entry, host, write, made) -> None:
    page = made(load([write([entry()])]), against=load([write(host, "old.json")]))
    assert "nothing can be compared" in page.text
    assert "NVIDIA H200, device clock: only in the newer results" in page.text
    assert "Some <CPU> | 2 cores, wall clock: only in the older results" in page.text


def test_nothing_is_fetched_and_no_other_script_may_run(sweep, write, made) -> None:
    page = made(load([write(sweep)]))
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "data", "action", "poster", "background"} & set(attributes), (tag, attributes)
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
    styles = re.findall(r"<style>(.*?)</style>", page.source, re.DOTALL)
    assert not any(re.search(r"url\(|@import", style) for style in styles)
    (policy,) = (a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in page.code()]
    assert policy.split("; ")[:2] == ["default-src 'none'", "script-src" + "".join(f" 'sha256-{h}'" for h in hashes)]


@pytest.mark.nightly
def test_our_own_results_are_one_and_a_half_megabytes_at_most(made) -> None:
    results = ROOT / "bench" / "results"
    paths = {*results.glob("h?00-[!lp]*.json.gz")}  # people and lines have pages of their own
    page = made(load([*sorted(paths), results / "h200-profile.json"]))
    assert len(page.source.encode()) <= 1_500_000
    rows = sum(len(subject["columns"][0]) for subject in page.subjects())
    assert rows > 3000  # so it held something


def test_the_libraries_are_those_that_npm_ships_under_their_licences(host, write, made) -> None:
    page = made(load([write(host)]))
    told = (VENDOR / "README.md").read_text(encoding="utf-8")
    for (name, licence), code in zip(page_module.VENDOR, page.code(), strict=False):
        library = (WEB / name).read_bytes()
        assert hashlib.sha256(library).hexdigest() in told
        assert library.decode() in code and (WEB / licence).read_text(encoding="utf-8") in code


def test_the_same_results_give_the_same_page(host, write, made) -> None:
    results = load([write(host)])
    assert made(results).source == made(results).source


def test_page_can_be_read_without_seeing_it(sweep, write, made) -> None:
    page = made(load([write(sweep)]))
    by_tag: dict[str, list[dict[str, str | None]]] = {}
    for tag, attributes in page.elements:
        by_tag.setdefault(tag, []).append(attributes)
    assert by_tag["html"] == [{"lang": "en"}] and len(by_tag["h1"]) == len(by_tag["main"]) == 1
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in by_tag["meta"]
    assert len(by_tag["table"]) == len(by_tag["caption"]) and all(page.tables)
    images = [attrs for _, attrs in page.elements if attrs.get("role") == "img"]
    assert len(images) == 4 and all("The numbers are in the table" in attrs["aria-label"] for attrs in images)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids)) and {a["href"] for a in by_tag["a"]} <= {f"#{id}" for id in ids}


# The command.


def test_command_writes_the_page_and_what_changed(host, entry, write, tmp_path, capsys) -> None:
    out = tmp_path / "new" / "report.HTML"
    out.parent.mkdir()
    old = write(host, "old.json", "2025-01-01")
    arguments = [str(write(host)), "-o", str(out), "--against", str(old), "--baseline", "cpu/auto", "--title", "T & t"]
    assert main(["report", *arguments]) == 0
    assert f"{out} written" in capsys.readouterr().out
    page = Page(out)
    assert page.headings()[0] == "T &amp; t" and "What changed" in page.headings() and "time / cpu/auto" in page.text
    assert [path.name for path in out.parent.iterdir()] == ["report.HTML"]


def test_command_refuses_what_only_a_page_can_do(host, write, tmp_path, capsys) -> None:
    for output in ([], ["-o", str(tmp_path / "folder")]):
        assert main(["report", str(write(host)), "--against", str(write(host)), *output]) == 2
        assert "-o PAGE.html" in capsys.readouterr().err


def test_without_jinja_the_remedy_is_named(host, write, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "kernelzoo.report.page")
    assert main(["report", str(write(host)), "-o", str(tmp_path / "r.html")]) == 2
    assert "pip install 'kernelzoo[report]'" in capsys.readouterr().err
