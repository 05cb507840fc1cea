"""The page in a real browser: it draws, follows its filters and its address, fits a telephone's screen and paper, and
asks nothing of any network."""

import re
import shutil
import zlib
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")
pytest.importorskip("playwright", reason="drives the browser: pip install playwright")

from playwright import sync_api

from kernelzoo.report import load, looks
from kernelzoo.report.page import write_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic"),
)
PAPER = (703, 1032)  # CSS pixels of A4 between margins of 12 mm
SOFTMAX = "#device=nvidia-h200-device-clock&op=softmax&dtype=float32"
FIRST_CHART = """new MutationObserver(() => {
  const drawn = document.querySelector("#limit svg path");
  if (!window.firstChart && drawn) window.firstChart = performance.now();
}).observe(document, { childList: true, subtree: true });"""

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome in PATH"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page_file(sweep, host, entry, write_into, tmp_path_factory) -> Path:
    """A sweep, shapes side by side on the host, and one of each thing that has a table of its own."""
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
    half = [
        entry(id, (8, 8), us, dtype="float16") for id, us in (("torch/softmax/eager", 2.0), ("cupy/softmax/auto", 1.0))
    ]
    failed = {"id": "a/softmax/b", "op": "softmax", "shape": [8, 8], "dim": 1, "dtype": "float32"}
    ours = {"format": 1, "failed": [failed | {"outcome": "wrong", "reason": "very " * 100 + "x" * 300}]}
    folder = tmp_path_factory.mktemp("page")
    results = load([write_into(folder, sweep + host + odd + half, ours=ours)])
    path = folder / "report.html"
    write_page(
        results, path, against=load([write_into(folder, sweep + host, "old.json")]), title="On a telephone and on paper"
    )
    return path


class Visit:
    """A page that is open, and all that it did which it shouldn't."""

    def __init__(self, browser, path: Path, hash: str = "", **context) -> None:
        self.trouble: list[str] = []
        context.setdefault("viewport", {"width": 1440, "height": 900})
        self.path = path
        self.context = browser.new_context(offline=True, **context)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.trouble.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on("request", self.asked)
        self.page.add_init_script(FIRST_CHART)
        self.page.goto(path.as_uri() + hash)
        self.until("document.body.dataset.drawn")

    def asked(self, request) -> None:
        if request.url.partition("#")[0] != self.path.as_uri():
            self.trouble.append(request.url)

    def until(self, holds: str) -> None:
        """Wait for a condition. Playwright's own way takes the page's leave to evaluate, which its policy refuses."""
        for _ in range(100):
            if self.page.evaluate(holds):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came: {holds}")

    def choose(self, key: str, value: str) -> None:
        """Take another value of a filter, and wait until all is drawn again."""
        before = self.page.evaluate("document.body.dataset.drawn")
        self.page.locator(f"#filters select[data-key={key}]").select_option(value)
        self.until(f"document.body.dataset.drawn !== '{before}'")

    def press(self, name: str) -> None:
        before = self.page.evaluate("document.body.dataset.drawn")
        self.page.locator("#filters").get_by_role("button", name=name, exact=True).click()
        self.until(f"document.body.dataset.drawn !== '{before}'")

    def points(self, figure: str) -> int:
        return self.page.locator(f"#{figure} [aria-label=dot] path, #{figure} [aria-label=dot] circle").count()

    def address(self) -> str:
        return self.page.evaluate("location.hash")

    def column(self, header: str, section: str = "#results") -> list[str]:
        """The texts below a header, line by line."""
        return self.page.evaluate(
            """([section, header]) => {
              const table = document.querySelector(`${section} table`);
              const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === header);
              return [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
            }""",
            [section, header],
        )

    def sideways(self) -> list[str]:
        """What reaches past the right edge of the screen and does not scroll in a box of its own."""
        return self.page.evaluate(
            "() => [...document.body.querySelectorAll('*')]"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
            ".filter((e) => !e.closest('.scroll, .plot svg'))"
            ".map((e) => e.outerHTML.slice(0, 80))"
        )


@pytest.fixture
def visit(browser, page_file):
    visits: list[Visit] = []

    def make(hash: str = "", path: Path = page_file, **context) -> Visit:
        visits.append(Visit(browser, path, hash, **context))
        return visits[-1]

    yield make
    for made in visits:
        made.context.close()
    assert [made.trouble for made in visits] == [[] for _ in visits]


DRAWN = "[...document.querySelectorAll('.plot svg')].map((svg) => Number(svg.getAttribute('width')))"
"""The widths that the figures are drawn for."""

WIDTHS = pytest.mark.parametrize("width", [390, 768, 1440])


@WIDTHS
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_on_a_headline_and_a_chart_without_an_error_or_a_request(visit, width, scheme) -> None:
    page = visit(viewport={"width": width, "height": 844}, color_scheme=scheme, is_mobile=width < 500)
    assert page.page.title() == "On a telephone and on paper"
    assert page.page.locator("#headline").text_content().startswith("softmax, float32, on NVIDIA H200")
    top = page.page.locator("#limit svg").first.bounding_box()
    assert top["y"] < 844  # on the first screen
    assert page.points("limit") == 4 * 100
    assert page.page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [width] * 2
    assert page.sideways() == []
    ground, words = page.page.evaluate(
        "[getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.querySelector('#limit svg text')).fill]"
    )
    dark = ("rgb(20, 23, 28)", "rgb(230, 233, 237)")
    assert (ground, words) == (dark if scheme == "dark" else ("rgb(255, 255, 255)", "rgb(26, 29, 33)"))


def test_the_first_chart_is_there_within_a_second(visit) -> None:
    """The least of five: what else runs on this machine only ever makes it later."""
    assert 0 < min(visit().page.evaluate("firstChart") for _ in range(5)) < 1000


def test_filters_drive_every_figure_the_table_and_the_address(visit) -> None:
    page = visit(SOFTMAX)
    before = page.points("limit")
    assert (before, page.points("ratios")) == (400, 300)
    assert len(page.page.locator("#heat .cells rect").all()) == 400
    page.choose("class", "short")
    assert page.points("limit") == 4 * 8 and "class=short" in page.address()
    page.press("cupy")
    assert page.points("limit") == 3 * 8 and "backend=torch,numba,triton" in page.address()
    assert page.page.locator("#heat .cells rect").count() == 3 * 8 and page.points("ratios") == 2 * 8
    assert {name.split("/")[0] for name in page.column("implementation")} == {"torch", "numba", "triton"}
    page.choose("variants", "all")
    assert page.points("limit") == (3 + 6 + 1) * 8
    page.choose("op", "min")
    assert page.page.locator("#headline").text_content().startswith("min, float32")
    assert page.page.locator(".scroll[data-op=min]:visible").count() > 0
    assert page.page.locator(".scroll[data-op=softmax]:visible").count() == 0
    page.choose("op", "softmax")
    page.choose("class", "")
    page.choose("dtype", "all")
    assert {"float16 (8, 8)", "float32 (4096, 256)"} <= set(page.column("shape"))
    page.choose("device", "some-cpu-2-cores-wall-clock")
    assert page.page.locator("#headline").text_content().startswith("softmax, float32, on Some <CPU> | 2 cores")
    assert page.page.locator("#nvidia-h200-device-clock").is_hidden()


def test_an_address_brings_back_its_view(visit) -> None:
    page = visit(f"{SOFTMAX}&class=odd&variants=all&backend=triton&y=speed&sort=GB/s:down&q=781&view=results")
    assert page.page.locator("#filters select[data-key=class]").input_value() == "odd"
    assert set(page.column("shape")) == {"(1823, 781)"} and len(page.column("shape")) == 6
    speeds = [float(text) for text in page.column("GB/s")]
    assert speeds == sorted(speeds, reverse=True)
    assert page.page.locator("#limit .roofline").count() == 1
    page.until("document.querySelector('#results').getBoundingClientRect().top < innerHeight")
    moved = "&".join(part for part in page.address().split("&") if not part.startswith("q="))
    page.page.evaluate("hash => { location.hash = hash; }", moved.replace("backend=triton", "backend=cupy"))
    page.until("document.querySelector('#results th[scope=row]').textContent.startsWith('cupy')")


@pytest.mark.parametrize(
    "said", ["#op=%3Cimg%3E&dtype=x&backend=,,&one=__proto__&sort=constructor&class=toString", "#x=1"]
)
def test_an_address_that_says_nonsense_shows_what_is_there(visit, said) -> None:
    assert visit(said).points("limit") == 400


def test_every_table_sorts_and_long_ones_are_searched(visit) -> None:
    page = visit(SOFTMAX)
    header = page.page.locator("#results thead").get_by_role("button", name="time, µs")
    header.click()
    times = [float(text) for text in page.column("time, µs")]
    assert times == sorted(times) and "sort=time" in page.address()
    page.page.locator("#results thead").get_by_role("button", name="time, µs").press("Enter")
    times = [float(text) for text in page.column("time, µs")]
    assert times == sorted(times, reverse=True)
    assert page.page.locator("#results [aria-sort=descending]").count() == 1
    page.page.get_by_label("Search in every result").fill("cupy 12288")
    assert set(page.column("implementation")) == {"cupy/auto"} and page.column("shape") == ["(4096, 12288)"]
    table = page.page.locator(".part:visible .scroll[data-op=softmax] table").first
    table.get_by_role("button", name="implementation").click()
    names = [cell.text_content() for cell in table.locator("tbody th").all()]
    assert names == sorted(names) and len(names) == 12
    page.page.get_by_label("Search in: softmax: the fastest first").fill("numba")
    assert [cell.text_content() for cell in table.locator("tbody th:visible").all()] == ["numba/softmax/auto"]


def test_headings_stay_in_sight(visit) -> None:
    page = visit(SOFTMAX)
    box = page.page.locator("#results .scroll")
    box.evaluate("box => { box.scrollTop = 600; }")
    tops = box.evaluate("box => [box, box.querySelector('thead th')].map((e) => e.getBoundingClientRect().top)")
    assert abs(tops[0] - tops[1]) < 3


def test_two_are_picked_and_compared(visit) -> None:
    page = visit(SOFTMAX)
    assert "cupy/auto and torch/eager, on the 100 problems" in page.page.locator("#compare caption").text_content()
    for key, value in (("one", "triton/auto"), ("other", "cupy/auto")):
        page.page.locator(f"#compare select[data-key={key}]").select_option(value)
    assert "one=triton/auto" in page.address() and "other=cupy/auto" in page.address()
    headers = page.page.locator("#compare thead").text_content()
    assert "triton/auto, µs" in headers and "time cupy/auto / triton/auto" in headers
    assert len(page.column("shape", "#compare")) == 100
    page.page.locator("#compare select[data-key=other]").select_option("torch/eager")
    assert "time triton/auto / torch/eager" in page.page.locator("#compare thead").text_content()
    assert page.page.locator("#compare .note").count() == 0
    page.choose("variants", "all")
    page.page.locator("#compare select[data-key=one]").select_option("triton/fused")
    page.page.locator("#compare select[data-key=other]").select_option("cupy/block")
    assert page.column("time cupy/block / triton/fused", "#compare")[0].startswith("≈ 1.1")
    assert "kernelzoo compare" in page.page.locator("#compare .note").text_content()
    other = page.path.as_uri() + page.address()
    page.page.goto("about:blank")
    page.page.goto(other)
    page.until("document.body.dataset.drawn")
    assert page.page.locator("#compare select[data-key=one]").input_value() == "triton/fused"


def test_a_point_tells_its_numbers_its_command_and_its_source(visit) -> None:
    page = visit(f"{SOFTMAX}&backend=triton")
    page.page.locator("#filters").evaluate("e => { e.open = false; }")
    point = page.page.locator("#limit [aria-label=dot] circle, #limit [aria-label=dot] path").first
    point.hover()
    said = page.page.locator("#limit [aria-label=tip]").text_content()
    assert "triton/auto" in said and "GB/s" in said and "of the limit" in said
    point.click()
    details = page.page.locator("#details")
    told = details.text_content()
    assert "triton/softmax/auto" in told and "results.json" in told and "commit 0123456789" in told
    assert "kernelzoo compare triton/softmax/auto torch/softmax/eager --shape " in told
    assert "kernelzoo inspect triton/softmax/auto --shape" in told
    assert "kernelzoo/kernels/triton/softmax/choose.py" in told
    assert "point=" in page.address()
    details.get_by_role("button", name="close").click()
    assert details.is_hidden() and "point=" not in page.address()
    page.page.locator("#results tbody").get_by_role("button").nth(2).press("Enter")
    assert details.is_visible()


def test_the_disturbed_and_the_waived_are_marked_wherever_they_rank(visit) -> None:
    page = visit("#device=some-script-alert-1-script-gpu-device-clock")
    names = page.column("implementation")
    assert "b/auto ~" in names and "c/library †" in names
    hollow = (
        "[...document.querySelectorAll('#{} [aria-label=dot] *')]"
        ".filter((e) => getComputedStyle(e).fill === 'rgba(0, 0, 0, 0)').length"
    )
    assert page.page.evaluate(hollow.format("limit")) == page.page.evaluate(hollow.format("ratios")) == 2
    for figure in ("limit", "ratios", "heat"):
        texts = page.page.locator(f"#{figure} svg [aria-label=text] text").all_text_contents()
        assert any("~" in text for text in texts) and any("†" in text for text in texts), figure
    page.page.locator("#results tbody").get_by_role("button", name="c/library †").click()
    assert "NaN is <b>dropped</b>" in page.page.locator("#details").text_content()


@pytest.mark.parametrize("width", [320, 390])
def test_nothing_reaches_past_the_edge_of_a_telephone(visit, width) -> None:
    page = visit(viewport={"width": width, "height": 844}, is_mobile=True, has_touch=True)
    for closed in page.page.locator("summary:visible").all():
        if not closed.evaluate("e => e.parentElement.open"):
            closed.click()
    page.page.locator("#results tbody").get_by_role("button").first.click()
    wide = page.page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]")
    assert wide == [width] * 3
    assert page.sideways() == []
    for device in ("some-cpu-2-cores-wall-clock", "some-script-alert-1-script-gpu-device-clock"):
        page.choose("device", device)
        assert page.sideways() == []
        assert page.page.evaluate(
            "[...document.querySelectorAll('.plot svg')].every((s) => s.clientWidth <= innerWidth)"
        )


def test_figures_follow_the_width_of_the_window(visit) -> None:
    page = visit()
    page.page.set_viewport_size({"width": 600, "height": 900})
    page.until(f"{DRAWN}.every((width) => width < 600)")
    assert page.page.evaluate("document.documentElement.scrollWidth") == 600


@WIDTHS
def test_axis_labels_do_not_lie_on_one_another(visit, width) -> None:
    for hash in ("", f"{SOFTMAX}&y=speed", "#device=some-script-alert-1-script-gpu-device-clock"):
        page = visit(hash, viewport={"width": width, "height": 844})
        overlaps = page.page.evaluate(
            """() => [...document.querySelectorAll('.plot svg')].flatMap((plot) => ['x', 'y'].flatMap((of) => {
              const texts = [...plot.querySelectorAll(`[aria-label="${of}-axis tick label"] text`)];
              const boxes = texts.map((text) => text.getBoundingClientRect());
              const [start, end] = of === 'x' ? ['left', 'right'] : ['top', 'bottom'];
              boxes.sort((a, b) => a[start] - b[start]);
              return boxes.slice(1).filter((box, i) => box[start] < boxes[i][end] - 4).map((box) => [of, box[start]]);
            }))"""
        )
        assert overlaps == []


def test_an_interval_of_noise_does_not_widen_the_axis_without_end(entry, write_into, tmp_path, visit) -> None:
    noise = [10.0 ** (power % 7 - 3) for power in range(9)]
    rows = [entry(us=1.0, data=noise), entry("triton/softmax/auto", us=0.5, data=[time / 2 for time in noise])]
    path = tmp_path / "noise.html"
    write_page(load([write_into(tmp_path, rows)]), path, title="Noise")
    page = visit(path=path)
    ticks = page.page.locator("#ratios [aria-label='x-axis tick label'] text").all_text_contents()
    assert 2 <= len(ticks) <= 30 and all(0.1 < float(tick) < 10 for tick in ticks)
    assert page.sideways() == []


def test_results_without_a_figure_are_tables_that_sort(entry, write_into, tmp_path, visit) -> None:
    rows = [entry(id, us=us, clock="submit") for id, us in (("torch/softmax/eager", 2.0), ("triton/softmax/auto", 1.0))]
    path = tmp_path / "submit.html"
    write_page(load([write_into(tmp_path, rows)]), path, title="Submit")
    page = visit(path=path)
    page.page.get_by_role("button", name="way of calling").click()
    names = page.page.locator("table").first.locator("tbody th").all_text_contents()
    assert names == ["torch/softmax/eager", "triton/softmax/auto"] and page.page.locator("figure").count() == 0


def test_on_paper_figures_fit_and_the_screen_comes_back(visit) -> None:
    page = visit(color_scheme="dark")
    page.page.emulate_media(media="print")
    page.page.set_viewport_size({"width": PAPER[0], "height": PAPER[1]})
    page.page.wait_for_timeout(500)  # what the new size has drawn, a moment later, is drawn by now
    page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert set(page.page.evaluate(DRAWN)) == {690}  # drawn for paper, not shrunk to it
    assert page.page.evaluate("document.documentElement.scrollWidth") == PAPER[0]
    assert page.page.locator("#filters:visible, .tools:visible, details:not([open]):visible").count() == 0
    page.page.emulate_media(media="screen")
    page.page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.page.set_viewport_size({"width": 1280, "height": 900})
    page.until(f"{DRAWN}.every((width) => width > 1000)")


def test_printed_pages_hold_the_points_of_the_figures(visit, page_file) -> None:
    page = visit(SOFTMAX)
    page.page.add_style_tag(content=".legend, .dot { display: none !important }")
    found = looks.looks(load([page_file.with_name("results.json")]).groups[0].rows)
    shown = {found[f"{backend}/softmax/auto"].colour for backend in ("cupy", "numba", "triton")}
    assert shown <= strokes(page.page.pdf(format="A4"))
    page.page.add_style_tag(content="figure { display: none !important }")
    assert not shown & strokes(page.page.pdf(format="A4"))


def test_twenty_thousand_results_are_drawn_sorted_and_searched(entry, write_into, tmp_path, visit) -> None:
    ids = ["torch/softmax/eager", *(f"{backend}/softmax/auto" for backend in ("cupy", "numba", "triton", "mine"))]
    shapes = [(rows, columns) for rows in range(1, 51) for columns in range(64, 64 + 80)]
    entries = [entry(id, shape, 5.0 + i / 7) for i, id in enumerate(ids) for shape in shapes]
    assert len(entries) == 20_000
    path = tmp_path / "many.html"
    write_page(load([write_into(tmp_path, entries)]), path, title="Many")
    page = visit(path=path)
    assert page.page.evaluate("document.querySelectorAll('#results tbody tr').length") < 1000
    page.page.get_by_label("Search in every result").fill("mine 50, 143")
    page.until("document.querySelectorAll('#results tbody tr').length === 1")
    assert page.column("shape") == ["(50, 143)"]


def strokes(pdf: bytes) -> set[str]:
    """The colours that lines are drawn in."""
    assert pdf.startswith(b"%PDF")
    found = set()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            content = zlib.decompress(stream)
        except zlib.error:  # not compressed, so no page
            continue
        for colour in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) RG\b", content):
            found.add("#" + "".join(f"{round(255 * float(part)):02x}" for part in colour))
    return found
