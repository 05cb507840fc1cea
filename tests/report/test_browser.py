"""The page in a real browser: it draws, follows its filters and address, and asks nothing of a network."""

from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2: pip install 'kernelzoo[report]'")
pytest.importorskip("playwright", reason="drives the browser: pip install playwright")

from browser import MARKS, WIDTHS

from kernelzoo.report import load
from kernelzoo.report.page import write_page

ROOT = Path(__file__).parents[2]
SOFTMAX = "#device=nvidia-h200-device-clock&op=softmax&dtype=float32"

SLOWER = 5
"""By how much a busy machine may be slower than one that is read on."""

pytestmark = [pytest.mark.slow, *MARKS]

BARS = ["triton/auto", "cupy/auto", "torch/eager", "numba/auto"]


def bars(page) -> list[str]:
    found = page.page.locator("#score [aria-label='y-axis tick label'] text").all_text_contents()
    return [name for name in found if not name.startswith("best peer")]


@WIDTHS
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_on_a_headline_and_a_chart_without_an_error_or_a_request(visit, width, scheme) -> None:
    page = visit(viewport={"width": width, "height": 844}, color_scheme=scheme, is_mobile=width < 500)
    assert page.page.title() == "softmax, float32, NVIDIA H200, device clock · On a telephone and on paper"
    assert page.page.locator("#question").text_content() == "Which softmax is the fastest on NVIDIA H200, device clock?"
    assert page.page.locator("#headline").text_content().startswith("Fastest: triton/auto, with 1.")
    assert page.page.locator("#shapes").text_content() == "float32, 100 shapes: (4096, 256) to (16, 262144)."
    assert "each result was right" in page.page.locator("#checked").text_content()
    assert "one problem needs six samples; a score's interval" in page.page.locator("#reading").text_content()
    chart = page.page.locator("#score .plot svg").bounding_box()
    assert chart["y"] + chart["height"] < 844  # on the first screen
    assert page.page.locator("#score [aria-label='x-axis tick label'] text").last.text_content() == "1 = limit"
    assert page.points("limit") == 4 * 100
    assert page.page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [width] * 2
    assert page.sideways() == []
    ground, words = page.page.evaluate(
        "[getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.querySelector('#limit svg text')).fill]"
    )
    dark = ("rgb(20, 23, 28)", "rgb(230, 233, 237)")
    assert (ground, words) == (dark if scheme == "dark" else ("rgb(255, 255, 255)", "rgb(26, 29, 33)"))


def test_the_first_chart_waits_for_no_other(visit) -> None:
    page = visit()
    at, others = page.page.evaluate("besideFirstChart")
    assert others == 0 and page.page.locator("#limit .plot svg").count() > 0
    assert at < 1000 * SLOWER  # milliseconds


def test_filters_drive_every_figure_the_table_and_the_address(visit) -> None:
    page = visit(SOFTMAX)
    assert page.points("limit") == 400 and bars(page) == BARS
    page.choose("class", "short")
    assert page.points("limit") == 4 * 8 and "class=short" in page.address()
    page.press("cupy")
    assert page.points("limit") == 3 * 8 and "off=cupy" in page.address() and "cupy/auto" not in bars(page)
    assert {name.split("/")[0] for name in page.column("implementation")} == {"torch", "numba", "triton"}
    page.choose("variants", "all")
    assert page.points("limit") == (3 + 6 + 1) * 8
    page.choose("op", "min")
    assert page.page.title().startswith("min, float32") and "Which min" in page.page.locator("#question").text_content()
    assert page.page.locator(".scroll[data-op=min]:visible").count() > 0
    assert page.page.locator(".scroll[data-op=softmax]:visible").count() == 0
    page.choose("op", "softmax")
    page.choose("class", "")
    page.choose("dtype", "all")
    assert {"float16 (8, 8)", "float32 (4096, 256)"} <= set(page.column("shape"))
    page.choose("device", "some-cpu-2-cores-wall-clock")
    assert "on Some <CPU> | 2 cores" in page.page.locator("#question").text_content()
    assert page.page.locator("#nvidia-h200-device-clock").is_hidden()


def test_what_is_switched_off_stays_off_and_nothing_else_does(visit) -> None:
    page = visit(f"{SOFTMAX}&off=cupy")
    page.choose("device", "some-script-alert-1-script-gpu-device-clock")
    assert {name.split("/")[0].split(" ")[0] for name in bars(page)} == {"torch", "a", "b", "c"}
    page.press("a")
    page.choose("device", "nvidia-h200-device-clock")
    assert "off=cupy%2Ca" in page.address() or "off=cupy,a" in page.address()
    assert bars(page) == ["triton/auto", "torch/eager", "numba/auto"]
    assert page.page.locator("#headline").text_content() == "Fastest of those shown: triton/auto."
    for name in ("triton", "numba", "torch"):
        page.press(name)
    assert len(bars(page)) == 4  # all are off, so none is
    page = visit("#op=min&dtype=float32&off=cupy,torch,triton")
    page.press("triton")
    assert bars(page) == ["torch/eager"] and page.address().endswith("&off=cupy,triton")
    assert page.page.evaluate("document.activeElement.textContent") == "triton"  # drawn again, with the focus


def test_the_baseline_is_drawn_above_what_it_hides_beneath(visit) -> None:
    page = visit(f"{SOFTMAX}&variants=all")
    last = page.page.evaluate("shownRows().at(-1).name")
    assert last == "torch/eager"


def test_an_address_brings_back_its_view(visit) -> None:
    page = visit(f"{SOFTMAX}&class=odd&variants=all&off=torch,cupy,numba&y=speed&sort=GB/s:down&q=781&view=results")
    assert page.page.locator("#filters select[data-key=class]").input_value() == "odd"
    assert set(page.column("shape")) == {"(1823, 781)"} and len(page.column("shape")) == 6
    speeds = [float(text) for text in page.column("GB/s")]
    assert speeds == sorted(speeds, reverse=True)
    assert page.page.locator("#limit .roofline").count() == 1
    page.until("document.querySelector('#results').getBoundingClientRect().top < innerHeight")
    moved = "&".join(part for part in page.address().split("&") if not part.startswith("q="))
    page.page.evaluate("hash => { location.hash = hash; }", moved.replace("off=torch,cupy", "off=torch,triton"))
    page.until("document.querySelector('#results th[scope=row]').textContent.startsWith('cupy')")


@pytest.mark.parametrize("said", ["#op=%3Cimg%3E&dtype=x&off=,,&one=__proto__&sort=constructor&class=toString", "#x=1"])
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
    page = visit(f"{SOFTMAX}&off=torch,cupy,numba")
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
    source = "kernelzoo/kernels/triton/softmax/choose.py"
    details.get_by_text(source).click()
    page.until("document.querySelector('#details .source').textContent.includes('def auto')")
    assert details.locator(".source").text_content() == (ROOT / source).read_text("utf-8")
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
    assert page.page.evaluate(hollow.format("limit")) == 2
    texts = page.page.locator("#limit svg [aria-label=text] text").all_text_contents()
    assert any("~" in text for text in texts) and any("†" in text for text in texts)
    said = page.page.locator("#marks").text_content()  # where it first stands
    assert "† breaks the contract" in said and "~ disturbed" in said
    page.page.locator("#results tbody").get_by_role("button", name="c/library †").click()
    assert "NaN is <b>dropped</b>" in page.page.locator("#details").text_content()


def test_results_without_a_figure_are_tables_that_sort(entry, write_into, tmp_path, visit) -> None:
    rows = [entry(id, us=us, clock="submit") for id, us in (("torch/softmax/eager", 2.0), ("triton/softmax/auto", 1.0))]
    path = tmp_path / "submit.html"
    write_page(load([write_into(tmp_path, rows)]), path, title="Submit")
    page = visit(path=path)
    page.page.get_by_role("button", name="way of calling").click()
    names = page.page.locator("table").first.locator("tbody th").all_text_contents()
    assert names == ["torch/softmax/eager", "triton/softmax/auto"] and page.page.locator("figure").count() == 0


@pytest.mark.nightly
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


@pytest.fixture(scope="module")
def sampled(entry, write_into, tmp_path_factory):
    """Results with samples and energy, where a chooser took a form of ours."""
    counted = {"launches": 40_000, "span_ms": 400.0, "launch_us": 10.0, "step_ms": 100.0, "step_mj": 4e4}
    ids = ("torch/softmax/eager", *(f"{name}/softmax/{of}" for name in ("cupy", "triton") for of in ("auto", "split")))
    rows = [
        entry(
            id,
            shape,
            data=[(5.0 + i) * size + j / 100 for j in range(9)],
            energy=counted | {"launch_mj": (2.0 + i) * size},
            form=id.replace("auto", "fused"),
        )
        for i, id in enumerate(ids)
        for size, shape in ((1, (64, 1024)), (2, (128, 1024)))
    ]
    rows += [entry(f"cupy/{op}/v{i}", dtype="bfloat16") for op in ("min", "softmax") for i in range(20)]
    path = tmp_path_factory.mktemp("sampled") / "sampled.html"
    write_page(load([write_into(path.parent, rows)]), path, title="Sampled")
    return path


def test_any_two_have_an_interval_where_there_are_samples(visit, sampled) -> None:
    page = visit("#variants=all&one=triton/split&other=cupy/split", path=sampled)
    page.until("document.querySelector('#compare tbody td.slower, #compare tbody td.faster')")
    assert page.column("time cupy/split / triton/split", "#compare") == ["0.78", "0.78"]
    intervals = [text.split(" to ") for text in page.column("95 % interval", "#compare")]
    assert all(0.7 < float(low) <= 0.78 <= float(high) < 0.8 for low, high in intervals)
    assert page.column("verdict", "#compare") == ["faster", "faster"]
    assert page.page.locator("#compare .note").count() == 0
    assert page.column("cupy/split, mJ", "#compare") == ["4.00", "8.00"]


def test_energy_has_a_chart_and_columns_of_its_own(visit, sampled) -> None:
    page = visit("#view=energy", path=sampled)
    assert page.address().startswith("#op=softmax&dtype=float32")  # in the operations' order, not the letters'
    assert page.points("energy") == 3 * 2
    page.choose("variants", "all")
    assert page.points("energy") == 5 * 2
    point = page.page.locator("#energy [aria-label=dot] circle, #energy [aria-label=dot] path").first
    point.hover()
    said = page.page.locator("#energy [aria-label=tip]").text_content()
    assert "mJ" in said and "J/GB" in said and "W" in said
    point.click()
    assert "mJ" in page.page.locator("#details").text_content()
    page.page.locator("#results thead").get_by_role("button", name="J/GB").click()
    energies = [float(text) for text in page.column("J/GB")]
    assert energies == sorted(energies) and len(energies) == 10


def test_without_energy_there_is_no_chart_of_it(visit) -> None:
    page = visit(SOFTMAX)
    assert page.page.locator("#energy").is_hidden()
    assert "J/GB" not in page.page.locator("#results thead").text_content()
