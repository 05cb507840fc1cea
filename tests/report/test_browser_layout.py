"""The page in a real browser: it fits a telephone's screen, a window that changes, and paper."""

import re
import zlib

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")
pytest.importorskip("playwright", reason="drives the browser: pip install playwright")

from browser import DRAWN, MARKS, WIDTHS

from kernelzoo.report import load, looks
from kernelzoo.report.page import write_page

PAPER = (703, 1032)  # CSS pixels of A4 between margins of 12 mm
SOFTMAX = "#device=nvidia-h200-device-clock&op=softmax&dtype=float32"

pytestmark = [pytest.mark.slow, *MARKS]


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
def test_a_view_s_heading_stands_below_the_filters(visit, width) -> None:
    page = visit(f"{SOFTMAX}&view=results", viewport={"width": width, "height": 844})
    edges = "(e => [at('filters'), e].map((e) => e.getBoundingClientRect()))(at('results').firstElementChild)"
    bar, heading = page.page.evaluate(edges)
    assert bar["bottom"] <= heading["top"] < bar["bottom"] + 32


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
    page = visit("#y=ratio", path=path)
    ticks = page.page.locator("#limit [aria-label='y-axis tick label'] text").all_text_contents()
    assert 2 <= len(ticks) <= 30 and all(0.1 < float(tick) < 10 for tick in ticks)
    assert page.sideways() == []


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


@pytest.mark.nightly
def test_printed_pages_hold_the_points_of_the_figures(visit, page_file) -> None:
    page = visit(SOFTMAX)
    page.page.add_style_tag(content=".legend, .icon { display: none !important }")
    found = looks.marker_styles(load([page_file.with_name("results.json")]).groups[0].rows)
    shown = {found[f"{backend}/softmax/auto"].colour for backend in ("cupy", "numba", "triton")}
    assert shown <= strokes(page.page.pdf(format="A4"))
    page.page.add_style_tag(content="figure { display: none !important }")
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
