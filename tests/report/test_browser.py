"""The page in a real browser: it draws, stays on a telephone's screen and on paper, and asks nothing of any network."""

import re
import shutil
import zlib
from pathlib import Path

import pytest

pytest.importorskip("plotly", reason="the page needs plotly: pip install 'kernelzoo[report]'")
pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")
pytest.importorskip("playwright", reason="drives the browser: pip install playwright")

from playwright import sync_api

from kernelzoo.report import load, plots
from kernelzoo.report.page import write_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic"),
)
AUTOS = ["torch/eager", "cupy/auto", "numba/auto", "triton/auto"]
PAPER = (703, 1032)  # CSS pixels of A4 between margins of 12 mm

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
        entry(id, shape, data=[10.0] * 9, **told)
        for id in ("torch/softmax/eager", "a/softmax/auto")
        for shape in shapes
    ]
    failed = {"id": "a/softmax/b", "op": "softmax", "shape": [8, 8], "dim": 1, "dtype": "float32"}
    ours = {"format": 1, "failed": [failed | {"outcome": "wrong", "reason": "very " * 100 + "x" * 300}]}
    folder = tmp_path_factory.mktemp("page")
    results = load([write_into(folder, sweep + host + odd, ours=ours)])
    path = folder / "report.html"
    write_page(
        results, path, against=load([write_into(folder, sweep + host, "old.json")]), title="On a telephone and on paper"
    )
    return path


class Visit:
    """A page that is open, and all that it did which it shouldn't."""

    def __init__(self, browser, path: Path, **context) -> None:
        self.trouble: list[str] = []
        context.setdefault("viewport", {"width": 1280, "height": 900})
        self.context = browser.new_context(offline=True, **context)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.trouble.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on(
            "request", lambda request: self.trouble.append(request.url) if request.url != path.as_uri() else None
        )
        self.page.goto(path.as_uri())
        self.until("document.querySelectorAll('.plot .main-svg').length > 0")

    def until(self, holds: str) -> None:
        """Wait for a condition. Playwright's own way takes the page's leave to evaluate, which its policy refuses."""
        for _ in range(100):
            if self.page.evaluate(holds):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came: {holds}")

    def lines(self, figure: int, panel: str = "xy") -> int:
        """Lines drawn in one panel of a figure, those of the limits too: paths that have a length."""
        return self.page.evaluate(
            "([i, panel]) => [...document.querySelectorAll('.plot')[i].querySelectorAll(`.${panel} path.js-line`)]"
            ".filter((path) => path.getTotalLength() > 10).length",
            [figure, panel],
        )

    def sideways(self) -> list[str]:
        """What reaches past the right edge of the screen and does not scroll in a box of its own."""
        return self.page.evaluate(
            "() => [...document.body.querySelectorAll('*')]"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
            ".filter((e) => !e.closest('.scroll, .family, .plot svg'))"
            ".map((e) => e.outerHTML.slice(0, 80))"
        )


@pytest.fixture
def visit(browser, page_file):
    visits: list[Visit] = []

    def make(**context) -> Visit:
        visits.append(Visit(browser, page_file, **context))
        return visits[-1]

    yield make
    for made in visits:
        made.context.close()
    assert [made.trouble for made in visits] == [[] for _ in visits]


def test_every_figure_is_drawn_without_an_error_or_a_request(visit) -> None:
    page = visit()
    assert page.page.locator(".plot").count() == 4
    # min and softmax on a device: ceiling and limit, then what is shown at first, in both panels; on the host, alone.
    assert [page.lines(i) for i in range(4)] == [2 + 2, 2 + 4, 2 + 2, 2]
    assert [page.lines(i, "x2y2") for i in range(4)] == [1 + 2, 1 + 4, 1 + 2, 0]
    heights = page.page.evaluate("[...document.querySelectorAll('.plot')].map((p) => p.getBoundingClientRect().height)")
    assert all(height >= 500 for height in heights)
    assert page.page.title() == "On a telephone and on paper"


def test_the_tools_of_a_figure_send_nothing_away(visit) -> None:
    tools = visit().page.locator(".plot").first.locator(".modebar-btn")
    titles = tools.evaluate_all("all => all.map((tool) => tool.dataset.title)")
    assert titles and not [title for title in titles if re.search("share|cloud|edit|send|upload", title, re.IGNORECASE)]


def test_legend_shows_and_hides_lines_by_mouse_and_keyboard(visit) -> None:
    page = visit()
    figure = page.page.locator("figure").nth(1)
    button = figure.get_by_role("button", name="triton/fused", exact=True)
    assert button.get_attribute("aria-pressed") == "false" and page.lines(1) == 6
    button.click()
    assert button.get_attribute("aria-pressed") == "true" and (page.lines(1), page.lines(1, "x2y2")) == (7, 6)
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "false" and page.lines(1) == 6
    figure.get_by_role("button", name="torch/eager", exact=True).press("Space")
    assert page.lines(1) == 5
    figure.get_by_role("button", name="show all").click()
    assert page.lines(1) == 2 + 12 and figure.locator("[aria-pressed=false]").count() == 0
    figure.get_by_role("button", name="as at first").click()
    pressed = figure.locator("[aria-pressed=true]").evaluate_all("all => all.map(b => b.dataset.name)")
    assert sorted(pressed) == sorted(AUTOS) and page.lines(1) == 6
    assert page.lines(0) == 4  # another figure has a legend of its own


def test_hover_tells_the_numbers(visit) -> None:
    page = visit()
    page.page.locator(".plot").nth(1).scroll_into_view_if_needed()
    page.page.evaluate("Plotly.Fx.hover(document.querySelectorAll('.plot')[1], [{curveNumber: 3, pointNumber: 0}])")
    said = page.page.locator(".plot").nth(1).locator(".hoverlayer").text_content()
    assert "torch/eager" in said and "(4096, 256)" in said and "GB/s" in said and "of the limit" in said


@pytest.mark.parametrize("width", [320, 390])
def test_nothing_reaches_past_the_edge_of_a_telephone(visit, width) -> None:
    page = visit(viewport={"width": width, "height": 844}, is_mobile=True, has_touch=True)
    for closed in page.page.locator("summary").all():
        closed.click()
    assert (
        page.page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]")
        == [width] * 3
    )
    assert page.sideways() == []
    assert page.page.evaluate("[...document.querySelectorAll('.main-svg')].every((s) => s.clientWidth <= innerWidth)")
    assert page.lines(1) == 6
    boxes = page.page.evaluate(
        "[...document.querySelectorAll('.heat')].map((t) => [t.scrollWidth, t.parentElement.clientWidth])"
    )
    assert any(wide > box for wide, box in boxes)  # so there was something to scroll


def test_figures_follow_the_width_of_the_window(visit) -> None:
    page = visit()
    page.page.set_viewport_size({"width": 600, "height": 900})
    page.until("[...document.querySelectorAll('.main-svg')].every((s) => s.clientWidth < 600)")
    assert page.page.evaluate("document.documentElement.scrollWidth") == 600


def test_axis_labels_do_not_lie_on_one_another(visit) -> None:
    for context in ({}, {"viewport": {"width": 390, "height": 844}}):
        page = visit(**context)
        overlaps = page.page.evaluate(
            """() => [...document.querySelectorAll('.plot')].flatMap((plot) => ['.ytick', '.y2tick'].flatMap((kind) => {
              const boxes = [...plot.querySelectorAll(`${kind} text`)].map((t) => t.getBoundingClientRect());
              boxes.sort((a, b) => a.top - b.top);
              return boxes.slice(1).filter((box, i) => box.top < boxes[i].bottom - 3).map((box) => [kind, box.top]);
            }))"""
        )
        assert overlaps == []


def test_dark_follows_the_reader_and_paper_is_white(visit) -> None:
    page = visit(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    words = "getComputedStyle(document.querySelector('.plot .xtick text, .plot .x2tick text')).fill"
    assert page.page.evaluate(f"[{ground}, {words}]") == ["rgb(20, 23, 28)", "rgb(230, 233, 237)"]
    fills = page.page.evaluate(
        "[...new Set([...document.querySelectorAll('.plot :is(.xaxislayer-above, .yaxislayer-above, .infolayer) text')]"
        ".map((t) => getComputedStyle(t).fill))]"
    )
    assert fills == ["rgb(230, 233, 237)"]
    page.page.emulate_media(media="print")
    assert page.page.evaluate(f"[{ground}, {words}]") == ["rgb(255, 255, 255)", "rgb(26, 29, 33)"]


def test_on_paper_figures_fit_and_hold_what_is_shown_and_the_screen_comes_back(visit) -> None:
    page = visit(viewport={"width": PAPER[0], "height": PAPER[1]})
    page.page.emulate_media(media="print")
    page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.page.evaluate(
        "[...new Set([...document.querySelectorAll('.main-svg')].map((s) => s.clientWidth))]"
    ) == [680]
    assert page.page.evaluate("document.documentElement.scrollWidth") == PAPER[0]
    assert page.sideways() == []
    figure = page.page.locator("figure").nth(1)
    visible = figure.locator("button:visible").evaluate_all("all => all.map(b => b.dataset.name)")
    assert sorted(visible) == sorted(AUTOS)
    assert page.page.locator("details:visible").count() == 0
    page.page.emulate_media(media="screen")
    page.page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.page.set_viewport_size({"width": 1280, "height": 900})
    page.until("[...document.querySelectorAll('.main-svg')].every((s) => s.clientWidth > 1000)")


def test_printed_pages_hold_the_lines_of_the_figures(visit, page_file) -> None:
    page = visit()
    page.page.evaluate("document.querySelectorAll('.legend, .dot').forEach((e) => e.remove())")
    looks = plots.styles(load([page_file.with_name("results.json")]).groups[0].rows)
    shown = {looks[f"{backend}/softmax/{variant}"].colour for backend, variant in (name.split("/") for name in AUTOS)}
    assert shown <= strokes(page.page.pdf(format="A4"))
    page.page.evaluate("document.querySelectorAll('.plot').forEach((e) => e.remove())")
    assert not shown & strokes(page.page.pdf(format="A4"))


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
